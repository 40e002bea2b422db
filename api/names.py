# SPDX-License-Identifier: Apache-2.0
"""The rules for names, labels and annotations, with Kubernetes' texts.

Each function gives what is wrong with a text: nothing, or one or several sentences. Source:
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/.
"""

import re
from collections.abc import Callable

NameRule = Callable[[str], list[str]]
"""What is wrong with a name."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ENDS = "and must start and end with an alphanumeric character"
_DNS = "lower case alphanumeric characters"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(f"({_QUALIFIED})?").fullmatch


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    # Bytes are counted, also where the text speaks of characters.
    return [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []


def _unlike(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_KEY_RULE = _unlike(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}", _QUALIFIED, "MyName", "my.name", "123-abc"
)


def dns_subdomain(text: str) -> list[str]:
    """The rule of most names: labels with dots between them, 253 characters."""
    return _subdomain(text, "characters")


def _subdomain(text: str, unit: str) -> list[str]:
    found = _too_long(text, 253, unit)
    if not _is_subdomain(text):
        rule = f"a lowercase RFC 1123 subdomain must consist of {_DNS}, '-' or '.', {_ENDS}"
        found.append(_unlike(rule, _SUBDOMAIN, "example.com"))
    return found


def dns_label(text: str) -> list[str]:
    """The rule of namespaces: one label, 63 characters."""
    found = _too_long(text, 63)
    if not _is_label(text):
        if _is_subdomain(text):
            found.append("must not contain dots")
        else:
            rule = f"a lowercase RFC 1123 label must consist of {_DNS} or '-', {_ENDS}"
            found.append(_unlike(rule, _LABEL, "my-name", "123-abc"))
    return found


def dns_label_1035(text: str) -> list[str]:
    """The rule of resources: one label that begins with a letter, 63 characters."""
    found = _too_long(text, 63)
    if not _is_label_1035(text):
        rule = (
            f"a DNS-1035 label must consist of {_DNS} or '-', start with an alphabetic character, and end with an "
            "alphanumeric character"
        )
        found.append(_unlike(rule, _LABEL_1035, "my-name", "abc-123"))
    return found


def qualified(text: str) -> list[str]:
    """The rule of keys of labels and of finalizers: a name of 63 characters, with an optional DNS prefix."""
    prefix, slash, name = text.partition("/")
    if "/" in name:
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_RULE} {prefixed}"]
    found: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        found.append("prefix part must be non-empty")
    else:
        found += [f"prefix part {one}" for one in _subdomain(prefix, "bytes")]
    if not name:
        found.append("name part must be non-empty")
    found += [f"name part {one}" for one in _too_long(name, 63, "bytes")]
    if not _is_qualified(name):
        found.append(f"name part {_KEY_RULE}")
    return found


def label_value(text: str) -> list[str]:
    """The rule of values of labels: empty, or like a key without prefix."""
    found = _too_long(text, 63, "bytes")
    if not _is_value(text):
        rule = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
        found.append(_unlike(rule, f"({_QUALIFIED})?", "MyValue", "my_value", "12345"))
    return found


def path_segment(text: str) -> list[str]:
    """The rule of names that only have to fit into a URL, such as those in embedded objects."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return path_segment_prefix(text)


def path_segment_prefix(text: str) -> list[str]:
    """The same rule for the beginning of such a name."""
    return [f"may not contain '{part}'" for part in "/%" if part in text]


def as_prefix(rule: NameRule) -> NameRule:
    """The rule for `generateName`, which may end with a hyphen. As the server does it: the last two characters are
    replaced then."""
    return lambda text: rule(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)
