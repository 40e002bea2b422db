# SPDX-License-Identifier: Apache-2.0
"""Errors of validation, with the texts of Kubernetes' libraries, which clients match on.

Source: k8s.io/apimachinery 0.36, packages `util/validation` and `util/validation/field`.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trainwright.controller.runtime import ErrorCause, Invalid

_TITLES = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueTooLong": "Too long",
    "InternalError": "Internal error",
}
_DNS_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
LABEL_LENGTH = 63
TOO_LONG_LABEL = f"must be no more than {LABEL_LENGTH} characters"


@dataclass(frozen=True, slots=True)
class InvalidField:
    """One error of one field."""

    type: str
    """The reason of the cause, such as FieldValueInvalid."""
    field: str
    detail: str = ""
    value: Any = None
    """The wrong value; shown for FieldValueInvalid only."""

    def body(self) -> str:
        """The text without the field."""
        text = _TITLES[self.type]
        if self.type == "FieldValueInvalid":
            text += f": {json.dumps(self.value, ensure_ascii=False, separators=(',', ':'))}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


def wrong(field: str, value: Any, detail: str) -> InvalidField:
    """A value that is not allowed."""
    return InvalidField("FieldValueInvalid", field, detail, value)


def general(detail: str) -> InvalidField:
    """An error that JobSet reports of no field. It comes out as an internal error of the field `<nil>`."""
    return InvalidField("InternalError", "<nil>", detail)


def refusal(kind: str, name: str, errors: Iterable[InvalidField]) -> Invalid | None:
    """The error with status 422 for all of them; None if there are none. `kind` is the kind with its group."""
    found = tuple(errors)
    if not found:
        return None
    texts = list(dict.fromkeys(str(error) for error in found))
    together = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(
        f'{kind} "{name}" is invalid: {together}',
        code=Invalid.code,
        reason="Invalid",
        causes=tuple(ErrorCause(error.type, error.field, error.body()) for error in found),
    )


def dns_label_errors(value: str) -> list[str]:
    """What keeps a value from being a label of RFC 1035."""
    errors = [TOO_LONG_LABEL] if len(value) > LABEL_LENGTH else []
    if not re.fullmatch(_DNS_LABEL, value):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character"
        )
        errors.append(_pattern_error(message, _DNS_LABEL, "my-name", "abc-123"))
    return errors


def subdomain_errors(value: str) -> list[str]:
    """What keeps a value from being a subdomain of RFC 1123."""
    errors = ["must be no more than 253 characters"] if len(value) > 253 else []
    if not re.fullmatch(_SUBDOMAIN, value):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
            " start and end with an alphanumeric character"
        )
        errors.append(_pattern_error(message, _SUBDOMAIN, "example.com"))
    return errors


def label_value_errors(value: str) -> list[str]:
    """What keeps a value from being the value of a label."""
    errors = [f"must be no more than {LABEL_LENGTH} bytes"] if len(value.encode()) > LABEL_LENGTH else []
    if not re.fullmatch(_LABEL_VALUE, value):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
            " start and end with an alphanumeric character"
        )
        errors.append(_pattern_error(message, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return errors


def prefixed_path_errors(field: str, value: str) -> list[InvalidField]:
    """What keeps a value from being a path with a domain before it, such as `acme.io/foo`."""
    if not value:
        return [InvalidField("FieldValueRequired", field)]
    host, _, path = value.partition("/")
    if not host or not path:
        return [wrong(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [wrong(field, host, error) for error in subdomain_errors(host)]
    if not re.fullmatch(_HTTP_PATH, path):
        errors.append(wrong(field, path, _pattern_error("Invalid path", _HTTP_PATH)))
    return errors


def _pattern_error(message: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"
