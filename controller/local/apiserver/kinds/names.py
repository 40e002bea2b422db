# SPDX-License-Identifier: Apache-2.0
"""Which names objects, labels and fields may have, and what is said of those that may not.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/. Each function returns what is wrong: nothing
for a good name.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from trainwright.api.surroundings import letters

NameRule: TypeAlias = Callable[[str, bool], list[str]]
"""Checks a name; the flag says that more characters will follow, as with `generateName`."""

_LABEL_FORMAT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORMAT = rf"{_LABEL_FORMAT}(\.{_LABEL_FORMAT})*"
_DNS1035_FORMAT = "[a-z]([-a-z0-9]*[a-z0-9])?"
_VALUE_FORMAT = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_QUALIFIED_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL, _SUBDOMAIN, _DNS1035 = (re.compile(text) for text in (_LABEL_FORMAT, _SUBDOMAIN_FORMAT, _DNS1035_FORMAT))
_VALUE, _QUALIFIED = re.compile(_VALUE_FORMAT), re.compile(_QUALIFIED_FORMAT)

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_DNS1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: without vowels, so that no words come out."""
_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX


def _with_format(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _too_many_bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def label(name: str, prefix: bool = False) -> list[str]:
    """RFC 1123 label: at most 63 characters, no dots."""
    name = _completed(name, prefix)
    errors = [_too_long(63)] if len(name) > 63 else []
    if not _LABEL.fullmatch(name):
        whole = _SUBDOMAIN.fullmatch(name)
        errors.append(
            "must not contain dots" if whole else _with_format(_LABEL_TEXT, _LABEL_FORMAT, "my-name", "123-abc")
        )
    return errors


def subdomain(name: str, prefix: bool = False) -> list[str]:
    """RFC 1123 subdomain: at most 253 characters."""
    name = _completed(name, prefix)
    errors = [_too_long(253)] if len(name) > 253 else []
    if not _SUBDOMAIN.fullmatch(name):
        errors.append(_with_format(_SUBDOMAIN_TEXT, _SUBDOMAIN_FORMAT, "example.com"))
    return errors


def dns1035(name: str, prefix: bool = False) -> list[str]:
    """RFC 1035 label: begins with a letter."""
    name = _completed(name, prefix)
    errors = [_too_long(63)] if len(name) > 63 else []
    if not _DNS1035.fullmatch(name):
        errors.append(_with_format(_DNS1035_TEXT, _DNS1035_FORMAT, "my-name", "abc-123"))
    return errors


def path_segment(name: str, prefix: bool = False) -> list[str]:
    """Anything that can be part of a path."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{text}'" for text in ("/", "%") if text in name]


def _completed(name: str, prefix: bool) -> str:
    """A prefix may end with a dash, since more follows."""
    return name[:-1] + "a" if prefix and len(name) > 1 and name.endswith("-") else name


def qualified(key: str) -> list[str]:
    """A key of labels or annotations, a finalizer: an optional DNS prefix, a slash, a name of at most 63 characters."""
    parts = key.split("/")
    if len(parts) > 2:
        text = f"a valid label key {_with_format(_QUALIFIED_TEXT, _QUALIFIED_FORMAT, 'MyName', 'my.name', '123-abc')}"
        return [f"{text} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {message}" for message in subdomain(parts[0])]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        errors.append(f"name part {_too_many_bytes(63)}")
    if not _QUALIFIED.fullmatch(name):
        errors.append(f"name part {_with_format(_QUALIFIED_TEXT, _QUALIFIED_FORMAT, 'MyName', 'my.name', '123-abc')}")
    return errors


def label_value(value: str) -> list[str]:
    """A value of a label."""
    errors = [_too_many_bytes(63)] if len(value.encode()) > 63 else []
    if not _VALUE.fullmatch(value):
        errors.append(_with_format(_VALUE_TEXT, _VALUE_FORMAT, "MyValue", "my_value", "12345"))
    return errors


def generated(base: str) -> str:
    """A name for `generateName`: the base, cut if it is long, and five random characters."""
    return base[:_LONGEST_BASE] + letters(_ALPHABET, _SUFFIX)
