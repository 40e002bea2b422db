# SPDX-License-Identifier: Apache-2.0
"""Classifies changes of the schemas since the last release by their effect on stored objects and on existing clients.

It compares two schemas of one kind, with references expanded. The schemas of the last release are files in
api/released/, one for each kind, and are not read from an earlier commit: a checkout may have none, and on a branch the
last commit may contain the change that is to be checked. Beside them lie the acknowledged breaking changes.
"""

import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.api.manifest import ManifestError, documents
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.crd import expand
from trainwright.codegen.definition import Kind, Problems, Schema


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


FOLDER = "api/released"
ACKNOWLEDGED = f"{FOLDER}/acknowledged.yaml"
_EMPTY = """\
# SPDX-License-Identifier: Apache-2.0
# Changes since the last release that break something and are meant. Each entry repeats what the check said:
#
# - kind: TrainJob
#   path: spec.trainer.numNodes
#   change: minimum 0 became 1
#   reason: why it is worth it, and what users do about it
#
# `python -m trainwright.codegen --release` makes the current schemas the released ones and empties this list.
[]
"""
_WORDS = {"kind", "path", "change", "reason"}


def snapshot(catalog: Catalog) -> dict[str, str]:
    """The files of a release, by path below the checkout."""
    files = {
        f"{FOLDER}/{kind.name.lower()}.json": json.dumps(_described(catalog, kind), indent=1, sort_keys=True) + "\n"
        for kind in _ours(catalog)
    }
    return {**files, ACKNOWLEDGED: _EMPTY}


def changes(catalog: Catalog, root: Path) -> list[SchemaChange]:
    """All differences from the last release, safe or not."""
    found: list[SchemaChange] = []
    current = {kind.name: _described(catalog, kind) for kind in _ours(catalog)}
    for path in sorted((root / FOLDER).glob("*.json")):
        old = json.loads(path.read_text(encoding="utf-8"))
        new = current.get(old["kind"])
        if new is None:
            found.append(
                SchemaChange(old["kind"], "", "kind removed", Impact.BREAKS_CLIENTS, "its objects are not served")
            )
            continue
        found.extend(
            SchemaChange(
                old["kind"], "", f"{word} {old[word]} became {new[word]}", Impact.NEW_VERSION, "it is another kind"
            )
            for word in ("apiVersion", "plural", "namespaced")
            if old[word] != new[word]
        )
        found.extend(compare(old["kind"], old["schema"], new["schema"]))
    return found


def unacknowledged(found: list[SchemaChange], root: Path, problems: Problems) -> list[SchemaChange]:
    """The breaking changes that are not acknowledged. Entries that match no change are problems."""
    path = root / ACKNOWLEDGED
    meant = dict(_acknowledged(path, problems)) if path.exists() else {}
    breaking = [change for change in found if change.impact is not Impact.SAFE]
    fitting = {(change.kind, change.path, change.what) for change in breaking}
    for entry, line in meant.items():
        if entry not in fitting:
            problems.add(ACKNOWLEDGED, line, "", f"the schemas have no such change: {entry[0]} {entry[1]}: {entry[2]}")
    return [change for change in breaking if (change.kind, change.path, change.what) not in meant]


def _acknowledged(path: Path, problems: Problems) -> Iterator[tuple[tuple[str, str, str], int]]:
    try:
        for document in documents(path.read_text(encoding="utf-8")):
            for index, entry in enumerate(document.data):
                line = document.line((index,))
                texts = entry.values() if isinstance(entry, dict) and set(entry) == _WORDS else [None]
                if not all(isinstance(text, str) for text in texts):
                    wanted = ", ".join(sorted(_WORDS))
                    problems.add(ACKNOWLEDGED, line, "", f"an entry must have the text fields {wanted}")
                    continue
                yield (entry["kind"], entry["path"], entry["change"]), line
    except ManifestError as error:
        problems.add(ACKNOWLEDGED, error.line, "", error.reason)


def _ours(catalog: Catalog) -> list[Kind]:
    return [kind for kind in catalog.authored_kinds() if not kind.definition.package.foreign]


def _described(catalog: Catalog, kind: Kind) -> Schema:
    package = kind.definition.package
    return {
        "apiVersion": f"{package.group}/{package.version}",
        "kind": kind.name,
        "plural": kind.plural,
        "namespaced": kind.namespaced,
        "schema": _without_prose(expand(catalog, kind.definition.schema, root=True)),
    }


def _without_prose(schema: Any) -> Any:
    """Descriptions and messages may change at any time."""
    if isinstance(schema, list):
        return [_without_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    prose = {"description", "message"}
    return {
        word: _without_prose(value) for word, value in schema.items() if not (word in prose and isinstance(value, str))
    }
