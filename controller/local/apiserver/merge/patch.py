# SPDX-License-Identifier: Apache-2.0
"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as the API server applies them."""

import re
from typing import Any

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.values import TOO_DEEP, copied, equal, is_too_deep, json_text, read_json

Document = dict[str, Any]


class UnappliedPatchError(StatusError):
    """An operation of a JSON patch fails, or a patch merges lists of lists.

    Attributes:
        cause: which operation, and why. The API server keeps that to itself; it is for logs.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(422, "Invalid", "the server rejected our request due to an error in our request", {})
        self.cause = cause


def read_patch(body: bytes, kind: type = dict) -> Any:
    """Decode a patch, of this type or null. Raises StatusError (400)."""
    try:
        value = read_json(body)
    except ValueError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    if type(value) is not kind and value is not None:
        raise errors.bad_request(f"error decoding patch: expected {'an object' if kind is dict else 'a list'}")
    return value


def merge_patch(document: Document, patch: Document | None) -> Document:
    """The document after a merge patch; neither is changed. Raises StatusError (400) for null.

    Unlike the RFC, and like the API server's library: nulls of objects inside a new list are dropped.
    """
    if patch is None:
        raise errors.bad_request("Invalid JSON Patch")
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
            into[key] = without_nulls(value)
        elif type(value) is dict:
            _merge(present, value)
        else:
            into[key] = copied(value)


def without_nulls(value: Any) -> Any:
    """A value without the fields that are null; nulls that are items stay."""
    if type(value) is dict:
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if type(value) is list:
        return [without_nulls(inner) for inner in value]
    return value


OPERATIONS = 10_000
"""How many a patch may have."""
COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the `copy` operations of a patch may add up to, as on a default API server."""
_NAMES = (str, type(None))
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)


def json_patch(document: Any, body: bytes) -> Any:
    """The document after a JSON patch; it is not changed.

    Where the API server's library leaves the RFC: `replace` of an absent key adds it; an index may be negative and
    counts from the end; `copy` of an absent key makes a null.

    Raises:
        StatusError: the body is not a list of operations, or the result is nested too deeply (400); there are too many
            (413); an operation cannot be done, or a test fails (422, UnappliedPatchError).
    """
    operations = read_patch(body, list) or ()
    if len(operations) > OPERATIONS:
        told = f"The allowed maximum operations in a JSON patch is {OPERATIONS}, got {len(operations)}"
        raise errors.too_large(told)
    # The root is an item of an object, as everything else: all paths but "" lead into it.
    around, copies = {"": copied(document)}, 0
    for operation in (one or {} for one in operations):
        try:
            copies += _apply(around, operation)
            if copies > COPY_LIMIT:
                raise UnappliedPatchError(f"the copies add more than {COPY_LIMIT} bytes")
        except UnappliedPatchError as error:
            raise UnappliedPatchError(f"{operation.get('op')} of {operation.get('path')}: {error.cause}") from error
    if is_too_deep(around[""]):
        raise errors.bad_request(f"the result of the patch {TOO_DEEP}")
    return around[""]


def _apply(root: Document, operation: Any) -> int:
    """Do an operation. Returns the bytes that it copied."""
    if type(operation) is not dict or any(type(operation.get(key, "")) not in _NAMES for key in ("op", "path", "from")):
        raise errors.bad_request("error decoding patch: an operation is an object with op, path and from as strings")
    name, value = operation.get("op"), operation.get("value")
    if name not in ("add", "remove", "replace", "move", "copy", "test"):
        raise UnappliedPatchError(f"Unexpected kind: {'unknown' if name is None else name}")
    size = 0
    if name in ("move", "copy"):
        container, key = _find(root, operation, "from")
        value = _take(container, key) if name == "move" else copied(_get(container, key))
        size = len(json_text(value)) if name == "copy" else 0
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
