# SPDX-License-Identifier: Apache-2.0
"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as the API server applies them."""

import re
from typing import Any

import msgspec

from trainwright.controller.local.apiserver.merge.errors import MalformedPatchError, UnappliedPatchError
from trainwright.controller.local.values import TOO_DEEP, copied, equal, is_too_deep, read_json

Document = dict[str, Any]


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


COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the `copy` operations of a patch may add up to, as on a default API server."""

_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_encode = msgspec.json.Encoder().encode


def json_patch(document: Any, body: bytes) -> Any:
    """The document after a JSON patch; it is not changed.

    Where the API server's library leaves the RFC: `replace` of an absent key adds it; an index may be negative and
    counts from the end; `copy` of an absent key makes a null. The caller limits the operations (`operation_count`).

    Raises:
        MalformedPatchError: the body is not a list of operations, or the result is nested too deeply.
        UnappliedPatchError: an operation cannot be done, or a test fails.
    """
    # The root is an item of an object, as everything else: all paths but "" lead into it.
    around = {"": copied(document)}
    added = 0
    for operation in _operations(body):
        name = operation.get("op")
        try:
            added += _apply(around, operation)
        except UnappliedPatchError as error:
            raise UnappliedPatchError(f"{name} of {operation.get('path')}: {error.cause}") from error
        if added > COPY_LIMIT:
            raise UnappliedPatchError(f"the copies of this patch add {added} bytes, exceeding the limit {COPY_LIMIT}")
    if is_too_deep(around[""]):
        raise MalformedPatchError(f"the result of the patch {TOO_DEEP}")
    return around[""]


def operation_count(body: bytes) -> int:
    """The number of operations in a JSON patch, of which the API server allows 10,000.

    Raises:
        MalformedPatchError: the body is not a list of operations.
    """
    return len(_operations(body))


def _operations(body: bytes) -> list[Document]:
    try:
        operations = read_json(body)
    except ValueError as error:
        raise MalformedPatchError(f"error decoding patch: {error}") from error
    if operations is None:
        return []
    if type(operations) is not list or not all(one is None or type(one) is dict for one in operations):
        raise MalformedPatchError("error decoding patch: expected a list of operations")
    for operation in filter(None, operations):
        for name in ("op", "path", "from"):
            if type(operation.get(name, "")) not in (str, type(None)):
                raise MalformedPatchError(f"error decoding patch: {name} of an operation is not a string")
    return [operation or {} for operation in operations]


def _apply(root: Document, operation: Document) -> int:
    """Do an operation. Returns the bytes that it copied."""
    name, value = operation.get("op"), operation.get("value")
    if name not in ("add", "remove", "replace", "move", "copy", "test"):
        raise UnappliedPatchError(f"Unexpected kind: {'unknown' if name is None else name}")
    size = 0
    if name in ("move", "copy"):
        container, key = _find(root, operation, "from")
        value = _take(container, key) if name == "move" else copied(_get(container, key))
        size = len(_encode(value)) if name == "copy" and value is not None else 0
    if operation.get("path") == "" and name in ("replace", "test"):
        container, key = root, ""
        if name == "replace" and type(value) not in (dict, list):
            raise UnappliedPatchError("replace operation value must be object or array")
    else:
        container, key = _find(root, operation, "path")
    match name:
        case "remove":
            _take(container, key)
        case "replace":
            container[_index(container, key) if type(container) is list else key] = value
        case "test":
            found = _get(container, key)
            if type(found) is not type(value) or not equal(found, value):
                raise UnappliedPatchError("the value is another one")
        case _:
            _insert(container, key, value)
    return size


def _find(root: Document, operation: Document, name: str) -> tuple[Any, str]:
    """The object or list that holds what a path names, and the key in it."""
    path = operation.get(name)
    if path is None:
        raise UnappliedPatchError(f"{name} is missing")
    # What stands before the first slash is ignored, as the library does.
    keys = [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]
    found: Any = root[""] if keys else None
    for key in keys[:-1]:
        found = _get(found, key) if type(found) in (dict, list) else None
    if type(found) not in (dict, list):
        raise UnappliedPatchError(f"nothing is at {path}")
    return found, keys[-1]


def _position(key: str) -> int:
    if not _INDEX.fullmatch(key) or len(key) > 19:
        raise UnappliedPatchError(f"'{key}' is no index")
    return int(key)


def _index(items: list[Any], key: str) -> int:
    """The index of an item that is there."""
    position = _position(key)
    if not -len(items) <= position < len(items):
        raise UnappliedPatchError(f"there is no item {position}")
    return position % len(items)


def _get(container: Any, key: str) -> Any:
    return container[_index(container, key)] if type(container) is list else container.get(key)


def _take(container: Any, key: str) -> Any:
    if type(container) is list:
        return container.pop(_index(container, key))
    if key not in container:
        raise UnappliedPatchError(f"there is no {key}")
    return container.pop(key)


def _insert(container: Any, key: str, value: Any) -> None:
    if type(container) is dict:
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        position, places = _position(key), len(container) + 1
        if not -places <= position < places:
            raise UnappliedPatchError(f"there is no item {position}")
        container.insert(position % places, value)
