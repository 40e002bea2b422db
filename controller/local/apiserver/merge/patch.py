# SPDX-License-Identifier: Apache-2.0
"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as the API server applies them."""

import re
from typing import Any

import msgspec

from trainwright.controller.local.apiserver.merge.errors import MalformedPatchError, UnappliedPatchError
from trainwright.controller.local.values import TOO_DEEP, copied, is_too_deep, json_text, read_json

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

Operation = dict[str, msgspec.Raw]
_read_operations = msgspec.json.Decoder(list[Operation | None]).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TEXTS = ("op", "path", "from")
_encode = msgspec.json.Encoder().encode


def json_patch(document: Any, body: bytes) -> Any:
    """The document after a JSON patch; it is not changed.

    The caller limits the number of operations (`operation_count`).

    Raises:
        MalformedPatchError: the body is not a list of operations, or the result is nested too deeply.
        UnappliedPatchError: an operation cannot be done, or a test fails.
    """
    patching = _Patching(copied(document))
    for operation in _operations(body):
        patching.apply(operation)
    if is_too_deep(patching.document):
        raise MalformedPatchError(f"the result of the patch {TOO_DEEP}")
    return patching.document


def operation_count(body: bytes) -> int:
    """The number of operations in a JSON patch, of which the API server allows 10,000.

    Raises:
        MalformedPatchError: the body is not a list of operations.
    """
    return len(_operations(body))


def _operations(body: bytes) -> list[Operation | None]:
    try:
        decoded = read_json(body)
        _check(decoded)
    except ValueError as error:
        raise MalformedPatchError(f"error decoding patch: {error}") from error
    if decoded is None:
        return []
    try:
        return _read_operations(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Broken UTF-8, which was replaced in what is decoded.
        return _read_operations(_encode(decoded))


def _check(operations: Any) -> None:
    if operations is None:
        return
    if type(operations) is not list:
        raise ValueError("expected a list of operations")
    for operation in operations:
        if operation is None:
            continue
        if type(operation) is not dict:
            raise ValueError("an operation is not an object")
        for name in _TEXTS:
            value = operation.get(name)
            if value is not None and type(value) is not str:
                raise ValueError(f"{name} of an operation is not a string")


class _Patching:
    """A document, and what `copy` has added so far."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied = 0

    def apply(self, operation: Operation | None) -> None:
        fields = operation or {}
        name = _text(fields, "op")
        act = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }.get(name or "")
        if act is None:
            raise UnappliedPatchError(f"Unexpected kind: {'unknown' if name is None else name}")
        try:
            act(fields)
        except UnappliedPatchError as error:
            raise UnappliedPatchError(f"{name} of {_text(fields, 'path')}: {error.cause}") from error

    def _add(self, fields: Operation) -> None:
        path = _path(fields, "path")
        container, key = self._container(path)
        _insert(container, key, _value(fields))

    def _remove(self, fields: Operation) -> None:
        path = _path(fields, "path")
        container, key = self._container(path)
        _take(container, key)

    def _replace(self, fields: Operation) -> None:
        path, value = _path(fields, "path"), _value(fields)
        if path == "":
            if type(value) not in (dict, list):
                raise UnappliedPatchError("replace operation value must be object or array")
            self.document = value
            return
        container, key = self._container(path)
        if type(container) is list:
            container[_index(container, key)] = value
        else:
            container[key] = value

    def _move(self, fields: Operation) -> None:
        source = _path(fields, "from")
        container, key = self._container(source)
        value = _take(container, key)
        path = _path(fields, "path")
        container, key = self._container(path)
        _insert(container, key, value)

    def _copy(self, fields: Operation) -> None:
        source = _path(fields, "from")
        container, key = self._container(source)
        value = copied(_get(container, key))
        path = _path(fields, "path")
        container, key = self._container(path)
        if value is not None:
            self._copied += len(_encode(value))
        if self._copied > COPY_LIMIT:
            raise UnappliedPatchError(
                f"the copies of this patch add {self._copied} bytes, exceeding the limit {COPY_LIMIT}"
            )
        _insert(container, key, value)

    def _test(self, fields: Operation) -> None:
        path = _path(fields, "path")
        expected = fields.get("value")
        if path == "":
            found = self.document
        else:
            container, key = self._container(path)
            found = _get(container, key)
        if not _same(found, expected):
            raise UnappliedPatchError("the value is another one")

    def _container(self, path: str) -> tuple[Any, str]:
        """The object or list that holds what a path names, and the key in it."""
        # What stands before the first slash is ignored, as the library does.
        _, *keys = path.split("/")
        found = self.document if keys else None
        for key in keys[:-1]:
            try:
                found = _get(found, _unescaped(key))
            except UnappliedPatchError:
                found = None
            if type(found) not in (dict, list):
                found = None
                break
        if found is None:
            raise UnappliedPatchError(f"nothing is at {path}")
        return found, _unescaped(keys[-1])


def _unescaped(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~") if "~" in key else key


def _text(fields: Operation, name: str) -> str | None:
    raw = fields.get(name)
    return None if raw is None else msgspec.json.decode(raw, type=str | None)


def _path(fields: Operation, name: str) -> str:
    path = _text(fields, name)
    if path is None:
        raise UnappliedPatchError(f"{name} is missing")
    return path


def _value(fields: Operation) -> Any:
    raw = fields.get("value")
    return None if raw is None else read_json(bytes(raw))


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
        return
    if key == "-":
        container.append(value)
        return
    position, places = _position(key), len(container) + 1
    if not -places <= position < places:
        raise UnappliedPatchError(f"there is no item {position}")
    container.insert(position % places, value)


def _same(found: Any, expected: msgspec.Raw | None) -> bool:
    """Whether a value is the one of a test, whose JSON is given as it was sent."""
    # One level at a time: the bytes of scalars count.
    text = b"null" if expected is None else bytes(expected).strip()
    if found is None:
        return text == b"null"
    if type(found) is dict:
        if not text.startswith(b"{"):
            return False
        members = _read_members(text)
        return members.keys() == found.keys() and all(_same(found[key], inner) for key, inner in members.items())
    if type(found) is list:
        if not text.startswith(b"["):
            return False
        items = _read_items(text)
        return len(items) == len(found) and all(map(_same, found, items))
    return text == json_text(found).encode()
