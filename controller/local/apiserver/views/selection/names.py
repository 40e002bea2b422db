# SPDX-License-Identifier: Apache-2.0
"""What is wrong with label keys and values, in the words of the API server.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

import re

from trainwright.controller.local.apiserver.merge.apply.values import quoted

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_ENDS = "and must start and end with an alphanumeric character"
_NAME_RULE = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
)
_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS} "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_is_name = re.compile(_NAME).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch


def label_key_problems(key: str) -> list[str]:
    """What is wrong with a label's key; nothing if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        if len(prefix.encode()) > 253:
            problems.append("prefix part must be no more than 253 bytes")
        if not _is_subdomain(prefix):
            problems.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _is_name(name):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """What is wrong with a label's value; nothing if it is valid."""
    problems = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    if value and not _is_name(value):
        problems.append(_VALUE_RULE)
    return problems


def invalid(field: str, value: str, problem: str) -> str:
    """A field error as it is printed."""
    return f"{field}: Invalid value: {quoted(value)}: {problem}"
