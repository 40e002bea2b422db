# SPDX-License-Identifier: Apache-2.0
"""Makes answers comparable: what differs from run to run is replaced by what it has in common.

Uids and generated names are numbered by their first appearance, versions of objects by rank. The version of a list
becomes the rank of the newest object that it can have seen, since a server also writes for itself. Times are all the
same; tokens are what they claim. Managed fields are sorted, since their order hangs on whether a second has passed.
"""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b(\d{4})-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_KNOWN_TIMES = 2022
"""Times before this year stand in the scenarios."""
_TOKEN = re.compile(r"\beyJ[\w-]+\.([\w-]+)\.[\w-]+")
_GO_TIME = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_QUOTED = re.compile(r'"\{\\".*?[^\\]\}"(?=: |$)')
_ADMINISTRATORS = ("control-plane-admin", "kubernetes-admin")
"""Of the test kit and of a local cluster."""
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_ACCESS = re.compile(rf"\b(kube-api-access-){_SUFFIX}\b")
_NAMED_VERSION = re.compile(r"((?:resource version:|current:|ResourceVersion in the precondition|record) \(?)(\d+)")
_OLDEST = re.compile(r"(too old resource version: \S+ \()\d+")
_BASE = 58
"""What is left of the base of a generated name, in characters."""
_AGE = re.compile(r"^(\d+[ydhms])+$")


def normal(answers: list[dict[str, Any]], prefixes: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The answers of a scenario, made comparable; `prefixes` are those that it lets names be generated from."""
    made: list[dict[str, Any]] = _sorted(answers)
    versions = sorted({int(version) for version in _versions(made)})
    ranks = {str(version): f"<version {rank}>" for rank, version in enumerate(versions, 1)}
    generated = [re.compile(rf"(?<![\w-])({re.escape(prefix[:_BASE])})({_SUFFIX})(?![\w-])") for prefix in prefixes]
    numbers: dict[str, int] = {}
    uids: dict[str, str] = {}

    def text(value: str) -> str:
        for pattern in generated:
            value = pattern.sub(
                lambda match: f"{match[1]}<5 generated #{numbers.setdefault(match[0], len(numbers) + 1)}>", value
            )
        value = _TOKEN.sub(_claims, value)
        value = _QUOTED.sub(_document, value)
        value = _UID.sub(lambda match: uids.setdefault(match[0], f"<uid {len(uids) + 1}>"), value)
        value = _TIME.sub(_time, value)
        value = _GO_TIME.sub("<time>", value)
        value = _PORT.sub("127.0.0.1:<port>", value)
        value = _ACCESS.sub(r"\1<5 generated>", value)
        value = _NAMED_VERSION.sub(r"\1<version>", value)
        return _OLDEST.sub(r"\1<version>", value)

    def seen(version: str) -> str:
        return f"<list after {bisect_right(versions, int(version))}>"

    result: list[dict[str, Any]] = _walk(made, text, ranks, seen)
    return result


def _claims(match: re.Match[str]) -> str:
    """What a token says, with times counted from its own."""
    claims = json.loads(base64.urlsafe_b64decode(match[1] + "=="))
    began = claims["iat"]
    for one in (claims, claims.get("kubernetes.io", {})):
        for name in ("iat", "nbf", "exp", "warnafter"):
            if name in one:
                one[name] -= began
    return f"<token {json.dumps(claims, sort_keys=True)}>"


def _document(match: re.Match[str]) -> str:
    """A document that a message quotes, with its keys in order and without its version."""
    try:
        document = json.loads(json.loads(match[0]))
    except ValueError:
        return match[0]
    for one in _dictionaries(document):
        one.pop("resourceVersion", None)
    return json.dumps(json.dumps(document, sort_keys=True))


def _time(match: re.Match[str]) -> str:
    if int(match[1]) < _KNOWN_TIMES:
        return match[0]
    return f"<time with {len(match[2]) - 1} digits>" if match[2] else "<time>"


def _sorted(value: Any) -> Any:
    """With keys in their order, so that appearance means the same on both sides, and managed fields sorted."""
    if isinstance(value, dict):
        made = {key: _sorted(value[key]) for key in sorted(value)}
        if isinstance(made.get("managedFields"), list):
            made["managedFields"] = sorted(made["managedFields"], key=_entry_key)
        if made.get("username") in _ADMINISTRATORS:
            made.pop("uid", None)
        causes = made.get("causes")
        if isinstance(causes, list) and any(one.get("reason") == "FieldManagerConflict" for one in causes):
            # The real server goes through its managers in no order.
            made["causes"] = sorted(causes, key=lambda one: (one["field"], one["message"]))
        if isinstance(made.get("frames"), list):
            made["frames"] = _single_bookmarks(made["frames"])
        return made
    if isinstance(value, list):
        return [_sorted(inner) for inner in value]
    return value


def _single_bookmarks(frames: list[Any]) -> list[Any]:
    """Several bookmarks in a row say no more than the last one; how many there are hangs on the moment."""
    pairs = zip(frames, [*frames[1:], None], strict=False)
    return [one for one, after in pairs if not (_is_bookmark(one) and _is_bookmark(after))]


def _is_bookmark(frame: Any) -> bool:
    return isinstance(frame, dict) and frame.get("type") == "BOOKMARK"


def _entry_key(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("manager", "operation", "apiVersion", "subresource"))


def _walk(value: Any, text: Callable[[str], str], ranks: dict[str, str], seen: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_walk(inner, text, ranks, seen) for inner in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, inner in value.items():
        if key == "username" and inner in _ADMINISTRATORS:
            made[key] = "<administrator>"
        elif key == "resourceVersion" and isinstance(inner, str) and inner.isdigit() and inner != "0":
            made[key] = ranks.get(inner, "") if _is_object(value) else ""
            made[key] = made[key] or seen(inner)
        elif key == "continue" and isinstance(inner, str) and inner:
            made[key] = "<continue>"
        elif key == "rows" and "columnDefinitions" in value:
            made[key] = [_row(_walk(row, text, ranks, seen)) for row in inner]
        else:
            made[text(key)] = _walk(inner, text, ranks, seen)
    return made


def _row(row: dict[str, Any]) -> dict[str, Any]:
    cells = ["<age>" if isinstance(cell, str) and _AGE.match(cell) else cell for cell in row["cells"]]
    return {**row, "cells": cells}


def _is_object(metadata: dict[str, Any]) -> bool:
    return "name" in metadata or "uid" in metadata


def _versions(value: Any) -> Iterator[str]:
    """The versions of all objects."""
    for metadata in _dictionaries(value):
        version = metadata.get("resourceVersion")
        if _is_object(metadata) and isinstance(version, str) and version.isdigit():
            yield version


def _dictionaries(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _dictionaries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _dictionaries(inner)
