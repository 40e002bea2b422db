# SPDX-License-Identifier: Apache-2.0
"""Whether a rule fits the schema that it is in: the fields that it names exist, and what it compares can be compared.

The compiler of the server knows the types of all fields; ours knows none. What is found here are undefined fields and
comparisons of scalars of different types. A rule that passes may still be refused by a real server, not the other way.
"""

from collections.abc import Mapping
from typing import Any

from trainwright.api.validation.cel import compiled_with_text
from trainwright.api.validation.celast import Node, Tree, read
from trainwright.controller.local.apiserver.schema.celvalues import escaped

Schema = Mapping[str, Any]
Type = Schema | str | None
"""A schema, the name of a scalar type, or None where nothing is known."""

_EQUALITY = {"_==_", "_!=_"}
_ORDER = {"_<_", "_<=_", "_>_", "_>=_"}
_NUMBERS = {"int", "uint", "double"}
_FORMATS = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_SCALARS = {"integer": "int", "number": "double", "boolean": "bool"}
_SHOWN = {"timestamp": "timestamp", "duration": "duration", "null_type": "null"}
_TEXT: Schema = {"type": "string"}
_ROOT: Mapping[str, Schema] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


def type_problems(rule: str, schema: Schema, *, root: bool, optional: bool) -> str:
    """What the server's compiler says of a rule that compiles without types; empty if nothing is known against it.

    Args:
        rule: an expression over `self` and `oldSelf`.
        schema: of the value that it is about.
        root: the value is a whole object.
        optional: `oldSelf` is an optional.
    """
    given = with_type_and_metadata(schema) if root else schema
    tree = read(compiled_with_text(rule).serialized)
    variables: dict[str, Type] = {"self": given, "oldSelf": None if optional else given}
    found = sorted(set(_Check(tree).problems(tree.root, variables)))
    lines = rule.split("\n")
    texts: list[str] = []
    for position, text in found:
        before = rule[:position]
        line, column = before.count("\n"), position - (before.rfind("\n") + 1)
        texts.append(f"ERROR: <input>:{line + 1}:{column + 1}: {text}\n | {lines[line]}\n | {'.' * column}^")
    return "\n".join(texts)


def with_type_and_metadata(schema: Schema) -> Schema:
    """The schema of a whole object as rules see it."""
    return {**schema, "properties": {**(schema.get("properties") or {}), **_ROOT}}


class _Check:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._found: list[tuple[int, str]] = []

    def problems(self, root: Node, variables: dict[str, Type]) -> list[tuple[int, str]]:
        self._type(root, variables)
        return self._found

    def _problem(self, node: Node, text: str) -> None:
        if node.identity in self._tree.positions:
            self._found.append((self._tree.positions[node.identity], text))

    def _type(self, node: Node, variables: dict[str, Type]) -> Type:
        match node.kind:
            case "constant":
                return node.type or None
            case "name":
                return _scalar(variables.get(node.text))
            case "select":
                return self._select(node, variables)
            case "loop":
                return self._loop(node, variables)
            case "call":
                return self._call(node, [self._type(part, variables) for part in node.parts])
            case _:
                for part in node.parts:
                    self._type(part, variables)
                return None

    def _select(self, node: Node, variables: dict[str, Type]) -> Type:
        inner = self._type(node.parts[0], variables)
        if not isinstance(inner, Mapping):
            return None
        found = self._field(node, inner, node.text)
        return "bool" if node.tested else found

    def _field(self, node: Node, schema: Schema, name: str) -> Type:
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            return _scalar(others)
        if schema.get("type") != "object" or schema.get("x-kubernetes-int-or-string"):
            return None
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        if schema.get("x-kubernetes-embedded-resource"):
            properties = {**properties, **_ROOT}
        for field, inner in properties.items():
            if name in (field, escaped(field)) and _is_typed(inner):
                return _scalar(inner)
        self._problem(node, f"undefined field '{name}'")
        return None

    def _loop(self, node: Node, variables: dict[str, Type]) -> Type:
        over, start, condition, step, result = node.parts
        ranged = self._type(over, variables)
        first, second, total = node.variables
        inside: dict[str, Type] = {**variables, total: None}
        items, values = _inside(ranged)
        if second:
            inside |= {first: None, second: items or values}
        else:
            inside[first] = items if items is not None else None
        self._type(start, variables)
        for part in (condition, step):
            self._type(part, inside)
        self._type(result, {**variables, total: None})
        return self._known(node)

    def _call(self, node: Node, types: list[Type]) -> Type:
        name = node.text
        if name == "_[_]" and types and isinstance(types[0], Mapping):
            items, values = _inside(types[0])
            return items if items is not None else values
        if name == "_?._" and isinstance(types[0], Mapping) and node.parts[1].type == "string":
            self._field(node, types[0], node.parts[1].text)
            return None
        if name in _EQUALITY | _ORDER and len(types) == 2 and all(isinstance(one, str) for one in types):
            left, right = str(types[0]), str(types[1])
            comparable = left == right or (name in _ORDER and {left, right} <= _NUMBERS)
            if not comparable:
                shown = f"({_SHOWN.get(left, left)}, {_SHOWN.get(right, right)})"
                self._problem(node, f"found no matching overload for '{name}' applied to '{shown}'")
            return "bool"
        return self._known(node)

    def _known(self, node: Node) -> Type:
        return self._tree.types.get(node.identity) or None


def _is_typed(schema: Schema) -> bool:
    """Whether rules see a field: those without a type are left out."""
    if schema.get("x-kubernetes-int-or-string"):
        return True
    kind, items, others = schema.get("type"), schema.get("items"), schema.get("additionalProperties")
    if kind == "array":
        return isinstance(items, Mapping) and _is_typed(items)
    if kind == "object" and isinstance(others, Mapping):
        return _is_typed(others)
    return bool(kind)


def _inside(ranged: Type) -> tuple[Type, Type]:
    """The type of the items of a list, and of the values of a map."""
    if not isinstance(ranged, Mapping):
        return None, None
    items, others = ranged.get("items"), ranged.get("additionalProperties")
    if ranged.get("type") == "array" and isinstance(items, Mapping):
        return _scalar(items), None
    return None, _scalar(others) if isinstance(others, Mapping) else None


def _scalar(given: Type) -> Type:
    """The name of the type of a scalar; objects and lists stay schemas."""
    if not isinstance(given, Mapping):
        return given
    if given.get("x-kubernetes-int-or-string"):
        return None
    kind = given.get("type") or ""
    if kind == "string":
        return _FORMATS.get(given.get("format") or "", "string")
    return given if kind in ("object", "array") else _SCALARS.get(kind)
