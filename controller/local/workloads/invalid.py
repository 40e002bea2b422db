# SPDX-License-Identifier: Apache-2.0
"""Errors of validation, with the texts of Kubernetes' libraries, which clients match on.

Source: k8s.io/apimachinery 0.36, packages `util/validation` and `util/validation/field`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from trainwright.api.validation import DocumentError, names
from trainwright.controller.runtime import ErrorCause, Invalid

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
LABEL_LENGTH = 63
TOO_LONG_LABEL = f"must be no more than {LABEL_LENGTH} characters"


def wrong(field: str, value: Any, detail: str) -> DocumentError:
    """A value that is not allowed."""
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return DocumentError("FieldValueInvalid", field, f"Invalid value: {shown}: {detail}")


def general(detail: str) -> DocumentError:
    """An error that JobSet reports of no field. It comes out as an internal error of the field `<nil>`."""
    return DocumentError("InternalError", "<nil>", f"Internal error: {detail}")


def refusal(kind: str, name: str, errors: Iterable[DocumentError]) -> Invalid | None:
    """The error with status 422 for all of them; None if there are none. `kind` is the kind with its group."""
    found = tuple(errors)
    if not found:
        return None
    texts = list(dict.fromkeys(map(str, found)))
    together = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(
        f'{kind} "{name}" is invalid: {together}',
        code=Invalid.code,
        reason="Invalid",
        causes=tuple(ErrorCause(error.reason, error.field, error.message) for error in found),
    )


def prefixed_path_errors(field: str, value: str) -> list[DocumentError]:
    """What keeps a value from being a path with a domain before it, such as `acme.io/foo`."""
    if not value:
        return [DocumentError("FieldValueRequired", field, "Required value")]
    host, _, path = value.partition("/")
    if not host or not path:
        return [wrong(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [wrong(field, host, error) for error in names.dns_subdomain(host)]
    if not re.fullmatch(_HTTP_PATH, path):
        errors.append(wrong(field, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors
