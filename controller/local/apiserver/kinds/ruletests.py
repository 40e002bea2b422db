# SPDX-License-Identifier: Apache-2.0
"""Rules of built-in kinds, and the single tests that they are made of; `rules.py` runs them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from trainwright.api import names
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import FORMATS, Errors
from trainwright.controller.local.apiserver.kinds.places import places, value_of, walk_of
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedRule
from trainwright.controller.local.types.errors import (
    FORBIDDEN,
    INVALID,
    REQUIRED,
    DocumentError,
    duplicate,
    error,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
    too_many,
)

NOTHING: tuple[Any, ...] = (None, "", [])
"""Values that count as absent."""

Check = Callable[[Any, str, Document], Errors]
"""Errors of a value, for what no rule can say: the value, its place, and the object or struct that the rule is of."""


Judge = Callable[[Any, str, Document], Iterable[DocumentError]]
"""A test of a rule, with the same arguments."""


class Rule(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is refused at a place; `rules/rules.schema.json` says what each key means."""

    at: str = ""
    field: str = ""
    text: str = ""
    reason: str = ""
    when: dict[str, Any] = {}
    unless: dict[str, Any] = {}
    use: str = ""
    check: str = ""
    present: bool = False
    required: bool = False
    forbidden: bool = False
    invalid: bool = False
    choices: tuple[str, ...] = ()
    refused: tuple[Any, ...] = ()
    format: str = ""
    optional: bool = False
    keys: str = ""
    labels: bool = False
    min: int | None = None
    max: int | str | None = None
    longest: int | None = None
    most: int | None = None
    unique: bool | tuple[str, ...] = False
    besides: str = ""
    within: str = ""
    one_of: tuple[str, ...] = ()
    at_most_one: tuple[str, ...] = ()
    immutable: bool = False
    fixed: bool = False
    or_equal: str = ""
    free: tuple[str, ...] = ()


_NO_RULE = Rule()


_CHECKS: dict[str, Check] = {}


def register(name: str) -> Callable[[Check], Check]:
    """Let rules call a function by a name: `"check": "resources"`."""

    def registered(function: Check) -> Check:
        _CHECKS[name] = function
        return function

    return registered


def from_recorded(one: RecordedRule) -> Iterator[Rule]:
    """A rule that was recorded on the real server, in the words of the others."""

    def rule(refusal: str, **test: Any) -> Rule:
        reason, _, field = refusal.partition(" ")
        return Rule(at=one.path, field=f"/{field}", reason=reason, **test)

    if one.absent:
        yield rule(one.absent, present=True)
    if one.empty:
        yield rule(one.empty, refused=("", [], {}))
    if one.negative:
        yield rule(one.negative, min=0)
    if one.zero:
        yield rule(one.zero, refused=(0,))
    if one.other and one.choices:
        yield rule(one.other, choices=("", *one.choices))
    elif one.other:
        yield rule(one.other, format=one.format, optional=True)
    if one.changed:
        yield rule(one.changed, immutable=True, free=one.free)


def named_field(rule: Rule, place: str, where: str) -> str:
    """Where an error is said to be: at the place, or where the real server says it is."""
    if not rule.field:
        return place
    absolute = rule.field.startswith("/")
    made = rule.field[1:] if absolute else f"{where}.{rule.field}" if where else rule.field
    for step in place[len(where) :].split("[")[1:]:
        made = made.replace("[*]", f"[{step.partition(']')[0]}]", 1)
    return made


# -------------------------------------------------------------- tests


def error_of(rule: Rule, field: str, value: Any, text: str = "") -> DocumentError:
    reason = rule.reason or INVALID
    if reason == REQUIRED:
        return required(field, rule.text)
    return forbidden(field, rule.text) if reason == FORBIDDEN else error(reason, field, value, rule.text or text)


def missing_error(rule: Rule, where: str) -> DocumentError:
    return error_of(rule, where, "") if rule.reason else required(where, rule.text)


def _given(judge: Callable[[Rule, str, Any], DocumentError]) -> Callable[[Rule], Judge]:
    """A test that refuses whatever is there."""
    return lambda rule: lambda value, where, _: [judge(rule, where, value)] if value not in NOTHING else ()


def _choices(rule: Rule) -> Judge:
    choices = rule.choices

    def judge(value: Any, where: str, _: Document) -> Iterable[DocumentError]:
        if value in choices:
            return ()
        return [error_of(rule, where, value) if rule.reason else not_supported(where, value, rule.choices)]

    return judge


def _refused(rule: Rule) -> Judge:
    return lambda value, where, _: [error_of(rule, where, value)] if value in rule.refused else ()


def _format(rule: Rule) -> Judge:
    problems = FORMATS[rule.format]

    def judge(value: Any, where: str, _: Document) -> Iterable[DocumentError]:
        found = () if rule.optional and value == "" else problems(value)
        return [error_of(rule, where, value, text) for text in found] if found else ()

    return judge


def _keys(rule: Rule) -> Judge:
    problems = FORMATS[rule.keys]
    return lambda values, where, _: [
        invalid(where if rule.field else f"{where}[{key}]", key, text) for key in values for text in problems(key)
    ]


def _labels(_: Rule) -> Judge:
    return lambda labels, where, _: [
        invalid(where, wrong, text)
        for key, value in labels.items()
        for wrong, problems in ((key, names.qualified(key)), (value, names.label_value(value)))
        for text in problems
    ]


def _range(rule: Rule) -> Judge:
    def judge(value: Any, where: str, document: Document) -> Iterable[DocumentError]:
        if not isinstance(value, int):
            return ()  # a percentage
        most = (value_of(rule.max)(document) or 0) if isinstance(rule.max, str) else rule.max
        if (rule.min is None or value >= rule.min) and (most is None or value <= most):
            return ()
        bounds = (f"at least {rule.min}" if rule.min is not None else "", f"at most {most}" if most is not None else "")
        return [error_of(rule, where, value, f"must be {' and '.join(filter(None, bounds))}")]

    return judge


def _longest(rule: Rule) -> Judge:
    limit = rule.longest or 0
    return _size(rule, limit, lambda where, _: too_long(where, limit))


def _most(rule: Rule) -> Judge:
    limit = rule.most or 0
    return _size(rule, limit, lambda where, value: too_many(where, len(value), limit))


def _size(rule: Rule, limit: int, refuse: Callable[[str, Any], DocumentError]) -> Judge:
    def judge(value: Any, where: str, _: Document) -> Iterable[DocumentError]:
        if len(value) <= limit:
            return ()
        return [error_of(rule, where, value, f"at most {limit}") if rule.reason else refuse(where, value)]

    return judge


def _within(rule: Rule) -> Judge:
    def judge(value: Any, where: str, document: Document) -> Iterable[DocumentError]:
        if any(value == known for path in rule.within.split() for _, known in places(document, path)):
            return ()
        return [error_of(rule, where, value) if rule.reason else not_found(where, value)]

    return judge


def _alternatives(rule: Rule) -> Judge:
    """Of some fields, those after the first are refused; `one_of` also refuses that there is none."""

    def judge(value: Document, where: str, _: Document) -> Iterable[DocumentError]:
        given = [name for name in rule.one_of or rule.at_most_one if value.get(name) not in NOTHING]
        if not given and rule.one_of:
            return [missing_error(rule, where)]
        if rule.reason:
            return [error_of(rule, where, "") for _ in given[1:2]]
        return [forbidden(f"{where}.{name}" if where else name, rule.text) for name in given[1:]]

    return judge


def repeated_errors(rule: Rule, document: Document, where: str) -> Errors:
    """Values that are there twice at the places of a rule, or items with the same values of some fields."""
    seen = [value for _, value in places(document, rule.besides)] if rule.besides else []
    found: Errors = []
    for place, value in walk_of(rule.at)(document, where):
        key = value if isinstance(rule.unique, bool) else [value.get(field) for field in rule.unique]
        if key in NOTHING or (isinstance(rule.unique, tuple) and not key[-1]):
            continue
        if key in seen:
            named = named_field(rule, place, where)
            found.append(error_of(rule, named, key) if rule.reason else duplicate(named, key))
        seen.append(key)
    return found


_TESTS: dict[str, Callable[[Rule], Judge]] = {
    "forbidden": _given(lambda rule, where, _: forbidden(where, rule.text)),
    "invalid": _given(error_of),
    "choices": _choices,
    "refused": _refused,
    "format": _format,
    "keys": _keys,
    "labels": _labels,
    "min": _range,
    "max": lambda rule: _range(rule) if rule.min is None else lambda *_: (),
    "longest": _longest,
    "most": _most,
    "within": _within,
    "one_of": _alternatives,
    "at_most_one": _alternatives,
    "check": lambda rule: _CHECKS[rule.check],
}
"""What makes the test of each key of a rule."""


def judges_of(rule: Rule) -> list[Judge]:
    """The tests of the values at the places of a rule, besides those of what is missing or there twice."""
    return [make(rule) for key, make in _TESTS.items() if getattr(rule, key) != getattr(_NO_RULE, key)]
