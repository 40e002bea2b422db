# SPDX-License-Identifier: Apache-2.0
"""The formats of strings that an API server checks.

Source: `k8s.io/kube-openapi/pkg/validation/strfmt` and the list of formats in `apiextensions-apiserver`'s validation.
Formats that are not listed are ignored, as there.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from email.errors import HeaderParseError
from email.headerregistry import Address
from typing import Any

from trainwright.api import names

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_LOOSE_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_UNIT_NAMES = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_MACS = (r"(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){%d}[0-9A-Fa-f]{2}", r"(?:[0-9A-Fa-f]{4}\.){%d}[0-9A-Fa-f]{4}")


def _matches(pattern: str, flags: int = re.ASCII) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """A full date of RFC 3339."""
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


def is_duration(text: str) -> bool:
    """A duration of Go, or numbers with names of units such as `2 weeks`."""
    if _DURATION.fullmatch(text):
        return True
    return any(
        unit.lower() in _UNIT_NAMES or unit.lower().startswith(_UNITS) for _, unit in _LOOSE_DURATION.findall(text)
    )


def _without_zeros(address: str) -> str:
    """IPv4 numbers may have leading zeros, which Kubernetes ignores."""
    return re.sub(r"(^|[.:])0+(?=[0-9]+(?:\.|$|/))", r"\1", address) if "." in address else address


def _is_address(check: Callable[[str], Any]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        if "%" in text:
            return False
        try:
            check(text)
        except ValueError:
            return False
        return True

    return accepts


def _ipv4(text: str) -> None:
    address = ipaddress.ip_address(_without_zeros(text))
    if "." not in text:
        raise ValueError(address)


def _ipv6(text: str) -> None:
    if ":" not in text:
        raise ValueError(text)
    ipaddress.ip_address(text)


def _cidr(text: str) -> None:
    prefix = text.rpartition("/")[2]
    if "/" not in text or not (prefix.isascii() and prefix.isdecimal()):
        raise ValueError(text)
    ipaddress.ip_network(_without_zeros(text), strict=False)


def is_hostname(text: str) -> bool:
    """A host name: labels of letters, digits, hyphens and symbols; the last one of letters if there are several.

    A single label has at most one hyphen, as its second character: that is the server's pattern.
    """
    labels = text.split(".")
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in labels):
        return False
    if len(labels) == 1:
        rest = text[1:].removeprefix("-")
        return _is_ordinary(text[:1]) and (rest == "" or _is_ordinary(rest))
    return all(map(_is_label, labels[:-1])) and len(labels[-1]) >= 2 and labels[-1].isalpha()


def _is_label(label: str) -> bool:
    return _is_ordinary(label.replace("-", "a")) and label[0] != "-" and label[-1] != "-"


def _is_ordinary(text: str) -> bool:
    """Whether there are only letters, digits of ASCII and symbols, at least one."""
    kinds = (
        unicodedata.category(character)[0] for character in text if not (character.isascii() and character.isalnum())
    )
    return bool(text) and all(kind in "LS" for kind in kinds)


def is_email(text: str) -> bool:
    """An address as in a mail's header, with or without a name before `<…>`."""
    found = re.fullmatch(r"\s*(?:[^<>]*<([^<>]+)>|([^<>]+))\s*", text)
    if found is None:
        return False
    spec = (found[1] or found[2]).strip()
    if spec.count("@") < 1 or spec.endswith("@"):
        return False
    try:
        Address(addr_spec=spec)
    except (HeaderParseError, ValueError, IndexError):
        return False
    return True


def is_uri(text: str) -> bool:
    """An absolute URI or an absolute path, as Go's `url.ParseRequestURI` takes it."""
    if not text or any(character < " " or character == "\x7f" for character in text):
        return False
    if text == "*":
        return True
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", text, re.DOTALL)
    if found is None:
        return text.startswith("/") and _is_escaped(text)
    rest = found[2]
    if not rest.startswith("/"):
        return bool(rest) or ":" in text
    if not rest.startswith("//"):
        return _is_escaped(rest)
    authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
    return _is_authority(authority) and _is_escaped(rest)


def _is_authority(authority: str) -> bool:
    if authority.startswith("["):
        return re.fullmatch(r"\[[0-9A-Fa-f:.%\w]+\](:\d*)?", authority) is not None
    host, colon, port = authority.rpartition(":")
    if colon and not (port == "" or port.isdecimal()):
        return False
    return re.search(r"[ \"<>\\^`{|}]", host if colon else authority) is None


def _is_escaped(text: str) -> bool:
    return re.search(r"%(?![0-9A-Fa-f]{2})", text.partition("?")[0]) is None


_UNCHECKED = (
    *("bsonobjectid", "creditcard", "hexcolor", "isbn", "isbn10", "isbn13", "rgbcolor", "ssn"),
    "password",  # a marker for user interfaces
)
"""Formats that the server knows. Only it checks that a text has them."""

CHECKS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(_UNCHECKED, lambda _: True),
    "uri": is_uri,
    "email": is_email,
    "hostname": is_hostname,
    "ipv4": _is_address(_ipv4),
    "ipv6": _is_address(_ipv6),
    "cidr": _is_address(_cidr),
    "mac": _matches(
        "|".join(
            [_MACS[0].replace("\\1", f"\\{place}") % (count - 2) for place, count in enumerate((6, 8, 20), 1)]
            + [_MACS[1] % (count - 1) for count in (3, 4, 10)]
        )
    ),
    "uuid": _matches(_UUID % ("[0-9a-f]", "[0-9a-f]"), re.IGNORECASE | re.ASCII),
    "uuid3": _matches(_UUID % ("3", "[0-9a-f]"), re.IGNORECASE | re.ASCII),
    "uuid4": _matches(_UUID % ("4", "[89ab]"), re.IGNORECASE | re.ASCII),
    "uuid5": _matches(_UUID % ("5", "[89ab]"), re.IGNORECASE | re.ASCII),
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: not names.dns_label(text),
    "k8slongname": lambda text: not names.dns_subdomain(text),
}
"""By name without hyphens, which are ignored."""


def check_of(name: str) -> Callable[[str], bool] | None:
    """The check of a format of strings; None where the server ignores the format."""
    return CHECKS.get(name.replace("-", ""))
