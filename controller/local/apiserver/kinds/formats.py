# SPDX-License-Identifier: Apache-2.0
"""Rules of single values, and what is said of those that break them. Nothing is returned for a good value."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from trainwright.api import names
from trainwright.api.names import NameRule
from trainwright.api.quantity import Quantity
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.types.errors import DocumentError, invalid

Errors = list[DocumentError]

_CONFIG_KEY = re.compile("[-._a-zA-Z0-9]+")
_LONGEST_KEY = 253
_LONGEST_PORT_NAME = 15
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def port_number(port: int) -> list[str]:
    """A port of TCP or UDP."""
    return [] if 1 <= port <= 65_535 else ["must be between 1 and 65535, inclusive"]


def port_name(name: str) -> list[str]:
    """A port's name (RFC 6335, lower case)."""
    good = re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name) and re.search("[a-z]", name)
    if good and len(name) <= _LONGEST_PORT_NAME:
        return []
    return [f"must be at most {_LONGEST_PORT_NAME} of a-z, 0-9 and single hyphens within, with a letter"]


def port_or_name(port: int | str) -> list[str]:
    """A port that is given by number or by name."""
    return port_name(port) if isinstance(port, str) else port_number(port)


def variable_name(name: str) -> list[str]:
    """The name of an environment variable."""
    if name.isascii() and name.isprintable() and "=" not in name:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(key: str) -> list[str]:
    """A key of a ConfigMap or Secret, which becomes the name of a file."""
    if len(key) <= _LONGEST_KEY and _CONFIG_KEY.fullmatch(key) and not key.startswith("..") and key != ".":
        return []
    return [f"must be at most {_LONGEST_KEY} of {_CONFIG_KEY.pattern}, and neither '.' nor begin with '..'"]


def ip_address(address: str) -> list[str]:
    """An address of IPv4 or IPv6. Leading zeros are taken, as Kubernetes always did."""
    try:
        ipaddress.ip_address(re.sub(r"(^|\.)0+(?=\d)", r"\1", address) if ":" not in address else address)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def ip_range(value: str) -> list[str]:
    """A range of addresses."""
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    return []


def no_backsteps(path: str) -> list[str]:
    """A path that does not lead upwards."""
    return ["must not contain '..'"] if ".." in path.split("/") else []


def descending_path(path: str) -> list[str]:
    """A relative path that does not lead upwards."""
    return ["must be a relative path"] if path.startswith("/") else no_backsteps(path)


def file_path(path: str) -> list[str]:
    """The path of a file in a volume. Names that begin with two dots are the kubelet's."""
    return ["must not start with '..'"] if path.startswith("..") else descending_path(path)


def finalizer(name: str) -> list[str]:
    """A finalizer without a domain must be one of Kubernetes' own."""
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    return ["name is neither a standard finalizer name nor is it fully qualified"]


def share(value: int | str) -> list[str]:
    """A number of pods, or a percentage of them."""
    if isinstance(value, int):
        return [] if value >= 0 else ["must be greater than or equal to 0"]
    good = re.fullmatch("[0-9]+%", value) and int(value[:-1]) <= 100
    return [] if good else ["must be a number, or a percentage such as 10%, of at most 100%"]


def limit_type(name: str) -> list[str]:
    """What a limit of a LimitRange is of: a type that Kubernetes knows, or one with a domain."""
    few = [] if "/" in name or name in _LIMIT_TYPES else ["must be a standard limit type or fully qualified"]
    return names.qualified(name) or few


def webhook_name(name: str) -> list[str]:
    """The name of a webhook: a domain with three segments."""
    few = ["should be a domain with at least three segments separated by dots"]
    return names.dns_subdomain(name) or (few if name.count(".") < 2 else [])


def domain_path(text: str) -> list[str]:
    """A path below a domain, such as the name of a controller: `acme.io/foo`."""
    host, _, path = text.partition("/")
    if not host or not path or not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", path):
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    return names.dns_subdomain(host)


def one_line(text: str) -> list[str]:
    """A text that is not blank, and without line breaks."""
    if text and not text.strip():
        return ["must be non-empty if specified"]
    return ["must not contain line breaks"] if re.search(r"[\n\r]", text.strip()) else []


NAME_RULES: Mapping[str, NameRule] = {
    "label": names.dns_label,
    "subdomain": names.dns_subdomain,
    "dns1035": names.dns_label_1035,
    "path_segment": names.path_segment,
}
"""Rules of names of objects."""
FORMATS: Mapping[str, Callable[[Any], list[str]]] = {
    **NAME_RULES,
    "qualified": names.qualified,
    "label_value": names.label_value,
    "annotation": lambda key: names.qualified(key.lower()),
    "subdomain_prefix": names.as_prefix(names.dns_subdomain),
    "finalizer": finalizer,
    "port": port_number,
    "port_name": port_name,
    "port_or_name": port_or_name,
    "variable": variable_name,
    "header": lambda name: [] if re.fullmatch("[-A-Za-z0-9]+", name) else ["is no name of an HTTP header"],
    "config_key": config_key,
    "ip": ip_address,
    "cidr": ip_range,
    "share": share,
    "no_backsteps": no_backsteps,
    "descending_path": descending_path,
    "file_path": file_path,
    "absolute_path": lambda path: [] if path.startswith("/") else ["must be an absolute path"],
    "unpadded": lambda text: [] if text == text.strip() else ["must not have leading or trailing whitespace"],
    "limit_type": limit_type,
    "webhook_name": webhook_name,
    "domain_path": domain_path,
    "host": lambda name: names.dns_subdomain(name.removesuffix(".")),
    "positive_quantity": lambda value: [] if Quantity.parse(value).nanos > 0 else ["must be greater than zero"],
    "one_line": one_line,
    "not_blank": lambda text: [] if text.strip() else ["must not be empty"],
}
"""Formats of values by their names in rules: what is wrong with a value, nothing for a good one."""


def immutable_errors(new: Any, old: Any, field: str) -> Errors:
    """A value that an update may not change. Absent, empty and null are the same."""
    if same(new, old):
        return []
    return [invalid(field, new, IMMUTABLE)]


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
