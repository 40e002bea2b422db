# SPDX-License-Identifier: Apache-2.0
"""Rules of single values, and what is said of those that break them. Nothing is returned for a good value."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from trainwright.api import names
from trainwright.api.names import NameRule
from trainwright.api.quantity import Quantity
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.types.errors import DocumentError, invalid

Errors = list[DocumentError]
Format = Callable[[Any], list[str]]
"""What is wrong with a value; nothing for a good one."""

_FIELD_OF_FILE = r"metadata\.(name|namespace|uid)|metadata\.(annotations|labels)\['[-./\w]+'\]"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def _test(passes: Callable[[Any], object], told: str) -> Format:
    return lambda value: [] if passes(value) else [told]


def _matching(pattern: str, told: str) -> Format:
    return _test(re.compile(pattern, re.DOTALL).fullmatch, told)


def _reads(read: Callable[[Any], object], told: str) -> Format:
    def problems(value: Any) -> list[str]:
        try:
            read(value)
        except ValueError:
            return [told]
        return []

    return problems


def _address(text: str) -> object:
    """An address of IPv4 or IPv6. Leading zeros are taken, as Kubernetes always did."""
    return ipaddress.ip_address(re.sub(r"(^|\.)0+(?=\d)", r"\1", text) if ":" not in text else text)


_port_number = _test(range(1, 65_536).__contains__, "must be between 1 and 65535, inclusive")
_port_name = _matching(
    "(?=.*[a-z])(?=.{1,15}$)[a-z0-9]+(-[a-z0-9]+)*",
    "must be at most 15 of a-z, 0-9 and single hyphens within, with a letter",
)


def _webhook_name(name: str) -> list[str]:
    few = ["should be a domain with at least three segments separated by dots"]
    return names.dns_subdomain(name) or (few if name.count(".") < 2 else [])


def _domain_path(text: str) -> list[str]:
    """A path below a domain, such as the name of a controller: `acme.io/foo`."""
    host, _, path = text.partition("/")
    if not host or not path or not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", path):
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    return names.dns_subdomain(host)


def _is_webhook_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.scheme == "https" and parts.netloc) and not ("@" in parts.netloc or parts.query or parts.fragment)


NAME_RULES: Mapping[str, NameRule] = {
    "label": names.dns_label,
    "subdomain": names.dns_subdomain,
    "dns1035": names.dns_label_1035,
    "path_segment": names.path_segment,
}
"""Rules of names of objects."""
FORMATS: Mapping[str, Format] = {
    **NAME_RULES,
    "qualified": names.qualified,
    "label_value": names.label_value,
    "annotation": lambda key: names.qualified(key.lower()),
    "subdomain_prefix": names.as_prefix(names.dns_subdomain),
    "finalizer": _test(
        lambda name: "/" in name or name in _STANDARD_FINALIZERS,
        "name is neither a standard finalizer name nor is it fully qualified",
    ),
    "api_version": _matching("([^/]*/)?[^/]+", "must be a group and a version, such as apps/v1"),
    "dotted": _test(lambda name: not name or "." in name, "should be a domain with at least one dot"),
    "mixed_case": lambda name: names.dns_label_1035(name.lower()),
    "printable": _test(str.isprintable, "must only contain printable characters"),
    "dotted_path": _matching(r"\..*", "must be a JSON path that begins with a dot"),
    "path_of_spec": _matching(r"\.spec\..*", "must be a JSON path that begins with .spec."),
    "path_of_status": _matching(r"\.status\..*", "must be a JSON path that begins with .status."),
    "path_of_part": _matching(r"\.(spec|status)\..*", "must be a JSON path that begins with .spec. or .status."),
    "port": _port_number,
    "port_name": _port_name,
    "port_or_name": lambda port: _port_name(port) if isinstance(port, str) else _port_number(port),
    "variable": _matching("[ -<>-~]*", "must consist only of printable ASCII characters other than '='"),
    "field_of_variable": _matching(
        _FIELD_OF_FILE + r"|spec\.(nodeName|serviceAccountName)|status\.(host|pod)IPs?",
        "is no field of a pod that a variable can show",
    ),
    "field_of_file": _matching(
        _FIELD_OF_FILE + r"|metadata\.(annotations|labels)", "is no field of a pod that a file can show"
    ),
    "identifier": _matching(
        "(?!(as|break|const|continue|else|false|for|function|if|import|in|let|loop|namespace|null|package|return|true|var"
        "|void|while)$)[_a-zA-Z][_a-zA-Z0-9]*",
        "must be a valid CEL identifier",
    ),
    "indexes": _matching("|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", "must be indexes and ranges, such as 0,2-4"),
    "header": _matching("[-A-Za-z0-9]+", "is no name of an HTTP header"),
    "config_key": _matching(
        r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}",
        "must be at most 253 of [-._a-zA-Z0-9], and neither '.' nor begin with '..'",
    ),
    "ip": _reads(_address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    "no_backsteps": _test(lambda path: ".." not in path.split("/"), "must not contain '..'"),
    "descending_path": _matching(r"(?!/)(?!(.*/)?\.\.(/|$)).*", "must be a relative path without '..'"),
    "file_path": _matching(r"(?!/)(?!\.\.)(?!.*/\.\.(/|$)).*", "must be a relative path without '..'"),
    "absolute_path": _test(lambda path: path.startswith("/"), "must be an absolute path"),
    "unpadded": _test(lambda text: text == text.strip(), "must not have leading or trailing whitespace"),
    "webhook_name": _webhook_name,
    "webhook_url": _test(_is_webhook_url, "must be an https URL of host and path alone"),
    "domain_path": _domain_path,
    "host": lambda name: names.dns_subdomain(name.removesuffix(".")),
    "positive_quantity": _test(lambda value: Quantity.parse(value).nanos > 0, "must be greater than zero"),
    "unreserved": _test(lambda name: not name.startswith("system-"), "names that begin with 'system-' are reserved"),
    "one_line": _matching(r"|(?=.*\S)\s*[^\n\r]*\s*", "must be one line that is not blank"),
    "not_blank": _test(str.strip, "must not be empty"),
}
"""Formats of values by their names in rules."""


def immutable_errors(new: Any, old: Any, field: str) -> Errors:
    """A value that an update may not change. Absent, empty and null are the same."""
    return [] if same(new, old) else [invalid(field, new, IMMUTABLE)]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to Go's semantic comparison: nothing and an empty list or map are."""
    if one is other or one == other:
        return True
    if one is None or other is None:
        return (one if other is None else other) in ({}, [], "")
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(key), other.get(key)) for key in {*one, *other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return False
