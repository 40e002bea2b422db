# SPDX-License-Identifier: Apache-2.0
"""Bodies of patches, read as the API server reads them."""

import json
import math
import re
from typing import Any

import msgspec

from trainwright.api.manifest import DEEPEST
from trainwright.controller.local.apiserver.merge.nesting import TOO_DEEP, is_too_deep
from trainwright.controller.local.apiserver.merge.patch.errors import Document, MalformedPatchError

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_decode = msgspec.json.Decoder().decode


def read_json(body: bytes) -> Any:
    """Decode JSON as Kubernetes does: integers beyond 64 bits become floats, broken UTF-8 is replaced.

    Raises:
        ValueError: it is not JSON, or it is nested too deeply.
    """
    try:
        value = _read_slowly(body) if _LONG_NUMBER.search(body) else _decode(body)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _read_slowly(body)
    # Most bodies have too few brackets for that.
    if body.count(b"{") + body.count(b"[") > DEEPEST and is_too_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def _read_slowly(body: bytes) -> Any:
    """Decode what is well-formed for Go and not for msgspec: broken UTF-8, halves of surrogate pairs, long numbers."""
    try:
        text = body.decode(errors="replace")
        value = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_no_constant)
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    return _decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _integer(text: str) -> float:
    if len(text) > 20:
        return _float(text)
    number = int(text)
    return number if -(2**63) <= number < 2**63 else float(number)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is too large")
    return number


def read_merge_patch(body: bytes) -> Document | None:
    """Decode a JSON merge patch; None for null, which `merge_patch` refuses.

    Raises:
        MalformedPatchError: it is not a JSON object.
    """
    try:
        return _object(body)
    except ValueError as error:
        raise MalformedPatchError(f"error decoding patch: {error}") from error


def read_strategic_patch(body: bytes) -> Document:
    """Decode a strategic merge patch; null is an empty patch.

    Raises:
        MalformedPatchError: it is not a JSON object.
    """
    try:
        return _object(body) or {}
    except ValueError as error:
        raise MalformedPatchError(str(error)) from error


def _object(body: bytes) -> Document | None:
    value = read_json(body)
    if value is not None and type(value) is not dict:
        raise ValueError("expected an object")
    return value
