# SPDX-License-Identifier: Apache-2.0
"""JSON merge patch (RFC 7386, https://www.rfc-editor.org/rfc/rfc7386)."""

from typing import Any

from trainwright.controller.local.apiserver.merge.copying import copied
from trainwright.controller.local.apiserver.merge.patch.errors import Document, MalformedPatchError


def merge_patch(document: Document, patch: Any) -> Document:
    """The document after a merge patch; neither is changed.

    Unlike the RFC, and like the API server's library: nulls of objects inside a new list are dropped.

    Raises:
        MalformedPatchError: the patch is not an object.
    """
    if patch is None:
        raise MalformedPatchError("Invalid JSON Patch")
    if type(patch) is not dict:
        raise MalformedPatchError("error decoding patch: expected an object")
    merged: Document = copied(document)
    _merge(merged, patch)
    return merged


def _merge(into: Document, patch: Document) -> None:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
            continue
        present = into.get(key)
        if type(present) is not dict:
            into[key] = _without_nulls(value)
        elif type(value) is dict:
            _merge(present, value)
        else:
            into[key] = copied(value)


def _without_nulls(value: Any) -> Any:
    if type(value) is dict:
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if type(value) is list:
        # Nulls that are items stay.
        return [_without_nulls(inner) for inner in value]
    return value
