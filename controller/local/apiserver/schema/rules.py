# SPDX-License-Identifier: Apache-2.0
"""CEL rules of a schema (`x-kubernetes-validations`): compiled once, evaluated where their value is.

Here is also which old value belongs to a new one, so that errors of unchanged values do not refuse an update: fields
belong together by name, items of map lists by their keys, items of other lists not at all (KEP-4008).

Source: `apiextensions-apiserver/pkg/apiserver/schema/cel`, `k8s.io/apiserver/pkg/cel/common`;
https://kubernetes.io/docs/reference/using-api/cel/.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from trainwright.controller.local.cel.expression import EvaluationError, Expression, compiled_with_text
from trainwright.controller.local.cel.schemas import bound, compile_conversion
from trainwright.controller.local.types.errors import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOWHERE,
    OMITTED,
    REQUIRED,
    DocumentError,
    error,
    invalid,
)
from trainwright.controller.local.values import Step, equal, join

Schema = Mapping[str, Any]

_TOKENS = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """Not a path into the schema; the text is that of the server."""


def resolve(path: str, schema: Schema, *, arrays: bool = True) -> tuple[str, Schema]:
    """Find a path in a schema.

    Args:
        path: with a dot or bracket before each name.
        schema: where it starts.
        arrays: names may be in brackets.

    Returns:
        The path as the server writes it, and the schema at its end.

    Raises:
        FieldPathError: the path leads nowhere.
    """
    made = ""
    tokens = _TOKENS.findall(path)
    steps = iter(tokens)
    for token in steps:
        if token == "[":  # noqa: S105  a bracket
            if not arrays:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(_next(steps))
            found, named = _step(schema, name)
            closing = _next(steps)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif token == ".":  # noqa: S105  a dot
            name = _next(steps)
            found, named = _step(schema, name)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
        made += f".{name}" if named else f"[{name}]"
        schema = found
    return made.removeprefix("."), schema


def _next(steps: Iterator[str]) -> str:
    token = next(steps, None)
    if token is None:
        raise FieldPathError("unexpected end of JSON path")
    return token


def _quoted(token: str) -> str:
    if len(token) < 2 or not (token[0] == token[-1] == "'"):
        raise FieldPathError(f"expected single quoted string but got {token}")

    def character(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", character, token[1:-1], flags=re.DOTALL)


def _step(schema: Schema, name: str) -> tuple[Schema, bool]:
    """The schema of a field, and whether it is a declared one."""
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name in properties:
            return properties[name], True
    elif isinstance(others, Mapping):
        return others, False
    raise FieldPathError("does not refer to a valid field")


class Correlation:
    """A value, the old value at the same place and their schema."""

    __slots__ = ("_equal", "_known", "_old_items", "new", "old", "schema")

    def __init__(self, schema: Schema, new: Any, old: Any) -> None:
        self.schema = schema
        self.new = new
        self.old = old
        self._known: dict[Step, Correlation | None] = {}
        self._equal: bool | None = None
        self._old_items: dict[Any, Any] | None = None

    def at(self, step: Step) -> "Correlation | None":
        """The part at a field or index; None if nothing old belongs to it."""
        if step not in self._known:
            self._known[step] = self._key(step) if isinstance(step, str) else self._index(step)
        return self._known[step]

    def _key(self, name: str) -> "Correlation | None":
        if type(self.new) is not dict or type(self.old) is not dict:
            return None
        if name not in self.new or name not in self.old:
            return None
        schema = self.schema.get("properties", {}).get(name)
        if schema is None:
            schema = self.schema.get("additionalProperties")
        return Correlation(schema, self.new[name], self.old[name]) if isinstance(schema, Mapping) else None

    def _index(self, index: int) -> "Correlation | None":
        if type(self.new) is not list or type(self.old) is not list:
            return None
        items = self.schema.get("items")
        if self._old_items is None:
            self._old_items = items_by_key(self.schema, self.old)
        old = self._old_items.get(key_of(self.schema, self.new[index]))
        return Correlation(items, self.new[index], old) if isinstance(items, Mapping) and old is not None else None

    @property
    def unchanged(self) -> bool:
        """Whether nothing changed; values that no schema describes count as changed."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if new is None or old is None:
            return new is old
        if type(new) is dict and type(old) is dict:
            return len(new) == len(old) and self._all_unchanged(new)
        if type(new) is list and type(old) is list:
            if len(new) != len(old):
                return False
            if self.schema.get("x-kubernetes-list-type") != "map":
                return equal(new, old)
            return self._all_unchanged(range(len(new)))
        return equal(new, old)

    def _all_unchanged(self, steps: Iterable[Step]) -> bool:
        for step in steps:
            part = self.at(step)
            if part is None or not part.unchanged:
                return False
        return True


def key_of(schema: Schema, item: Any) -> tuple[Any, ...] | None:
    """What tells an item of a map list apart; None if a key is missing or no scalar."""
    if schema.get("x-kubernetes-list-type") != "map" or type(item) is not dict:
        return None
    found: list[Any] = []
    for name in schema.get("x-kubernetes-list-map-keys", ()):
        value = item.get(name)
        if type(value) not in (str, int, float, bool):
            return None
        found += (type(value), value)
    return tuple(found) or None


def items_by_key(schema: Schema, items: Any) -> dict[Any, Any]:
    """The items of a map list by their keys; the first of equal ones. Empty for other lists."""
    found: dict[Any, Any] = {}
    for item in items if type(items) is list else ():
        key = key_of(schema, item)
        if key is not None:
            found.setdefault(key, item)
    return found


def is_excused(root: Correlation, steps: Iterable[Step]) -> bool:
    """Whether the value at the end of a way, or one that it lies in, is unchanged."""
    current: Correlation | None = root
    top = True
    for step in steps:
        assert current is not None
        if current.unchanged:
            return True
        if top and step in ("apiVersion", "kind"):
            return False
        top = False
        current = current.at(step)
        if current is None:
            return False
    assert current is not None
    return current.unchanged


UNCHECKED = invalid(
    NOWHERE,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)
"""Stands for all rules where errors of another kind make it impossible to evaluate them."""

_STRINGS = re.compile(r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_OLD = re.compile(r"\boldSelf\b")
_LONGEST_MESSAGE = 5 * 1024


def uses_old(rule: str) -> bool:
    """Whether a rule compares with the value before an update."""
    return _OLD.search(_STRINGS.sub("''", rule)) is not None


class SchemaRule:
    """One rule of a schema."""

    def __init__(self, words: Schema, schema: Schema) -> None:
        self.text: str = words["rule"]
        self._schema = schema
        self._reason = words.get("reason", INVALID)
        self._message = (words.get("message") or "").strip()
        self._message_text: str = words.get("messageExpression") or ""
        self.optional = bool(words.get("optionalOldSelf"))
        self.uses_old = uses_old(self.text)
        self._path = ""
        if words.get("fieldPath"):
            try:
                self._path = resolve(words["fieldPath"], schema)[0]
            except FieldPathError:
                self._path = ""  # a definition with such a path is refused; of a stored one it is ignored

    @cached_property
    def _program(self) -> Expression:
        # Errors are to be about the rule as it was written.
        compiled_with_text(self.text)
        rule = bound(self.text, self._schema, old=self.uses_old, optional=self.optional, to="bool")
        return compiled_with_text(rule)

    @cached_property
    def _message_program(self) -> Expression | None:
        if not self._message_text:
            return None
        old = uses_old(self._message_text)
        try:
            return compiled_with_text(bound(self._message_text, self._schema, old=old, optional=False, to="string"))
        except ValueError:
            return None  # refused with the definition; of a stored one the message counts

    def broken(self, variables: dict[str, Any], path: str, value: Any) -> tuple[DocumentError | None, bool]:
        """The error of a value, and whether it is one that an unchanged value is excused."""
        kind = self._schema.get("type", "")
        shown = self._message or self.text.strip()
        try:
            answer = self._program.run(variables)
        except EvaluationError as problem:
            return invalid(path or NOWHERE, kind, _failure(str(problem), shown)), False
        except ValueError as problem:
            return invalid(path or NOWHERE, kind, f"rule compile error: compilation failed: {problem}"), False
        if answer is True:
            return None, False
        detail = self._told(variables) or self._message or f"failed rule: {shown}"
        reason = self._reason if self._reason in (FORBIDDEN, REQUIRED, DUPLICATE) else INVALID
        hidden = OMITTED if kind in ("object", "array") else value
        detail = "" if reason == DUPLICATE else detail
        return error(reason, join(path, self._path) or NOWHERE, hidden, detail), not self.uses_old

    def _told(self, variables: dict[str, Any]) -> str:
        """What the messageExpression says, if it says something usable."""
        if self._message_program is None:
            return ""
        try:
            text = self._message_program.run(variables)
        except EvaluationError:
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text


def _failure(problem: str, shown: str) -> str:
    if problem.startswith("no such overload"):
        unfit = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{problem}': {unfit}: {shown}"
    return f"{problem} evaluating rule: {shown}"


class Rules:
    """The rules of a schema and of what is in it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._rules = [SchemaRule(words, schema) for words in schema.get("x-kubernetes-validations") or ()]
        properties: Mapping[str, Schema] = schema.get("properties", {})
        self._fields = {name: rules for name, inner in properties.items() if (rules := compile_rules(inner))}
        others, items = schema.get("additionalProperties"), schema.get("items")
        self._others = compile_rules(others) if isinstance(others, Mapping) else None
        self._items = compile_rules(items) if isinstance(items, Mapping) else None
        self.any = bool(self._rules or self._fields or self._others or self._items)
        self._conversions: dict[bool, Any] = {}

    def _converted(self, value: Any, *, ordered: bool) -> Any:
        if ordered not in self._conversions:
            self._conversions[ordered] = compile_conversion(self._schema, ordered=ordered)
        convert = self._conversions[ordered]
        return convert(value) if convert is not None and value is not None else value

    def errors(
        self,
        value: Any,
        old: Any,
        path: str,
        here: Correlation | None,
        around: Correlation | None,
        excused: list[DocumentError] | None = None,
    ) -> list[DocumentError]:
        """The errors of a value.

        Args:
            value: as it would be stored.
            old: what transition rules compare it with; None if nothing.
            path: of the value; empty for the root.
            here: what it is correlated with; None if with nothing.
            around: the nearest correlated value around it.
            excused: gets the errors that are forgiven, because the value has not changed.
        """
        found: list[DocumentError] = []
        for problem, is_excused in self._each(value, old, path, here, around):
            if not is_excused:
                found.append(problem)
            elif excused is not None:
                excused.append(problem)
        return found

    def _each(
        self, value: Any, old: Any, path: str, here: Correlation | None, around: Correlation | None
    ) -> Iterator[tuple[DocumentError, bool]]:
        if value is None:
            return
        yield from self._own_errors(value, old, path, here if here is not None else around)
        if type(value) is list and self._items is not None:
            before = items_by_key(self._schema, old)
            for index, item in enumerate(value):
                previous = before.get(key_of(self._schema, item)) if before else None
                part, outer = (here.at(index), here) if here is not None else (None, around)
                yield from self._items._each(item, previous, f"{path}[{index}]", part, outer)  # noqa: SLF001
        elif type(value) is dict:
            for name, inner in value.items():
                yield from self._field_errors(name, inner, old, path, here, around)

    def _field_errors(
        self, name: str, value: Any, old: Any, path: str, here: Correlation | None, around: Correlation | None
    ) -> Iterator[tuple[DocumentError, bool]]:
        previous = old.get(name) if type(old) is dict else None
        part, outer = (here.at(name), here) if here is not None else (None, around)
        if here is not None and around is None and name in ("apiVersion", "kind"):
            part, outer = None, None
        if self._others is not None:
            yield from self._others._each(value, previous, f"{path}[{name}]", part, outer)  # noqa: SLF001
        if name in self._fields:
            yield from self._fields[name]._each(value, previous, join(path, name), part, outer)  # noqa: SLF001

    def _own_errors(
        self, value: Any, old: Any, path: str, judged: Correlation | None
    ) -> Iterator[tuple[DocumentError, bool]]:
        for rule in self._rules:
            if not rule.text.strip() or (rule.uses_old and old is None and not rule.optional):
                continue
            variables = {"newValue": self._converted(value, ordered=rule.uses_old)}
            if rule.uses_old or old is not None:
                variables["oldValue"] = self._converted(old, ordered=rule.uses_old)
                variables["hasOld"] = old is not None
            problem, excusable = rule.broken(variables, path, value)
            if problem is not None:
                yield problem, excusable and judged is not None and judged.unchanged


def compile_rules(schema: Schema) -> Rules | None:
    """The rules of a schema; None if it has none. Nothing is compiled before a rule is first evaluated."""
    made = Rules(schema)
    return made if made.any else None
