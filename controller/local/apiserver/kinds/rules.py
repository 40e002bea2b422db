# SPDX-License-Identifier: Apache-2.0
"""The rules of built-in kinds: what `rules/*.json` refuses in an object, and in a change of one.

A rule names a place with `at` and says what is refused there; `rules/rules.schema.json` describes every key. Begin at
`check` and `check_change`. A new kind of test is an entry of `ruletests.py`, a new format one of `formats.FORMATS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors, immutable_errors, same
from trainwright.controller.local.apiserver.kinds.places import places, value_of, values_of, walk_of
from trainwright.controller.local.apiserver.kinds.ruletests import (
    NOTHING,
    Judge,
    Rule,
    error_of,
    from_recorded,
    judges_of,
    missing_error,
    named_field,
    repeated_errors,
)
from trainwright.controller.local.apiserver.schema.published.kinds import recorded
from trainwright.controller.local.types.errors import DocumentError

FOLDER = Path(__file__).parent / "rules"


class _Ruleset(NamedTuple):
    """The rules of a kind or of a struct within kinds, compiled."""

    tests: tuple["_Test", ...]
    always: tuple["_Passes", ...]
    """Of the tests that look for what is missing."""
    by_field: Mapping[str, tuple["_Passes", ...]]
    """Of the others, by the field without which there is nothing to look at."""
    changes: tuple[Rule, ...]


_Passes = Callable[[Document], bool]


class _Test(NamedTuple):
    """A rule, compiled. Nearly all objects are good: `passes` looks without naming places, which takes time."""

    first: str
    """The field without which there is nothing to look at; empty where the rule looks for what is missing."""
    passes: _Passes
    tell: Callable[[Document, str, Errors], None]
    """Adds the errors of a document that does not pass."""


@cache
def tables() -> Mapping[str, tuple[Rule, ...]]:
    """All rules, by kind (`batch/v1 Job`) or by the struct for which other rules `use` them (`Container`).

    Raises:
        ValueError: two files have rules of the same name.
    """
    found: dict[str, tuple[Rule, ...]] = {}
    for path in sorted(FOLDER.glob("[!.]*.json")):
        if path.name.endswith(".schema.json"):
            continue
        table: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        for name in table.keys() - {"$schema"}:
            if name in found:
                raise ValueError(f"{path.name}: another file has rules of {name} too")
            found[name] = msgspec.convert(table[name], tuple[Rule, ...])
    for kind in recorded().kinds:
        name = f"{kind.api_version} {kind.kind}"
        found[name] = (*found.get(name, ()), *(rule for one in kind.rules for rule in from_recorded(one)))
    return found


def check(name: str, document: Document, where: str = "") -> Errors:
    """Errors of a document by the rules of a kind or struct; `where` is the place of the document."""
    found: Errors = []
    rules = _compiled(name)
    if not _passes_all(rules, document):
        for first, passes, tell in rules.tests:
            if (not first or first in document) and not passes(document):
                tell(document, where, found)
    return found


def _passes_all(rules: _Ruleset, document: Document) -> bool:
    for passes in rules.always:
        if not passes(document):
            return False
    by_field = rules.by_field
    for name in document:
        if name in by_field:
            for passes in by_field[name]:
                if not passes(document):
                    return False
    return True


def errors_of(rules: Iterable[Rule], document: Document) -> Errors:
    """Errors of a document by rules that are in no file."""
    found: Errors = []
    for rule in rules:
        if (test := _test_of(rule)) is not None and not test.passes(document):
            test.tell(document, "", found)
    return found


def check_change(name: str, new: Document, old: Document) -> Errors:
    """Errors of what an update changes."""
    return [error for rule in _compiled(name).changes for error in _change_errors(rule, new, old)]


@cache
def _condition(when: bytes, unless: bytes) -> Callable[[Document], bool] | None:
    """Whether a rule applies: all of `when` holds, and not all of `unless`. None for one that always does."""
    wanted = [(value_of(path), value) for path, value in msgspec.json.decode(when).items()]
    unwanted = [(value_of(path), value) for path, value in msgspec.json.decode(unless).items()]
    if not (wanted or unwanted):
        return None

    def applies(document: Document) -> bool:
        for read, value in wanted:
            if not _fits(read(document), value):
                return False
        for read, value in unwanted:
            if not _fits(read(document), value):
                return True
        return not unwanted

    return applies


def _condition_of(rule: Rule) -> Callable[[Document], bool] | None:
    return _condition(msgspec.json.encode(rule.when), msgspec.json.encode(rule.unless))


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, or one of them. True stands for anything that is set, False for nothing."""
    if isinstance(wanted, bool):
        return (value not in NOTHING and value is not False) == wanted
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)


# -------------------------------------------------------------- compiling


@cache
def _compiled(name: str) -> _Ruleset:
    rules = tables().get(name, ())
    tests = tuple(test for rule in rules if (test := _test_of(rule)) is not None)
    always = tuple(test.passes for test in tests if not test.first)
    fields = {test.first: tuple(one.passes for one in tests if one.first == test.first) for test in tests if test.first}
    changes = tuple(rule for rule in rules if rule.immutable or rule.fixed)
    return _Ruleset(tests, always, fields, changes)


def _test_of(rule: Rule) -> _Test | None:
    """The test of a rule; None where it says only what may not change."""
    judges = judges_of(rule)
    if rule.use:
        judges.append(_use(rule))
    unique = rule.unique is not False
    if not (judges or unique or rule.present or rule.required):
        return None
    walk, missing, named = walk_of(rule.at), _missing_test(rule), bool(rule.field)

    def tell(document: Document, where: str, found: Errors) -> None:
        for place, value in walk(document, where):
            field = named_field(rule, place, where) if named else place
            if missing is not None and missing(value):
                found.append(missing_error(rule, field))
            elif value is not None:
                for judge in judges:
                    found += judge(value, field, document)
        if unique:
            found += repeated_errors(rule, document, where)

    alone = missing is not None and "." not in rule.at and "[" not in rule.at
    first = "" if alone else rule.at.partition(".")[0].removesuffix("[*]")
    return _Test(first, _passing(rule, judges), tell)


def _passing(rule: Rule, judges: list[Judge]) -> Callable[[Document], bool]:
    """What looks whether a document is good, by the tests of a rule."""
    if rule.use and not (rule.when or rule.unless):
        return _of_structs(rule)
    plain = rule.at and "." not in rule.at and "[" not in rule.at
    if plain and not (rule.when or rule.unless or rule.unique):
        return _of_field(rule, judges)
    return _of_places(rule, judges)


def _of_structs(rule: Rule) -> Callable[[Document], bool]:
    values, use = values_of(rule.at), rule.use

    def passes(document: Document) -> bool:
        rules = _compiled(use)
        for value in values(document):  # noqa: SIM110 - a generator for each struct would take as long as the tests
            if isinstance(value, dict) and not _passes_all(rules, value):
                return False
        return True

    return passes


def _of_field(rule: Rule, judges: list[Judge]) -> Callable[[Document], bool]:
    name, is_missing = rule.at, _missing_test(rule)

    def passes(document: Document) -> bool:
        value = document.get(name)
        if is_missing is not None and is_missing(value):
            return False
        if value is not None:
            for judge in judges:
                if judge(value, "", document):
                    return False
        return True

    return passes


def _of_places(rule: Rule, judges: list[Judge]) -> Callable[[Document], bool]:
    applies, values, is_missing = _condition_of(rule), values_of(rule.at), _missing_test(rule)
    unique = rule.unique is not False

    def passes(document: Document) -> bool:
        if applies is not None and not applies(document):
            return True
        for value in values(document):
            if is_missing is not None and is_missing(value):
                return False
            if value is not None:
                for judge in judges:
                    if judge(value, "", document):
                        return False
        return not unique or not repeated_errors(rule, document, "")

    return passes


def _missing_test(rule: Rule) -> Callable[[Any], bool] | None:
    if rule.required:
        return lambda value: not value and value is not False
    return (lambda value: value is None) if rule.present else None


def _change_errors(rule: Rule, new: Document, old: Document) -> Iterator[DocumentError]:
    if (applies := _condition_of(rule)) is not None and not applies(old):
        return
    before = dict(places(old, rule.at))
    for where, value in places(new, rule.at):
        if where not in before or (rule.fixed and before[where] in NOTHING):
            continue
        if same(_kept(rule, value), _kept(rule, before[where])) or (
            rule.or_equal and value in (None, value_of(rule.or_equal)(new))
        ):
            continue
        if rule.reason or rule.text:
            yield error_of(rule, named_field(rule, where, ""), value, rule.text)
        else:
            yield from immutable_errors(value, before[where], named_field(rule, where, ""))


def _kept(rule: Rule, value: Any) -> Any:
    """A value without those of its fields that may change."""
    if not rule.free or not isinstance(value, dict):
        return value
    return {key: inner for key, inner in value.items() if key not in rule.free}


def _use(rule: Rule) -> Judge:
    def judge(value: Any, where: str, _: Document) -> Iterable[DocumentError]:
        return check(rule.use, value, where) if isinstance(value, dict) else ()

    return judge
