# SPDX-License-Identifier: Apache-2.0
"""The formats of strings that an API server checks.

Source: `k8s.io/kube-openapi/pkg/validation/strfmt` and the list of formats in `apiextensions-apiserver`'s validation.
Formats that are not listed are ignored, as there.
"""

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from trainwright.api import names
from trainwright.controller.local.types.patterns import compiled

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_SIGN = r"[a-zA-Z0-9\p{S}\p{L}]"
_HOSTNAME = (
    rf"^({_SIGN}((-?{_SIGN}{{0,62}})?)|({_SIGN}(([a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{_SIGN})?)(\.)){{1,}}"
    r"([a-zA-Z\p{L}]){2,63})$"
)
_EMAIL = re.compile(r"\s*(?:[^<>]*<[^\s<>@]+@[^\s<>@]+>|[^\s<>@]+@[^\s<>@]+)\s*")
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_AUTHORITY = r"""(?:[^/?@]*@)?(?:\[[0-9A-Fa-f:.%\w]+\](?::\d*)?|[^/?:\s"<>\\^`{|}\[\]]*(?::\d*)?)"""
_URI = re.compile(
    rf"\*|{_SCHEME}(?!/).*|(?:{_SCHEME}(?://{_AUTHORITY}(?=[/?]|$)|/(?!/))|/)(?:%[0-9A-Fa-f]{{2}}|[^%?])*(?:\?.*)?",
    re.DOTALL,
)


def _matches(pattern: str, flags: int = re.ASCII) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    year, month, day = map(int, text.split("-"))
    try:
        # Go knows a year 0, Python does not; both have 29 days in February of leap years.
        date(year or 4, month, day)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """A time of RFC 3339, as loosely as the server reads it: no leap seconds, any zone of two digits each."""
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    found = _TIME.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_address(check: Callable[[str], Any]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            check(text)
        except ValueError:
            return False
        return "%" not in text

    return accepts


def _cidr(text: str) -> None:
    if not text.rpartition("/")[2].isdecimal():
        raise ValueError(text)
    ipaddress.ip_network(text, strict=False)


def is_uri(text: str) -> bool:
    """An absolute URI or an absolute path, as Go's `url.ParseRequestURI` takes it."""
    return _URI.fullmatch(text) is not None and not any(sign < " " or sign == "\x7f" for sign in text)


_UNCHECKED = (
    *("bsonobjectid", "creditcard", "hexcolor", "isbn", "isbn10", "isbn13", "mac", "rgbcolor", "ssn"),
    "password",  # a marker for user interfaces
)
"""Formats that the server knows. Only it checks that a text has them."""

CHECKS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(_UNCHECKED, lambda _: True),
    "uri": is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: len(text.encode()) <= 255 and compiled(_HOSTNAME).search(text),
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "cidr": _is_address(_cidr),
    **dict.fromkeys(("uuid", "uuid3", "uuid4", "uuid5"), _matches(_UUID, re.IGNORECASE | re.ASCII)),
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "date": is_date,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "datetime": is_date_time,
    "k8sshortname": lambda text: not names.dns_label(text),
    "k8slongname": lambda text: not names.dns_subdomain(text),
}
"""By name without hyphens, which are ignored."""


def check_of(name: str) -> Callable[[str], bool] | None:
    """The check of a format of strings; None where the server ignores the format."""
    return CHECKS.get(name.replace("-", ""))
