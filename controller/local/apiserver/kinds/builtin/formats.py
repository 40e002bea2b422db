# SPDX-License-Identifier: Apache-2.0
"""Rules of single values, and what is said of those that break them. Nothing is returned for a good value."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.api.validation.names import NameRule
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.apiserver.schema.errors import duplicate, forbidden, invalid, not_supported, required

Errors = list[DocumentError]

MAX_INT32 = 2**31 - 1
NEGATIVE = "must be greater than or equal to 0"
_CONFIG_KEY_FORMAT = "[-._a-zA-Z0-9]+"
_CONFIG_KEY, _PORT_NAME = re.compile(_CONFIG_KEY_FORMAT), re.compile("[-a-z0-9]+")
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_CONFIG_KEY_FORMAT}')"
)
_HEADER_FORMAT = "[-A-Za-z0-9]+"
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    f"validation is '{_HEADER_FORMAT}')"
)
_LONGEST_KEY = 253
_LONGEST_PORT_NAME = 15
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def between(low: int, high: int) -> str:
    """What is said of a number out of a range."""
    return f"must be between {low} and {high}, inclusive"


def port_number(port: int) -> list[str]:
    """A port of TCP or UDP."""
    return [] if 1 <= port <= 65_535 else [between(1, 65_535)]


def port_name(name: str) -> list[str]:
    """A port's name (RFC 6335, lower case)."""
    found = [f"must be no more than {_LONGEST_PORT_NAME} characters"] if len(name) > _LONGEST_PORT_NAME else []
    if not _PORT_NAME.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def port_errors(port: int | str | None, field: str) -> Errors:
    """A port that is given by number or by name."""
    if isinstance(port, str):
        return [invalid(field, port, text) for text in port_name(port)]
    return [invalid(field, port or 0, text) for text in port_number(port or 0)]


def variable_name(name: str) -> list[str]:
    """The name of an environment variable."""
    if all(character.isascii() and character.isprintable() and character != "=" for character in name):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(key: str) -> list[str]:
    """A key of a ConfigMap or Secret, which becomes the name of a file."""
    found = [f"must be no more than {_LONGEST_KEY} characters"] if len(key) > _LONGEST_KEY else []
    if not _CONFIG_KEY.fullmatch(key):
        found.append(_CONFIG_KEY_TEXT)
    if key in (".", ".."):
        found.append(f"must not be '{key}'")
    elif key.startswith(".."):
        found.append("must not start with '..'")
    return found


def header_name(name: str) -> list[str]:
    """The name of an HTTP header."""
    if re.fullmatch(_HEADER_FORMAT, name):
        return []
    return [_HEADER_TEXT]


def ip_errors(address: str, field: str) -> Errors:
    """An address of IPv4 or IPv6. Leading zeros are taken, as Kubernetes always did."""
    try:
        ipaddress.ip_address(re.sub(r"(^|\.)0+(?=\d)", r"\1", address) if ":" not in address else address)
    except ValueError:
        return [invalid(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def name_errors(name: str, field: str, rule: NameRule) -> Errors:
    """A name that some rule holds for."""
    return [invalid(field, name, text) for text in rule(name)]


def qualified_errors(name: str, field: str) -> Errors:
    """A name with an optional prefix, such as the key of a label."""
    return [invalid(field, name, text) for text in names.qualified(name)]


def label_errors(labels: Mapping[str, str] | None, field: str) -> Errors:
    """Keys and values of labels."""
    found: Errors = []
    for key, value in (labels or {}).items():
        found += qualified_errors(key, field)
        found += [invalid(field, value, text) for text in names.label_value(value)]
    return found


def selector_errors(selector: Document | None, field: str) -> Errors:
    """A label selector."""
    if selector is None:
        return []
    found = label_errors(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, requirement in enumerate(entries(selector, "matchExpressions")):
        where = f"{field}.matchExpressions[{index}]"
        operator, values = requirement.get("operator") or "", texts(requirement, "values")
        if operator in ("In", "NotIn"):
            if not values:
                found.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                found.append(forbidden(f"{where}.values", text))
        else:
            found.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        found += qualified_errors(requirement.get("key") or "", f"{where}.key")
        for position, value in enumerate(values):
            found += [invalid(f"{where}.values[{position}]", value, text) for text in names.label_value(value)]
    return found


def finalizer_errors(document: Document) -> Errors:
    """Finalizers in the metadata of most built-in kinds must be qualified, unless they are old ones."""
    found: Errors = []
    for index, name in enumerate(texts(part(document, "metadata"), "finalizers")):
        found += old_finalizer_errors(name, f"metadata.finalizers[{index}]")
    return found


def old_finalizer_errors(name: str, field: str) -> Errors:
    """A finalizer without a domain must be one of Kubernetes' own."""
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    return [invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")]


def choice_errors(value: str | None, field: str, supported: Iterable[str], *, sort: bool = True) -> Errors:
    """A value out of a list; required."""
    listed = sorted(supported) if sort else list(supported)
    if not value:
        return [required(field)]
    return [] if value in listed else [not_supported(field, value, listed)]


def negative_errors(value: int | None, field: str) -> Errors:
    """A number that may not be negative."""
    return [invalid(field, value, NEGATIVE)] if value is not None and value < 0 else []


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


def repeated(seen: set[str], value: str, field: str) -> Errors:
    """A value that may be there once; it is noted as seen."""
    if value in seen:
        return [duplicate(field, value)]
    seen.add(value)
    return []


def backstep_errors(path: str, field: str) -> Errors:
    """A path that may not lead upwards."""
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def descending_path_errors(path: str, field: str) -> Errors:
    """A relative path that does not lead upwards."""
    found = [invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + backstep_errors(path, field)


def file_path_errors(path: str, field: str) -> Errors:
    """The path of a file in a volume. Names that begin with two dots are the kubelet's."""
    found = descending_path_errors(path, field)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        found.append(invalid(field, path, "must not start with '..'"))
    return found
