# SPDX-License-Identifier: Apache-2.0
"""YAML as Kubernetes reads it, with the line of every value.

PyYAML's own constructors turn `1:30` into ninety, `2026-11-20` into a date and `1e3` into text, and they keep the last
of two equal keys. Kubernetes does none of that. This module handles documents and positions, and does not know schemas.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"^[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$")
_INFINITE = re.compile(r"^[-+]?\.(inf|Inf|INF)$")

Path = tuple[str | int, ...]
"""Keys and indices from the top of a document to a value."""


class ManifestError(ValueError):
    """The text is not YAML that Kubernetes accepts. `line` counts from one."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.reason = message


class Document:
    """One YAML document as plain data, with the line of each value."""

    def __init__(self, data: Any, lines: dict[Path, int]) -> None:
        self.data = data
        self._lines = lines

    def line(self, path: Path) -> int:
        """The line of the value at `path`, or of the nearest value around it."""
        while path not in self._lines:
            if not path:
                return 1
            path = path[:-1]
        return self._lines[path]

    def items(self) -> Iterator["Document"]:
        """The entries of a List, as kubectl prints several objects."""
        lines: dict[str | int, dict[Path, int]] = defaultdict(dict)
        for path, line in self._lines.items():
            if path[:1] == ("items",) and len(path) > 1:
                lines[path[1]][path[2:]] = line
        items = self.data.get("items")
        for index, entry in enumerate(items if isinstance(items, list) else ()):
            yield Document(entry, lines[index])


DEEPEST = 200
"""Levels of nesting. The parser is recursive, in C: some thousand more end the process. Kinds have under a hundred."""


def check_depth(text: str) -> None:
    """Raise `ManifestError` for a text that is nested too deeply to be parsed."""
    # Each level takes a bracket, or a place further right on its line.
    if text.count("[") + text.count("{") <= DEEPEST and max(map(len, text.splitlines()), default=0) <= DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                raise ManifestError(line, f"it is nested more than {DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def documents(text: str) -> Iterator[Document]:
    """All documents of a text, empty ones left out. Raises `ManifestError`."""
    try:
        check_depth(text)
        for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
            lines: dict[Path, int] = {}
            data = _construct(node, (), lines)
            if data is not None:
                yield Document(data, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ManifestError(*(_open_quote(text, line) or (line, _explain(text, line, error)))) from error
    except yaml.YAMLError as error:
        raise ManifestError(1, str(error)) from error


def load(text: str) -> Any:
    """The only document of a text, as plain data; `None` for an empty text."""
    found = list(documents(text))
    if len(found) > 1:
        raise ManifestError(found[1].line(()), "only one document is expected here")
    return found[0].data if found else None


class _Dumper(yaml.CSafeDumper):
    """Writes no anchors, and quotes text that would be read as another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, data: str) -> yaml.Node:
        if "\n" in data:
            return self.represent_scalar(_TAG + "str", data, style="|")
        return self.represent_scalar(_TAG + "str", data, style=None if _is_text(data) else "'")


_Dumper.add_representer(str, _Dumper.represent_text)


def dump(data: Any, *, sort_keys: bool = True) -> str:
    """YAML text of plain data that `load` and Kubernetes read back as the same data; keys sorted or as they are."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=sort_keys, width=120, allow_unicode=True, default_flow_style=False)


def _is_text(text: str) -> bool:
    """Whether the text, written without quotes, is read as text."""
    return text not in _NULL | _TRUE | _FALSE and isinstance(_number(text), str)


def _explain(text: str, line: int, error: yaml.MarkedYAMLError) -> str:
    rows = text.splitlines()
    if line <= len(rows) and re.match(r"^ *\t", rows[line - 1]):
        return "YAML cannot be indented with tabs; use spaces"
    return error.problem or error.context or "not YAML"


def _open_quote(text: str, line: int) -> tuple[int, str] | None:
    """Where the quote begins that makes a line wrong, and what to say of it; None if quotes are not the reason."""
    last = None
    try:
        for token in yaml.scan(text, Loader=yaml.CSafeLoader):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                last = token
    except yaml.MarkedYAMLError as error:
        if error.context_mark is not None and "quoted scalar" in (error.context or ""):
            return error.context_mark.line + 1, "a quote begins here and is never closed"
    if last is None or last.end_mark.line + 1 not in (line, line - 1):
        return None
    row = text.splitlines()[last.end_mark.line]
    after = row[last.end_mark.column :].strip()
    if not after or after[0] in ",:]}#":
        return None
    where = f"on line {last.end_mark.line + 1}, before {after!r}"
    return last.start_mark.line + 1, f"a quote begins here and ends {where}: close it, or double a quote that is text"


def _construct(node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, index), lines) for index, item in enumerate(node.value)]
    return scalar(node)


def _mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    given: set[str] = set()
    for key_node, value_node in node.value:
        if key_node.tag == _TAG + "merge":
            sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for source in reversed(sources):
                # Kubernetes lets merged keys replace those before them, other than YAML says.
                data.update(_construct(source, path, lines))
            continue
        name = key(key_node)
        if name in given:
            raise ManifestError(key_node.start_mark.line + 1, f"key {name!r} appears twice")
        given.add(name)
        data[name] = _construct(value_node, (*path, name), lines)
        lines[(*path, name)] = key_node.start_mark.line + 1
    lines[path] = node.start_mark.line + 1
    return data


def key(node: yaml.Node) -> str:
    """The key that a node is in JSON. Raises `ManifestError`."""
    if not isinstance(node, yaml.ScalarNode):
        raise ManifestError(node.start_mark.line + 1, "a key must be text")
    value = scalar(node)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def scalar(node: yaml.Node) -> Any:
    """The value of a node that is neither a mapping nor a sequence."""
    text: str = node.value
    if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"', "|", ">"):
        return text
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return _number(text)


def _number(text: str) -> int | float | str:
    if _INTEGER.match(text):
        return _integer(text.replace("_", ""))
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    if _INFINITE.match(text):
        return -math.inf if text.startswith("-") else math.inf
    return text


def _integer(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").lower()
    if digits.startswith(("0b", "0o", "0x")):
        return sign * int(digits, 0)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)
