# SPDX-License-Identifier: Apache-2.0
"""The checks of a value by an OpenAPI schema, compiled once: types, bounds, enums, required fields, alternatives.

A value is looked at by the checks for its type alone, so that what a schema cannot say about a type costs nothing.
Values are of a JSON decoder, with integers of 64 bits.

Source: `k8s.io/kube-openapi/pkg/validation/validate`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainwright.controller.local.types.errors import (
    INVALID,
    NOT_SUPPORTED,
    NOWHERE,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    WRONG_TYPE,
    DocumentError,
    error,
)
from trainwright.controller.local.types.formats import check_of
from trainwright.controller.local.types.model import Type, custom_part
from trainwright.controller.local.types.patterns import PatternError, compiled
from trainwright.controller.local.values import Step, equal, join, json_text, path_text, quoted, shown

Schema = Mapping[str, Any]
Accepts = Callable[[Any], bool]

_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_LARGEST = {"int32": 2**31, "int64": 2**63}
_LARGEST_FLOAT32 = 3.4028235677973366e38
"""From here on a double does not round to a finite float."""


class SchemaProblem:
    """One thing that is wrong with a value."""

    __slots__ = ("nowhere", "reason", "steps", "text", "value")

    def __init__(
        self,
        text: str,
        value: Any = "",
        *,
        reason: str = INVALID,
        steps: list[Step] | None = None,
        nowhere: bool = False,
    ) -> None:
        self.text = text
        self.value = value
        self.reason = reason
        self.steps: list[Step] = steps or []
        """The way to the value, backwards."""
        self.nowhere = nowhere
        """The server names the field in the text only."""

    @property
    def name(self) -> str:
        """The path from where the check started, such as `spec.jobs[0].name`; empty for the start."""
        return path_text(reversed(self.steps))

    def located(self, base: str = "") -> DocumentError:
        """The error; `base` is the path of where the check started."""
        name = self.name
        if self.nowhere:
            return error(self.reason, base or NOWHERE, self.value, f"{quoted(name)} {self.text}")
        return error(self.reason, join(base, name) or NOWHERE, self.value, self.text)


Check = Callable[[Any], list[SchemaProblem] | None]
"""Looks at a value of one type; None or an empty list if nothing is wrong."""

Checks = dict[type, tuple[Check, ...]]
"""What is checked of a value, by its type."""

TYPES: tuple[type, ...] = (dict, list, str, int, float, bool, type(None))
"""The types of JSON values."""


def run(checks: Checks, value: Any) -> list[SchemaProblem]:
    """All problems of a value."""
    found: list[SchemaProblem] = []
    for check in checks[type(value)]:
        problems = check(value)
        if problems:
            found += problems
    return found


Compile = Callable[[Type], Checks]


def compile_checks(kind: Type, *, strict: bool = True) -> Checks:
    """The checks of a type, in the server's order.

    Unless `strict`, as for defaults of a schema, an int-or-string may be anything.
    """
    schema = kind.schema
    is_either = strict and schema.get("x-kubernetes-int-or-string")
    types = ("integer", "string") if is_either else (kind.kind,) if kind.kind else ()
    form = known_format(kind.format, kind.kind)
    checks: dict[type, list[Check]] = {each: [] for each in TYPES}
    for each in TYPES:
        if not _fits_type(each, types, form, nullable=kind.nullable):
            _add(checks, [each], _type_check(each, types, form))
    inner: Compile = lambda one: compile_checks(one, strict=strict)  # noqa: E731
    _add(checks, [each for each in TYPES if each is not type(None)], *_alternative_checks(schema, inner))
    _add(checks, [str], *_string_checks(schema, form))
    _add(checks, [int, float], *_number_checks(schema, kind.kind, form))
    _add(checks, [list], *_list_checks(kind, inner))
    if schema.get("enum"):
        _add(checks, TYPES, _enum_check(schema["enum"]))
    _add(checks, [dict], *_object_checks(kind, inner))
    return {each: tuple(found) for each, found in checks.items()}


def problems_of(checks: Checks, value: Any) -> list[SchemaProblem]:
    """All problems of a value, each once."""
    found = run(checks, value)
    if len(found) < 2:
        return found
    return list({(problem.reason, problem.name, problem.text): problem for problem in reversed(found)}.values())[::-1]


def _add(checks: dict[type, list[Check]], types: Iterable[type], *added: Check) -> None:
    for each in types:
        checks[each] += added


def _refuse(accepts: Accepts, text: str, reason: str = INVALID, size: Callable[[Any], Any] | None = None) -> Check:
    """A check that refuses what is not accepted, and shows the value, or its size."""

    def check(value: Any) -> list[SchemaProblem] | None:
        if accepts(value):
            return None
        return [SchemaProblem(text, value if size is None else size(value), reason=reason)]

    return check


def known_format(form: str, kind: str) -> str:
    """The format, if the server knows it for this type."""
    if kind in ("", "string"):
        return form if check_of(form) is not None else ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return form if form in known else ""


def _fits_type(found: type, types: tuple[str, ...], form: str, *, nullable: bool) -> bool:
    """Whether every value of one type has the type of a schema."""
    if not types and (not form or found in (str, list)):
        return True
    if found is type(None):
        return nullable or not types
    if form and found in (str, list) and not {"number", "integer"} & set(types):
        return True
    return _NAMES[found] in types or (found is int and "number" in types)


def _type_check(found: type, types: tuple[str, ...], form: str) -> Check:
    """The check of values whose type is not that of a schema. Whole doubles are integers."""
    accepts = is_integral if found is float and "integer" in types else lambda _: False
    name, wanted = _NAMES[found], ",".join(types) or form
    return _refuse(accepts, f"must be of type {wanted}: {quoted(name)}", WRONG_TYPE, lambda _: name)


def _alternative_checks(schema: Schema, compile_inner: Compile) -> list[Check]:
    made: list[Check] = []
    for word, check in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of)):
        if schema.get(word):
            made.append(check([compile_inner(custom_part(inner)) for inner in schema[word]]))
    if schema.get("not") is not None:
        checks = compile_inner(custom_part(schema["not"]))
        made.append(lambda value: None if run(checks, value) else [_unplaced("must not validate the schema (not)")])
    return made


def _unplaced(text: str) -> SchemaProblem:
    """A problem that names the field in its text alone."""
    return SchemaProblem(text, nowhere=True)


def _any_of(alternatives: list[Checks]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results: list[list[SchemaProblem]] = []
        for checks in alternatives:
            problems = run(checks, value)
            if not problems:
                return None
            results.append(problems)
        # The problems of the alternative that came nearest say most.
        return [_unplaced("must validate at least one schema (anyOf)"), *min(results, key=len)]

    return check


def _one_of(alternatives: list[Checks]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results = [run(checks, value) for checks in alternatives]
        valid = sum(not problems for problems in results)
        if valid == 1:
            return None
        told = f"Found {valid} valid alternatives" if valid else "Found none valid"
        failed = _unplaced(f"must validate one and only one schema (oneOf). {told}")
        return [failed, *min(results, key=len)]

    return check


def _all_of(alternatives: list[Checks]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        failed = [problem for checks in alternatives for problem in run(checks, value)]
        return [*failed, _unplaced("must validate all the schemas (allOf)")] if failed else None

    return check


def _string_checks(schema: Schema, form: str) -> list[Check]:
    made: list[Check] = []
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is not None or most is not None or pattern:
        made.append(_text_check(least, most, pattern))
    if form and (accepts := check_of(form)) is not None:
        made.append(_refuse(accepts, f"must be of type {form}", WRONG_TYPE))
    return made


def _text_check(least: int | None, most: int | None, pattern: str | None) -> Check:
    """Length and pattern; only the first problem is told."""
    matches, said = _search(pattern) if pattern else (None, "")

    def check(value: str) -> list[SchemaProblem] | None:
        if most is not None and len(value) > most:
            unit = "byte" if most == 1 else "bytes"
            return [SchemaProblem(f"may not be more than {most} {unit}", value, reason=TOO_LONG)]
        if least is not None and len(value) < least:
            return [SchemaProblem(f"should be at least {least} chars long", value)]
        if matches is not None and not matches(value):
            return [SchemaProblem(f"should match '{said}'", value)]
        return None

    return check


def _search(pattern: str) -> tuple[Callable[[str], Any], str]:
    try:
        return compiled(pattern).search, pattern
    except PatternError as error:
        return lambda _: None, f"{pattern}, but pattern is invalid: {error}"


def is_integral(value: float) -> bool:
    """Whether a double counts as an integer: without a fraction, and exact."""
    return value == value // 1 and -(2**53) <= value <= 2**53 - 1


def _number_checks(schema: Schema, kind: str, form: str) -> list[Check]:
    made: list[Check] = []
    if kind == "integer" or form == "float":
        is_whole = kind == "integer"
        largest: float = _LARGEST[form or "int64"] if is_whole else _LARGEST_FLOAT32

        def fits(value: float) -> bool:
            return -largest <= value < largest and not (is_whole and value % 1)

        text = f"must be of type {kind} with format {form}" if form else f"must be of type {kind}"
        made.append(lambda value: None if fits(value) else [_unplaced(text)])
    if (factor := schema.get("multipleOf")) is not None:
        made.append(_refuse(lambda value: _is_multiple(value, factor), f"should be a multiple of {shown(factor)}"))
    if (most := schema.get("maximum")) is not None:
        if schema.get("exclusiveMaximum"):
            made.append(_refuse(lambda value: value < most, f"should be less than {shown(most)}"))
        else:
            made.append(_refuse(lambda value: value <= most, f"should be less than or equal to {shown(most)}"))
    if (least := schema.get("minimum")) is not None:
        if schema.get("exclusiveMinimum"):
            made.append(_refuse(lambda value: value > least, f"should be greater than {shown(least)}"))
        else:
            made.append(_refuse(lambda value: value >= least, f"should be greater than or equal to {shown(least)}"))
    return made


def _is_multiple(value: float, factor: float) -> bool:
    if factor <= 0:
        return False
    return value % factor == 0 if type(value) is type(factor) is int else is_integral(value / factor)


def _enum_check(members: list[Any]) -> Check:
    texts = [member if isinstance(member, str) else json_text(member) for member in members]
    plain = frozenset(member for member in members if isinstance(member, str))

    def accepts(value: Any) -> bool:
        return value in plain if type(value) is str else any(equal(value, member) for member in members)

    return _refuse(accepts, f"supported values: {', '.join(map(quoted, texts))}", NOT_SUPPORTED)


def _list_checks(kind: Type, compile_inner: Compile) -> list[Check]:
    made: list[Check] = []
    schema = kind.schema
    if isinstance(schema.get("items"), Mapping):
        made.append(_items_check(lambda: compile_inner(kind.item)))
    made += _size_checks(schema.get("minItems"), schema.get("maxItems"), "items")
    if schema.get("uniqueItems"):
        made.append(_refuse(_is_unique, "shouldn't contain duplicates"))
    return made


def _size_checks(least: int | None, most: int | None, what: str) -> list[Check]:
    made: list[Check] = []
    if least is not None:
        made.append(_refuse(lambda value: len(value) >= least, f"should have at least {least} {what}", INVALID, len))
    if most is not None:
        text = f"must have at most {most} {'item' if most == 1 else 'items'}"
        made.append(_refuse(lambda value: len(value) <= most, text, TOO_MANY, len))
    return made


def _is_unique(value: list[Any]) -> bool:
    return not any(
        equal(item, earlier) and type(item) is type(earlier)
        for index, item in enumerate(value)
        for earlier in value[:index]
    )


def _items_check(compile_items: Callable[[], Checks]) -> Check:
    compiled_items: Checks | None = None

    def check(value: list[Any]) -> list[SchemaProblem] | None:
        nonlocal compiled_items
        if not value:
            return None
        if compiled_items is None:
            compiled_items = compile_items()
        checks = compiled_items
        found: list[SchemaProblem] | None = None
        for index, item in enumerate(value):
            for each in checks[type(item)]:
                problems = each(item)
                if problems:
                    for problem in problems:
                        problem.steps.append(index)
                    found = problems if found is None else found + problems
        return found

    return check


def _object_checks(kind: Type, compile_inner: Compile) -> list[Check]:
    schema = kind.schema
    made = _size_checks(schema.get("minProperties"), schema.get("maxProperties"), "properties")
    declared = schema.get("properties") or {}
    if schema.get("additionalProperties") is False:
        made.append(
            lambda value: [SchemaProblem("is a forbidden property", key) for key in value if key not in declared]
        )
    if declared or kind.values is not None:
        made.append(_fields_check(kind, compile_inner))
    if schema.get("required"):
        made.append(_required_check(tuple(schema["required"])))
    return made


def _fields_check(kind: Type, compile_field: Compile) -> Check:
    # A field is compiled when it is first seen: a pod template declares more than a thousand, and has some ten.
    seen: dict[str, Checks] = {}
    of_others: list[Checks] = []

    def find(name: str) -> Checks | None:
        if name in kind.declared:
            seen[name] = compile_field(kind.declared[name])
            return seen[name]
        if kind.values is not None and not of_others:
            of_others.append(compile_field(kind.values))
        return of_others[0] if of_others else None

    def check(value: dict[str, Any]) -> list[SchemaProblem] | None:
        found: list[SchemaProblem] | None = None
        for name, inner in value.items():
            checks = seen.get(name) or find(name)
            if checks is None:
                continue
            for each in checks[type(inner)]:
                problems = each(inner)
                if problems:
                    for problem in problems:
                        problem.steps.append(name)
                    found = problems if found is None else found + problems
        return found

    return check


def _required_check(names: tuple[str, ...]) -> Check:
    needed = frozenset(names)

    def check(value: dict[str, Any]) -> list[SchemaProblem] | None:
        if needed <= value.keys():
            return None
        return [SchemaProblem("", reason=REQUIRED, steps=[name]) for name in names if name not in value]

    return check
