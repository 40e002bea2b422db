# SPDX-License-Identifier: Apache-2.0
"""YAML of test cases: checked by a schema, and what is wrong is told with file and line."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator


class CaseError(Exception):
    """A file that does not fit its schema; the text begins with file and line."""


class Lined(dict[Any, Any]):
    """A mapping that knows the line on which it begins."""

    line = 1


class _Loader(yaml.CSafeLoader):
    def lined(self, node: yaml.MappingNode) -> Iterator[Lined]:
        made = Lined()
        made.line = node.start_mark.line + 1
        yield made
        made.update(self.construct_mapping(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.lined)


def load(path: Path) -> Any:
    """What the file holds, its mappings with their lines."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)


def check(path: Path, document: Any, schema: Path) -> None:
    """Check what a file holds. Raises CaseError."""
    errors = [
        f"{path.name}:{_line(document, one.absolute_path)}: {one.message}"
        for one in _validator(schema).iter_errors(document)
    ]
    if errors:
        raise CaseError("\n".join(errors))


@cache
def _validator(schema: Path) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def _line(at: Any, path: Iterable[Any]) -> int:
    """The line of the innermost mapping on the way."""
    line = at.line if isinstance(at, Lined) else 1
    for part in path:
        at = at[part]
        line = at.line if isinstance(at, Lined) else line
    return line
