# SPDX-License-Identifier: Apache-2.0
"""`anyOf`, `oneOf`, `allOf` and `not`, with the problems of the alternative that came nearest."""

from collections.abc import Callable, Mapping
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import quoted
from trainwright.controller.local.apiserver.schema.problems import Check, Checks, SchemaProblem, run

Schema = Mapping[str, Any]
Compile = Callable[[Schema], Checks]


def alternative_checks(schema: Schema, compile_inner: Compile, *, strict: bool) -> list[Check]:
    """The checks, in the server's order."""
    made: list[Check] = []
    for word, check in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of)):
        if schema.get(word):
            made.append(check([(compile_inner(inner), _Count(inner, strict)) for inner in schema[word]]))
    if schema.get("not") is not None:
        made.append(_none_of(compile_inner(schema["not"])))
    return made


class _Count:
    """How many checks a value passed: the alternative with the most is the one whose problems are told."""

    def __init__(self, schema: Schema, strict: bool) -> None:
        self._schema = schema
        self._typed = bool(schema.get("type") or (strict and schema.get("x-kubernetes-int-or-string")))
        inner = {name: _Count(each, strict) for name, each in schema.get("properties", {}).items()}
        others, items = schema.get("additionalProperties"), schema.get("items")
        self._declared = inner
        self._others = _Count(others, strict) if isinstance(others, Mapping) else None
        self._items = _Count(items, strict) if isinstance(items, Mapping) else None
        self._type_checks = run_of_type(schema)

    def of(self, value: Any) -> int:
        """The number for a value, as the server counts: one for each kind of check that applies to its type."""
        good_type = self._type_checks(value)
        if value is None:
            return int(good_type)
        # One for itself and one for the alternatives inside, which have one result of their own.
        count = 3 + self._nested(value)
        if self._typed or self._schema.get("format"):
            count += 1 + int(good_type)
        kind = type(value)
        if kind is str:
            count += 1 + int(bool(self._schema.get("format")))
        elif kind in (int, float):
            count += 2
        return count + 1  # of the enum, whether there is one or not

    def _nested(self, value: Any) -> int:
        if isinstance(value, list):
            inside = sum(self._items.of(item) for item in value) if self._items else 0
            return inside + 2
        if not isinstance(value, dict):
            return 0
        inside = 1
        for name, part in value.items():
            count = self._declared.get(name, self._others)
            inside += count.of(part) if count is not None else 0
        return inside


def run_of_type(schema: Schema) -> Callable[[Any], bool]:
    """Whether a value has the type of a schema, which alternatives of structural schemas do not name."""
    kind = schema.get("type")
    names = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,)}
    wanted = {**names, "object": (dict,)}.get(str(kind))
    nullable = bool(schema.get("nullable"))

    def check(value: Any) -> bool:
        if wanted is None:
            return True
        if value is None:
            return nullable
        return type(value) in wanted

    return check


def _fixed(problems: list[SchemaProblem]) -> list[SchemaProblem]:
    for problem in problems:
        problem.fixed = len(problem.steps)
    return problems


def _unplaced(text: str) -> SchemaProblem:
    """A problem that names the field in its text alone."""
    return SchemaProblem(lambda name: f"{quoted(name)} {text}", nowhere=True)


def _nearest(
    alternatives: list[tuple[Checks, _Count]], results: list[list[SchemaProblem]], value: Any
) -> list[SchemaProblem]:
    counts = [count.of(value) for _, count in alternatives]
    return results[counts.index(max(counts))]


def _any_of(alternatives: list[tuple[Checks, _Count]]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results: list[list[SchemaProblem]] = []
        for checks, _ in alternatives:
            problems = run(checks, value)
            if not problems:
                return None
            results.append(problems)
        failed = _unplaced("must validate at least one schema (anyOf)")
        return _fixed([failed, *_nearest(alternatives, results, value)])

    return check


def _one_of(alternatives: list[tuple[Checks, _Count]]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results = [run(checks, value) for checks, _ in alternatives]
        valid = sum(not problems for problems in results)
        if valid == 1:
            return None
        if valid:
            found = f"Found {valid} valid alternatives"
            return _fixed([_unplaced(f"must validate one and only one schema (oneOf). {found}")])
        failed = _unplaced("must validate one and only one schema (oneOf). Found none valid")
        return _fixed([failed, *_nearest(alternatives, results, value)])

    return check


def _all_of(alternatives: list[tuple[Checks, _Count]]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results = [run(checks, value) for checks, _ in alternatives]
        failed = [problems for problems in results if problems]
        if not failed:
            return None
        all_failed = ". None validated" if len(failed) == len(results) else ""
        summary = _unplaced(f"must validate all the schemas (allOf){all_failed}")
        return _fixed([*(problem for problems in failed for problem in problems), summary])

    return check


def _none_of(checks: Checks) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        return None if run(checks, value) else [_unplaced("must not validate the schema (not)")]

    return check
