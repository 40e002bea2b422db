# SPDX-License-Identifier: Apache-2.0
"""YAML of test cases: checked by a schema, and what is wrong is told with file and line."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

_NAME = re.compile(r"\$\{?([a-z_]+)\}?")


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


def rows_of(case: Any) -> list[Any]:
    """The case once for each row of its table."""
    if not isinstance(case, dict) or not isinstance(case.get("with"), dict):
        return [case]
    rest = Lined({key: value for key, value in case.items() if key != "with"})
    rest.line = getattr(case, "line", 1)
    rows = [(label, _filled(rest, values)) for label, values in case["with"].items()]
    for label, row in rows:
        row["name"] = f"{row.get('name')}: {label}"
    return [row for _, row in rows]


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with those of a row: a text that is a name alone is replaced by the value itself."""
    if isinstance(value, dict):
        made = Lined({_filled(key, values): _filled(one, values) for key, one in value.items()})
        made.line = getattr(value, "line", 1)
        return made
    if isinstance(value, list):
        return [_filled(one, values) for one in value]
    if isinstance(value, str) and value.startswith("$") and value[1:] in values:
        return values[value[1:]]
    if isinstance(value, str):
        return _NAME.sub(lambda found: str(values.get(found[1], found[0])), value)
    return value


def difference(wanted: Any, found: Any, path: str = "") -> str:
    """Where something is not as wanted; empty: nowhere. A text may have stars, a mapping may leave out keys."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return f"{path or '.'} is {found!r}, not {dict(wanted)!r}"
        missed = (difference(one, found.get(key), f"{path}.{key}".lstrip(".")) for key, one in wanted.items())
        return next((one for one in missed if one), "")
    if isinstance(wanted, list):
        if not isinstance(found, list | tuple) or len(found) != len(wanted):
            return f"{path or '.'} is {found!r}, not {wanted!r}"
        missed = (
            difference(one, other, f"{path}[{at}]") for at, (one, other) in enumerate(zip(wanted, found, strict=True))
        )
        return next((one for one in missed if one), "")
    if wanted == "*":
        same = found is not None
    elif isinstance(wanted, str) and isinstance(found, str):
        same = fnmatchcase(found, wanted.replace("[", "[[]")) if "*" in wanted else found == wanted
    else:
        same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
    return "" if same else f"{path or '.'} is {found!r}, not {wanted!r}"
