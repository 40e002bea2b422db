# SPDX-License-Identifier: Apache-2.0
"""Label selectors: the strings of queries, and the objects in specs.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import quoted
from trainwright.controller.local.apiserver.views.selection.errors import SelectorError
from trainwright.controller.local.apiserver.views.selection.names import (
    invalid,
    label_key_problems,
    label_value_problems,
)

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]
Token = tuple[str, str]
"""Its kind (a symbol, `in`, `notin`, `word` or `end`) and its text."""

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!()<>,]|[^=!()<>, \t\r\n]+)")
_END: Token = ("end", "")
_OPERATORS = frozenset({"in", "notin", "=", "==", "!=", ">", "<"})
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One term of a selector.

    Attributes:
        label: the key.
        operator: `in`, `notin`, `exists`, `absent`, `>` or `<`.
        values: of the operator.
    """

    label: str
    operator: str
    values: frozenset[str] = frozenset()

    def test(self) -> Test:
        """Whether labels meet it, as a function."""
        label, values = self.label, self.values
        match self.operator:
            case "exists":
                return lambda labels: label in labels
            case "absent":
                return lambda labels: label not in labels
            case "in" if len(values) == 1:
                (value,) = values
                return lambda labels: labels.get(label) == value
            case "in":
                return lambda labels: labels.get(label) in values
            case "notin":
                return lambda labels: labels.get(label) not in values
        (text,) = values
        bound, greater = int(text), self.operator == ">"

        def compare(labels: Labels) -> bool:
            number = _integer(labels.get(label, ""))
            return number is not None and (number > bound if greater else number < bound)

        return compare


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """Matches labels that meet every requirement.

    Attributes:
        requirements: sorted by label.
        labels: the keys that it reads.
        matches: whether labels match.
    """

    requirements: tuple[LabelRequirement, ...]
    labels: frozenset[str]
    matches: Test

    def matches_document(self, document: Mapping[str, Any]) -> bool:
        """Whether the labels of an object match."""
        return not self.requirements or self.matches((document.get("metadata") or {}).get("labels") or {})

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.requirements)


def compiled(requirements: Iterable[LabelRequirement]) -> LabelMatcher:
    """The selector of requirements."""
    terms = tuple(sorted(requirements, key=lambda requirement: requirement.label))
    tests = [requirement.test() for requirement in terms]
    if not tests:
        return EVERYTHING
    matches = tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)
    return LabelMatcher(terms, frozenset(term.label for term in terms), matches)


EVERYTHING = LabelMatcher((), frozenset(), lambda _: True)


def parse_label_selector(text: str) -> LabelMatcher:
    """Parse a query's selector, such as `app=web,tier in (a,b),!old,generation>3`.

    Raises:
        SelectorError: it cannot be parsed, or names an invalid label.
    """
    return compiled(_Parser(text).parse()) if text else EVERYTHING


class _Parser:
    """Tokens of a selector, and how far they are read."""

    def __init__(self, text: str) -> None:
        words = _TOKEN.findall(text)
        self._tokens = [_token(word) for word in words] + [_END, _END]
        self._position = 0

    def parse(self) -> list[LabelRequirement]:
        made: list[LabelRequirement] = []
        while True:
            kind, text = self._ahead()
            if kind == "end":
                return made
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                made.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self._next()
            if kind == "end":
                return made
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._ahead()
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def _ahead(self) -> Token:
        """The next token where it is no operator: `in` is then a word like others."""
        kind, text = self._tokens[self._position]
        return ("word", text) if kind in ("in", "notin") else (kind, text)

    def _next(self) -> Token:
        found = self._ahead()
        self._position += found is not _END
        return found

    def _requirement(self) -> LabelRequirement:
        kind, label = self._next()
        negated = kind == "!"
        if negated:
            kind, label = self._next()
        if kind != "word":
            raise SelectorError(f"found '{label}', expected: identifier")
        if problems := label_key_problems(label):
            # Go prints the absent path of the field like this.
            raise SelectorError(invalid("<nil>", label, "; ".join(problems)))
        if negated:
            return LabelRequirement(label, "absent")
        if self._ahead()[0] in ("end", ","):
            return LabelRequirement(label, "exists")
        operator, text = self._tokens[self._position]
        self._position += operator != "end"
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{text}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in ("in", "notin") else {self._value()}
        return _checked(label, operator, sorted(values))

    def _value(self) -> str:
        if self._ahead()[0] in ("end", ","):
            return ""
        kind, text = self._next()
        if kind != "word":
            raise SelectorError(f"found '{text}', expected: identifier")
        return text

    def _values(self) -> set[str]:
        kind, text = self._next()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self._ahead()
        if kind == ")":
            self._next()
            return {""}
        if kind not in ("word", ","):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values = self._list()
        self._next()  # the bracket that ended the list
        return values

    def _list(self) -> set[str]:
        values: set[str] = set()
        while True:
            kind, text = self._next()
            ahead, text_ahead = self._ahead()
            if kind == "word":
                values.add(text)
                if ahead not in (",", ")"):
                    raise SelectorError(f"found '{text_ahead}', expected: ',' or ')'")
            elif kind == ",":
                # Nothing before, between or behind commas is an empty value.
                if not values or ahead in (",", ")"):
                    values.add("")
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            if ahead == ")":
                return values


def _token(word: str) -> Token:
    if word in _OPERATORS or word in ("!", "(", ")", ","):
        return word, word
    return "word", word


def _checked(label: str, operator: str, values: list[str]) -> LabelRequirement:
    problems: list[str] = []
    if operator in (">", "<"):
        problems += [
            invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for index, value in enumerate(values)
            if _integer(value) is None
        ]
    for index, value in enumerate(values):
        if wrong := label_value_problems(value):
            problems.append(invalid(f"values[{index}][{label}]", value, "; ".join(wrong)))
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return LabelRequirement(label, {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator), frozenset(values))


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def label_selector_of(selector: Mapping[str, Any] | None) -> LabelMatcher | None:
    """Compile a LabelSelector of a spec, with `matchLabels` and `matchExpressions`.

    An empty one matches everything; None, for an absent one, matches nothing.

    Raises:
        SelectorError: an operator is unknown, or a key or value is invalid.
    """
    if selector is None:
        return None
    terms = [_checked(label, "=", [value]) for label, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        label, values = expression.get("key", ""), expression.get("values") or []
        match expression.get("operator"):
            case "In" | "NotIn" as operator:
                if not values:
                    raise SelectorError(
                        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                    )
                terms.append(_checked(label, operator.lower(), values))
            case "Exists" | "DoesNotExist" as operator:
                if values:
                    said = "values set must be empty for exists and does not exist"
                    raise SelectorError(f"values: Invalid value: [{', '.join(map(quoted, values))}]: {said}")
                terms.append(LabelRequirement(label, "exists" if operator == "Exists" else "absent"))
            case operator:
                raise SelectorError(f"{quoted(operator or '')} is not a valid label selector operator")
    for term in terms:
        if problems := label_key_problems(term.label):
            raise SelectorError(invalid("key", term.label, "; ".join(problems)))
    return compiled(terms)
