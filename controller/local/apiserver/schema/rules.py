# SPDX-License-Identifier: Apache-2.0
"""CEL rules of a schema (`x-kubernetes-validations`): compiled once, evaluated where their value is.

Here is also which old value belongs to a new one, so that errors of unchanged values do not refuse an update: fields
belong together by name, items of map lists by their keys, items of other lists not at all (KEP-4008).

Source: `apiextensions-apiserver/pkg/apiserver/schema/cel`, `k8s.io/apiserver/pkg/cel/common`;
https://kubernetes.io/docs/reference/using-api/cel/.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from trainwright.controller.local.cel.expression import EvaluationError, Expression, compiled_with_text
from trainwright.controller.local.cel.schemas import Convert, bound, compile_conversion
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
from trainwright.controller.local.types.model import Type
from trainwright.controller.local.values import Step, equal, join

_FIELD = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\['\\])*)'\]", re.DOTALL)


class FieldPathError(ValueError):
    """Not a path into the schema."""


def resolve(path: str, kind: Type, *, arrays: bool = True) -> tuple[str, Type]:
    """Find a path in a type: a dot or, if `arrays`, a bracket before each name. Raises FieldPathError.

    Returns the path as the server writes it, and the type at its end.
    """
    made, at = "", 0
    while at < len(path):
        found = _FIELD.match(path, at)
        if found is None or (found[2] is not None and not arrays):
            raise FieldPathError("it is not made of names, such as .spec.replicas")
        name = found[1] or re.sub(r"\\(.)", r"\1", found[2])
        kind, named = _step(kind, name)
        made += f".{name}" if named else f"[{name}]"
        at = found.end()
    return made.removeprefix("."), kind


def _step(kind: Type, name: str) -> tuple[Type, bool]:
    """The type of a field, and whether it is a declared one."""
    if kind.schema.get("properties"):
        if name in kind.declared:
            return kind.declared[name], True
    elif kind.values is not None:
        return kind.values, False
    raise FieldPathError("does not refer to a valid field")


class Correlation:
    """A value, the old value at the same place and their type."""

    __slots__ = ("_equal", "_known", "_old_items", "kind", "new", "old")

    def __init__(self, kind: Type, new: Any, old: Any) -> None:
        self.kind = kind
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
        part = self.kind.declared.get(name, self.kind.values)
        return None if part is None else Correlation(part, self.new[name], self.old[name])

    def _index(self, index: int) -> "Correlation | None":
        if type(self.new) is not list or type(self.old) is not list:
            return None
        if self._old_items is None:
            self._old_items = items_by_key(self.kind, self.old)
        old = self._old_items.get(key_of(self.kind, self.new[index]))
        return None if old is None else Correlation(self.kind.item, self.new[index], old)

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
            if not self.kind.keys:
                return equal(new, old)
            return self._all_unchanged(range(len(new)))
        return equal(new, old)

    def _all_unchanged(self, steps: Iterable[Step]) -> bool:
        for step in steps:
            part = self.at(step)
            if part is None or not part.unchanged:
                return False
        return True


def key_of(kind: Type, item: Any) -> tuple[Any, ...] | None:
    """What tells an item of a map list apart; None if a key is missing or no scalar."""
    found: list[Any] = []
    for name in kind.keys or () if type(item) is dict else ():
        value = item.get(name)
        if type(value) not in (str, int, float, bool):
            return None
        found += (type(value), value)
    return tuple(found) or None


def items_by_key(kind: Type, items: Any) -> dict[Any, Any]:
    """The items of a map list by their keys; the first of equal ones. Empty for other lists."""
    found: dict[Any, Any] = {}
    for item in items if type(items) is list else ():
        key = key_of(kind, item)
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

    def __init__(self, words: Mapping[str, Any], kind: Type) -> None:
        self.text: str = words["rule"]
        self._kind = kind
        self._reason = words.get("reason", INVALID)
        self._message = (words.get("message") or "").strip()
        self._message_text: str = words.get("messageExpression") or ""
        self.optional = bool(words.get("optionalOldSelf"))
        self.uses_old = uses_old(self.text)
        self._path = ""
        if words.get("fieldPath"):
            try:
                self._path = resolve(words["fieldPath"], kind)[0]
            except FieldPathError:
                self._path = ""  # a definition with such a path is refused; of a stored one it is ignored

    @cached_property
    def _conversion(self) -> Convert | None:
        return compile_conversion(self._kind, ordered=self.uses_old)

    def converted(self, value: Any) -> Any:
        """A value as the rule sees it."""
        return value if self._conversion is None or value is None else self._conversion(value)

    @cached_property
    def _program(self) -> Expression:
        # Errors are to be about the rule as it was written.
        compiled_with_text(self.text)
        rule = bound(self.text, self._kind, old=self.uses_old, optional=self.optional, to="bool")
        return compiled_with_text(rule)

    @cached_property
    def _message_program(self) -> Expression | None:
        if not self._message_text:
            return None
        old = uses_old(self._message_text)
        try:
            return compiled_with_text(bound(self._message_text, self._kind, old=old, optional=False, to="string"))
        except ValueError:
            return None  # refused with the definition; of a stored one the message counts

    def broken(self, variables: dict[str, Any], path: str, value: Any) -> tuple[DocumentError | None, bool]:
        """The error of a value, and whether it is one that an unchanged value is excused."""
        kind = self._kind.kind
        shown = self._message or self.text.strip()
        try:
            answer = self._program.run(variables)
        except EvaluationError as problem:
            return invalid(path or NOWHERE, kind, f"{problem} evaluating rule: {shown}"), False
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


def rule_errors(
    kind: Type,
    new: Any,
    old: Any,
    path: str = "",
    *,
    root: Correlation | None = None,
    excused: list[DocumentError] | None = None,
) -> list[DocumentError]:
    """The errors of a value and of what is in it. Nothing is compiled before a rule is first evaluated.

    Args:
        kind: of the value.
        new: as it would be stored.
        old: what transition rules compare it with; None if nothing.
        path: of the value; empty for the root.
        root: what it is correlated with; None if with nothing.
        excused: gets the errors that are forgiven, because the value has not changed.
    """
    found: list[DocumentError] = []
    for problem, is_forgiven in _errors(kind, new, old, path, root, None):
        if not is_forgiven:
            found.append(problem)
        elif excused is not None:
            excused.append(problem)
    return found


_Found = Iterator[tuple[DocumentError, bool]]


def _errors(
    kind: Type, value: Any, old: Any, path: str, here: Correlation | None, around: Correlation | None
) -> _Found:
    """`around` is the nearest correlated value around the value."""
    if value is None:
        return
    if kind.rules:
        yield from _own_errors(kind, value, old, path, here if here is not None else around)
    if type(value) is list:
        before = items_by_key(kind, old) if "rule" in kind.item.marks else {}
        for index, item in enumerate(value if "rule" in kind.item.marks else ()):
            previous = before.get(key_of(kind, item)) if before else None
            part, outer = (here.at(index), here) if here is not None else (None, around)
            yield from _errors(kind.item, item, previous, f"{path}[{index}]", part, outer)
    elif type(value) is dict:
        declared, values = kind.declared, kind.values
        for name, inner in value.items():
            inner_kind = declared.get(name, values)
            if inner_kind is None or "rule" not in inner_kind.marks:
                continue
            previous = old.get(name) if type(old) is dict else None
            part, outer = (here.at(name), here) if here is not None else (None, around)
            if here is not None and around is None and name in ("apiVersion", "kind"):
                part, outer = None, None
            at = join(path, name) if name in declared else f"{path}[{name}]"
            yield from _errors(inner_kind, inner, previous, at, part, outer)


def _own_errors(kind: Type, value: Any, old: Any, path: str, judged: Correlation | None) -> _Found:
    for rule in _rules_of(kind):
        if not rule.text.strip() or (rule.uses_old and old is None and not rule.optional):
            continue
        variables = {"newValue": rule.converted(value)}
        if rule.uses_old or old is not None:
            variables["oldValue"] = rule.converted(old)
            variables["hasOld"] = old is not None
        problem, excusable = rule.broken(variables, path, value)
        if problem is not None:
            yield problem, excusable and judged is not None and judged.unchanged


def _rules_of(kind: Type) -> Sequence[SchemaRule]:
    if kind.programs is None:
        kind.programs = tuple(SchemaRule(words, kind) for words in kind.rules)
    return kind.programs
