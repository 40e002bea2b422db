# SPDX-License-Identifier: Apache-2.0
"""CEL rules of a schema (`x-kubernetes-validations`): compiled once, evaluated where their value is.

The old value of a field is that of the same name, that of an item of a map list the one with the same keys.

Source: `apiextensions-apiserver/pkg/apiserver/schema/cel`, `k8s.io/apiserver/pkg/cel/common`;
https://kubernetes.io/docs/reference/using-api/cel/.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from trainwright.controller.local.values import join

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

    def _converted(self, value: Any) -> Any:
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

    def broken(self, value: Any, old: Any, path: str) -> tuple[DocumentError | None, bool]:
        """The error of a value, and whether it is one that an unchanged value is excused."""
        variables = {"newValue": self._converted(value)}
        if self.uses_old or old is not None:
            variables |= {"oldValue": self._converted(old), "hasOld": old is not None}
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
    kind: Type, value: Any, old: Any, path: str = "", *, is_old: Callable[[str], bool] = lambda _: False
) -> Iterator[DocumentError]:
    """The errors of a value and of what is in it. Nothing is compiled before a rule is first evaluated.

    Args:
        kind: of the value.
        value: as it would be stored.
        old: what transition rules compare it with; None if nothing.
        path: of the value; empty for the root.
        is_old: whether what is at a path has not changed, so that it may break a rule.
    """
    if value is None:
        return
    for rule in _rules_of(kind) if kind.rules else ():
        if rule.text.strip() and not (rule.uses_old and old is None and not rule.optional):
            problem, excusable = rule.broken(value, old, path)
            if problem is not None and not (excusable and is_old(path)):
                yield problem
    if type(value) is list and "rule" in kind.item.marks:
        before = items_by_key(kind, old)
        for index, item in enumerate(value):
            previous = before.get(key_of(kind, item)) if before else None
            yield from rule_errors(kind.item, item, previous, f"{path}[{index}]", is_old=is_old)
    elif type(value) is dict:
        for name, inner in value.items():
            inner_kind = kind.declared.get(name, kind.values)
            if inner_kind is not None and "rule" in inner_kind.marks:
                previous = old.get(name) if type(old) is dict else None
                at = join(path, name) if name in kind.declared else f"{path}[{name}]"
                yield from rule_errors(inner_kind, inner, previous, at, is_old=is_old)


def _rules_of(kind: Type) -> Sequence[SchemaRule]:
    if kind.programs is None:
        kind.programs = tuple(SchemaRule(words, kind) for words in kind.rules)
    return kind.programs
