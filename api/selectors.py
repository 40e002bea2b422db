# SPDX-License-Identifier: Apache-2.0
"""Label selectors: the strings of queries, and the objects in specs.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.api import names

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_WORD = r"[^=!()<>, \t\r\n]+"
_COMMA = re.compile(r",(?![^()]*\))")
"""Not one between brackets."""
_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<label>{_WORD})\s*"
    rf"(?(absent)|(?:(?P<operator>==?|!=|>|<)\s*(?P<value>(?:{_WORD})?)\s*"
    r"|(?<=\s)(?P<among>in|notin)\s*\((?P<values>[^()]*)\)\s*)?)",
    re.ASCII,
)
_SAME = {"=": "in", "==": "in", "!=": "notin"}
_OF_SPECS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
"""Operators of selectors in specs."""
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class SelectorError(ValueError):
    """A selector is refused, with 400."""


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
    return compiled(map(_requirement, _COMMA.split(text))) if text.strip() else EVERYTHING


def _requirement(text: str) -> LabelRequirement:
    found = _TERM.fullmatch(text)
    if found is None:
        raise SelectorError(f"'{text}' is no term: write a, !a, a=b, a!=b, a in (b,c), a notin (b), a>1 or a<1")
    label, operator = found["label"], found["operator"] or found["among"]
    if operator is None:
        return _checked(label, "absent" if found["absent"] else "exists", ())
    values = found["values"].split(",") if found["among"] else [found["value"]]
    return _checked(label, _SAME.get(operator, operator), [value.strip(" \t\r\n") for value in values])


def _checked(label: str, operator: str, values: Collection[str]) -> LabelRequirement:
    if problems := names.qualified(label):
        raise SelectorError(f"'{label}' is no label: {problems[0]}")
    for value in values:
        if operator in (">", "<") and _integer(value) is None:
            raise SelectorError(f"{label}{operator}{value}: the value must be an integer")
        if problems := names.label_value(value):
            raise SelectorError(f"'{value}' is no value of a label: {problems[0]}")
    return LabelRequirement(label, operator, frozenset(values))


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
    terms = [_checked(label, "in", [value]) for label, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        label, values = expression.get("key", ""), expression.get("values") or []
        operator = expression.get("operator") or ""
        if operator not in _OF_SPECS:
            raise SelectorError(f"'{operator}' is no operator of label selectors: use {', '.join(_OF_SPECS)}")
        if bool(values) != (operator in ("In", "NotIn")):
            raise SelectorError(f"{operator} of '{label}' {'has no' if values else 'needs'} values")
        terms.append(_checked(label, _OF_SPECS[operator], values))
    return compiled(terms)
