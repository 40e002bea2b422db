# SPDX-License-Identifier: Apache-2.0
"""The schemas of the last release, and the acknowledged breaking changes since then.

They are files in api/released/, one for each kind, and are not read from an earlier commit: a checkout may have none,
and on a branch the last commit may contain the change that is to be checked.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.api.manifest import ManifestError, documents
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.compatibility import Impact, SchemaChange, compare
from trainwright.codegen.crd import expand
from trainwright.codegen.definition import Kind, Schema
from trainwright.codegen.problems import Problems

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
