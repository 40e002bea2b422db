# SPDX-License-Identifier: Apache-2.0
"""The rules of built-in kinds: what `rules/*.json` refuses in an object, and in a change of one.

A rule names a place with `at` and says what is refused there; `rules/rules.schema.json` describes every key. Begin at
`check` and `check_change`. A new test of single values is an entry of `_TESTS`, a new format one of `formats.FORMATS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trainwright.api import names
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import FORMATS, Errors, immutable_errors, same
from trainwright.controller.local.types.errors import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    DocumentError,
    error,
    forbidden,
    invalid,
)

FOLDER = Path(__file__).parent / "rules"
NOTHING: tuple[Any, ...] = (None, "", [])
"""Values that count as absent."""

Judge = Callable[[Any, Document], str]
"""What is wrong with a value of an object or struct; empty for a good one."""
Check = Callable[[Any, str, Document], Errors]
"""Errors of a value, its place, and the object or struct that the rule is of."""


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


@cache
def tables() -> Mapping[str, tuple[Rule, ...]]:
    """All rules, by kind (`batch/v1 Job`) or by the struct for which other rules `use` them (`Container`)."""
    found: dict[str, tuple[Rule, ...]] = {}
    for path in sorted(FOLDER.glob("[!.]*.json")):
        if path.name.endswith(".schema.json"):
            continue
        table: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        for name in table.keys() - {"$schema"}:
            if name in found:
                raise ValueError(f"{path.name}: another file has rules of {name} too")
            found[name] = msgspec.convert(table[name], tuple[Rule, ...])
    return found


# -------------------------------------------------------------- checking


def check(name: str, document: Document, where: str = "") -> Errors:
    """Errors of a document by the rules of a kind or struct; `where` is the place of the document."""
    rules = _ruleset(name)
    found = [(index, errors) for index, test in rules.always if (errors := test(document, where))]
    by_field = rules.by_field
    for field in document:
        if field in by_field:
            found += [(index, errors) for index, test in by_field[field] if (errors := test(document, where))]
    return [one for _, errors in sorted(found, key=itemgetter(0)) for one in errors] if found else []


def check_change(name: str, new: Document, old: Document) -> Errors:
    """Errors of what an update changes."""
    return [found for rule in _ruleset(name).changes for found in _change_errors(rule, new, old)]


_Test = Callable[[Document, str], Errors]
"""Errors of a document, which is at a place."""


class _Ruleset(NamedTuple):
    """The rules of a kind or struct, compiled, with their numbers."""

    always: list[tuple[int, _Test]]
    """Those that look for what is missing."""
    by_field: Mapping[str, list[tuple[int, _Test]]]
    """The others, by the field without which there is nothing to look at."""
    changes: list[Rule]


@cache
def _ruleset(name: str) -> _Ruleset:
    always: list[tuple[int, _Test]] = []
    by_field: dict[str, list[tuple[int, _Test]]] = {}
    rules = tables().get(name, ())
    for index, rule in enumerate(rules):
        if (test := _compiled(rule)) is not None:
            at_once = (rule.present or rule.required) and "." not in rule.at and "[" not in rule.at
            first = "" if at_once else rule.at.partition(".")[0].removesuffix("[*]")
            (by_field.setdefault(first, []) if first else always).append((index, test))
    return _Ruleset(always, by_field, [rule for rule in rules if rule.immutable or rule.fixed])


def _compiled(rule: Rule) -> _Test | None:
    """What finds errors by a rule; None for one that only says what may not change."""
    applies, values, is_missing = _condition(rule), values_of(rule.at), _missing_test(rule)
    judges, checks, unique = _judges(rule), _checks(rule), rule.unique is not False
    if not (judges or checks or unique or is_missing):
        return None

    def test(document: Document, where: str) -> Errors:
        found: Errors = []
        if applies is not None and not applies(document):
            return found
        for index, value in enumerate(values(document)):
            if is_missing is not None and is_missing(value):
                found.append(error(rule.reason or REQUIRED, _field(rule, document, where, index), "", rule.text))
            elif value is not None:
                for reason, judge in judges:
                    if text := judge(value, document):
                        field = _field(rule, document, where, index)
                        found.append(error(rule.reason or reason, field, value, rule.text or text))
                for errors in checks:
                    if errors(value, "", document):
                        found += errors(value, _field(rule, document, where, index), document)
        for index, value in _repeated(rule, document, values(document)) if unique else ():
            found.append(error(rule.reason or DUPLICATE, _field(rule, document, where, index), value, rule.text))
        return found

    return test


def _field(rule: Rule, document: Document, where: str, index: int) -> str:
    """Where an error of one of the values at the place of a rule is said to be."""
    place, _ = next(islice(places(document, rule.at, where), index, None))
    return _named(rule, place, where)


def _change_errors(rule: Rule, new: Document, old: Document) -> Iterator[DocumentError]:
    if (applies := _condition(rule)) is not None and not applies(old):
        return
    before = dict(places(old, rule.at))
    for where, value in places(new, rule.at):
        if where not in before or (rule.fixed and before[where] in NOTHING):
            continue
        if same(_kept(rule, value), _kept(rule, before[where])) or (
            rule.or_equal and value in (None, value_at(new, rule.or_equal))
        ):
            continue
        if rule.reason or rule.text:
            yield error(rule.reason or INVALID, _named(rule, where, ""), value, rule.text)
        else:
            yield from immutable_errors(value, before[where], _named(rule, where, ""))


def _kept(rule: Rule, value: Any) -> Any:
    """A value without those of its fields that may change."""
    if not rule.free or not isinstance(value, dict):
        return value
    return {key: inner for key, inner in value.items() if key not in rule.free}


def _named(rule: Rule, place: str, where: str) -> str:
    """Where an error is said to be: at the place, or where the real server says it is."""
    if not rule.field:
        return place
    made = rule.field[1:] if rule.field.startswith("/") else f"{where}.{rule.field}" if where else rule.field
    for step in place[len(where) :].split("[")[1:]:
        made = made.replace("[*]", f"[{step.partition(']')[0]}]", 1)
    return made


# -------------------------------------------------------------- places

Place = tuple[str, Any]
"""Where something is, such as `spec.rules[0].host`, and what is there."""


def places(document: Document, path: str, where: str = "") -> Iterator[Place]:
    """What is at a path, whose step `x[*]` is each item of `x`. A last step that leads nowhere gives None.

    `where` is the place of the document; an empty path is the document.
    """
    if not path:
        yield where, document
        return
    step, _, rest = path.partition(".")
    name = step.removesuffix("[*]")
    held, here = document.get(name), f"{where}.{name}" if where else name
    if name != step:
        for index, item in enumerate(held or ()):
            if not rest:
                yield f"{here}[{index}]", item
            elif isinstance(item, dict):
                yield from places(item, rest, f"{here}[{index}]")
    elif not rest:
        yield here, held
    elif isinstance(held, dict):
        yield from places(held, rest, here)


@cache
def values_of(path: str) -> Callable[[Document], Iterable[Any]]:
    """What finds the values at the places of a path. It is compiled, because rules of all objects use it."""
    if not path:
        return lambda document: (document,)
    step, _, rest = path.partition(".")
    name, inner = step.removesuffix("[*]"), values_of(rest)
    if name != step:
        if not rest:
            return lambda document: document.get(name) or ()
        return lambda document: [
            value for item in document.get(name) or () if isinstance(item, dict) for value in inner(item)
        ]
    if not rest:
        return lambda document: (document.get(name),)

    def found(document: Document) -> Iterable[Any]:
        held = document.get(name)
        return inner(held) if isinstance(held, dict) else ()

    return found


def value_at(document: Document, path: str) -> Any:
    """The value at a path without `[*]`; None where the path leads nowhere."""
    if "." not in path:
        return document.get(path)
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


# -------------------------------------------------------------- what rules say


def _condition(rule: Rule) -> Callable[[Document], bool] | None:
    """Whether a rule applies: all of `when` holds, and not all of `unless`. None for one that always does."""
    wanted, unwanted = tuple(rule.when.items()), tuple(rule.unless.items())
    if not (wanted or unwanted):
        return None

    def applies(document: Document) -> bool:
        for path, value in wanted:
            if not _fits(value_at(document, path), value):
                return False
        for path, value in unwanted:
            if not _fits(value_at(document, path), value):
                return True
        return not unwanted

    return applies


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or one of them. True stands for anything that is set, False for nothing."""
    if isinstance(wanted, bool):
        return (value not in NOTHING and value is not False) == wanted
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)


def _missing_test(rule: Rule) -> Callable[[Any], bool] | None:
    if rule.required:
        return lambda value: not value and value is not False
    return (lambda value: value is None) if rule.present else None


def _repeated(rule: Rule, document: Document, values: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The values at the places of a rule that are there before, or the items with the same values of some fields."""
    seen = list(values_of(rule.besides)(document)) if rule.besides else []
    for index, value in enumerate(values):
        key = value if isinstance(rule.unique, bool) else [value.get(field) for field in rule.unique]
        if key not in NOTHING and (isinstance(rule.unique, bool) or key[-1]):
            if key in seen:
                yield index, value
            seen.append(key)


def _format(rule: Rule) -> Judge:
    problems = FORMATS[rule.format]

    def judge(value: Any, _: Document) -> str:
        return ", ".join(found) if (value != "" or not rule.optional) and (found := problems(value)) else ""

    return judge


def _labels(labels: Mapping[str, str], _: Document) -> str:
    return ", ".join(text for key, value in labels.items() for text in names.qualified(key) + names.label_value(value))


def _range(rule: Rule) -> Judge:
    def judge(value: Any, document: Document) -> str:
        if not isinstance(value, int):
            return ""  # a percentage
        most = (value_at(document, rule.max) or 0) if isinstance(rule.max, str) else rule.max
        if (rule.min is None or value >= rule.min) and (most is None or value <= most):
            return ""
        bounds = (f"at least {rule.min}" if rule.min is not None else "", f"at most {most}" if most is not None else "")
        return f"must be {' and '.join(filter(None, bounds))}"

    return judge


def _size(limit: int) -> Judge:
    return lambda value, _: f"must be at most {limit}, not {len(value)}" if len(value) > limit else ""


def _choices(choices: Sequence[str]) -> Judge:
    return lambda value, _: "" if value in choices else f"supported values: {', '.join(choices)}"


def _within(rule: Rule) -> Judge:
    known = [values_of(path) for path in rule.within.split()]
    return lambda value, document: "" if any(value in values(document) for values in known) else "is not there"


def _refuse(value: Any, _: Document) -> str:
    return "" if value in NOTHING else "may not be set"


_TESTS: dict[str, tuple[str, Callable[[Rule], Judge]]] = {
    "forbidden": (FORBIDDEN, lambda _: _refuse),
    "invalid": (INVALID, lambda _: _refuse),
    "choices": (NOT_SUPPORTED, lambda rule: _choices(rule.choices)),
    "refused": (INVALID, lambda rule: lambda value, _: "may not have this value" if value in rule.refused else ""),
    "format": (INVALID, _format),
    "labels": (INVALID, lambda _: _labels),
    "min": (INVALID, _range),
    "max": (INVALID, _range),
    "longest": (TOO_LONG, lambda rule: _size(rule.longest or 0)),
    "most": (TOO_MANY, lambda rule: _size(rule.most or 0)),
    "within": (NOT_FOUND, _within),
}
"""By the key of a rule, the reason of the error and what makes the test."""


def _judges(rule: Rule) -> tuple[tuple[str, Judge], ...]:
    given = [key for key in _TESTS if getattr(rule, key) != getattr(_NO_RULE, key)]
    if {"min", "max"} <= set(given):
        given.remove("max")  # one test has both bounds
    return tuple((_TESTS[key][0], _TESTS[key][1](rule)) for key in given)


def _checks(rule: Rule) -> list[Check]:
    """The tests of a rule that say themselves where their errors are."""
    found: list[Check] = []
    if use := rule.use:
        found.append(lambda value, where, _: check(use, value, where) if isinstance(value, dict) else [])
    if rule.check:
        found.append(_CHECKS[rule.check])
    if rule.keys:
        found.append(lambda values, where, _: _key_errors(rule, values, where))
    if rule.one_of or rule.at_most_one:
        found.append(lambda value, where, _: _alternative_errors(rule, value, where))
    return found


def _key_errors(rule: Rule, values: Document, where: str) -> Errors:
    problems = FORMATS[rule.keys]
    return [invalid(where if rule.field else f"{where}[{key}]", key, text) for key in values for text in problems(key)]


def _alternative_errors(rule: Rule, value: Document, where: str) -> Errors:
    """Of some fields, those after the first are refused; `one_of` also refuses that there is none."""
    given = [name for name in rule.one_of or rule.at_most_one if value.get(name) not in NOTHING]
    if not given and rule.one_of:
        return [error(rule.reason or REQUIRED, where, "", rule.text)]
    if rule.reason:
        return [error(rule.reason, where, "", rule.text) for _ in given[1:2]]
    return [forbidden(f"{where}.{name}" if where else name, rule.text) for name in given[1:]]
