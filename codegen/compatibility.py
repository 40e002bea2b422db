# SPDX-License-Identifier: Apache-2.0
"""Classifies changes of the schemas by their effect on stored objects and on existing clients.

It compares two schemas of one kind, with references expanded. It reads no files: `codegen.released` has the schemas of
the last release and the acknowledged changes.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from trainwright.codegen.definition import Schema


class Impact(Enum):
    SAFE = "safe"
    NEW_VERSION = "needs a new version"
    BREAKS_STORED = "breaks stored objects"
    BREAKS_CLIENTS = "breaks clients"


class SchemaChange(NamedTuple):
    kind: str
    path: str
    what: str
    impact: Impact
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path or '<root>'}: {self.what}: {self.impact.value}, {self.why}"


_LOWER_LIMITS = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_LIMITS = ("maximum", "maxLength", "maxItems", "maxProperties")
_SHAPE = ("type", "format", "x-kubernetes-int-or-string", "nullable")
_MERGING = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_ABSENT = object()


def compare(kind: str, old: Schema, new: Schema) -> list[SchemaChange]:
    """All differences that have a meaning, in the order of the fields."""
    return [SchemaChange(kind, path, what, impact, why) for path, what, impact, why in _compare(old, new, "")]


_Found = Iterator[tuple[str, str, Impact, str]]


def _compare(old: Schema, new: Schema, path: str) -> _Found:
    yield from _shape(old, new, path)
    yield from _default(old, new, path)
    yield from _limits(old, new, path)
    yield from _rules(old, new, path)
    yield from _fields(old, new, path)
    for word, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        before, after = old.get(word), new.get(word)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _compare(before, after, path + suffix)
        elif before != after and old.get("type") == new.get("type"):
            yield path, f"{word} changed", Impact.NEW_VERSION, "values are of another type"


def _shape(old: Schema, new: Schema, path: str) -> _Found:
    for words, why in (
        (_SHAPE, "stored values and typed clients expect the other"),
        (_MERGING, "field ownership of stored objects no longer fits"),
    ):
        for word in words:
            if old.get(word) != new.get(word):
                yield path, _became(old, new, word), Impact.NEW_VERSION, why
    word = "x-kubernetes-preserve-unknown-fields"
    if old.get(word) and not new.get(word):
        yield path, "unknown fields are dropped", Impact.BREAKS_STORED, "what is stored there is lost"


def _default(old: Schema, new: Schema, path: str) -> _Found:
    before, after = old.get("default", _ABSENT), new.get("default", _ABSENT)
    if before is _ABSENT and after is not _ABSENT:
        yield path, f"default {after!r} added", Impact.BREAKS_CLIENTS, "objects without the field mean something else"
    elif after is _ABSENT and before is not _ABSENT:
        yield path, f"default {before!r} removed", Impact.BREAKS_CLIENTS, "clients meet objects without the field"
    elif before != after:
        what = f"default {before!r} became {after!r}"
        yield path, what, Impact.BREAKS_CLIENTS, "objects without the field mean something else"


def _limits(old: Schema, new: Schema, path: str) -> _Found:
    for word in (*_LOWER_LIMITS, *_UPPER_LIMITS):
        before, after = old.get(word), new.get(word)
        if before == after:
            continue
        lower = word in _LOWER_LIMITS
        tighter = after is not None and (before is None or (after > before if lower else after < before))
        yield path, _became(old, new, word), *_limit(tighter=tighter)
    if old.get("pattern") != new.get("pattern"):
        yield path, _became(old, new, "pattern"), *_limit(tighter="pattern" in new)
    yield from _enum(old, new, path)


def _limit(*, tighter: bool) -> tuple[Impact, str]:
    if tighter:
        return Impact.BREAKS_STORED, "objects that were valid are refused when they are next changed"
    return Impact.SAFE, "more is allowed"


def _enum(old: Schema, new: Schema, path: str) -> _Found:
    before, after = old.get("enum"), new.get("enum")
    if before == after:
        return
    if before is None or after is None:
        what, tighter = ("enum added", True) if before is None else ("enum removed", False)
        yield path, what, *_limit(tighter=tighter)
        return
    for value in before:
        if value not in after:
            yield path, f"enum value {value!r} removed", *_limit(tighter=True)
    for value in after:
        if value not in before:
            yield path, f"enum value {value!r} added", *_limit(tighter=False)


def _rules(old: Schema, new: Schema, path: str) -> _Found:
    before, after = ({rule["rule"] for rule in one.get("x-kubernetes-validations", ())} for one in (old, new))
    for rule in sorted(after - before):
        yield path, f"rule {rule!r} added", *_limit(tighter=True)
    for rule in sorted(before - after):
        yield path, f"rule {rule!r} removed", *_limit(tighter=False)


def _fields(old: Schema, new: Schema, path: str) -> _Found:
    before, after = old.get("properties", {}), new.get("properties", {})
    needed_before, needed_after = set(old.get("required", ())), set(new.get("required", ()))
    for name in before:
        inner = f"{path}.{name}" if path else name
        if name not in after:
            yield inner, "field removed", Impact.BREAKS_STORED, "what is stored there is lost"
            continue
        yield from _compare(before[name], after[name], inner)
        if name in needed_after - needed_before:
            yield inner, "became required", Impact.BREAKS_STORED, "objects without it are refused"
        if name in needed_before - needed_after:
            yield inner, "became optional", Impact.BREAKS_CLIENTS, "clients meet objects without it"
    for name in after:
        if name in before:
            continue
        inner = f"{path}.{name}" if path else name
        if name in needed_after:
            yield inner, "required field added", Impact.BREAKS_STORED, "objects without it are refused"
        else:
            yield inner, "field added", Impact.SAFE, "no object has it yet"


def _became(old: Schema, new: Schema, word: str) -> str:
    before, after = (repr(schema[word]) if word in schema else "unset" for schema in (old, new))
    return f"{word} {before} became {after}"
