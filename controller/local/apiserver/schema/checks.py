# SPDX-License-Identifier: Apache-2.0
"""The checks of a value by an OpenAPI schema, compiled once: types, bounds, enums, required fields, alternatives.

A value is looked at by the checks for its type alone, so that what a schema cannot say about a type costs nothing.
Problems are in the order of the server: type, alternatives, length and pattern, format, bounds, items, enum, fields.
Values are of a JSON decoder, with integers of 64 bits.

Source: `k8s.io/kube-openapi/pkg/validation/validate`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainwright.api.validation.formats import check_of
from trainwright.api.validation.patterns import PatternError, compiled
from trainwright.controller.local.apiserver.merge.apply.values import equal, json_text, quoted
from trainwright.controller.local.apiserver.schema.alternatives import alternative_checks
from trainwright.controller.local.apiserver.schema.errors import (
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    WRONG_TYPE,
)
from trainwright.controller.local.apiserver.schema.numbers import is_integral, number_checks
from trainwright.controller.local.apiserver.schema.problems import TYPES, Check, Checks, SchemaProblem, run

Schema = Mapping[str, Any]

_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_FORMATS: dict[type, str] = {int: "int64", float: "float64"}
"""The format that the server finds in a value."""


def compile_checks(schema: Schema, *, strict: bool = True) -> Checks:
    """The checks of a schema.

    Args:
        schema: a schema of a CRD, without references.
        strict: an int-or-string is an integer or a string. Defaults of a schema are checked without this.
    """
    types = _types(schema, strict)
    kind = types[0] if len(types) == 1 else ""
    form = _known_format(schema, types)
    checks: dict[type, list[Check]] = {each: [] for each in TYPES}
    for each in TYPES:
        _add(checks, [each], _type_check(each, types, form, nullable=bool(schema.get("nullable"))))
    alternatives = alternative_checks(schema, lambda inner: compile_checks(inner, strict=strict), strict=strict)
    _add(checks, [each for each in TYPES if each is not type(None)], *alternatives)
    _add(checks, [str], *_string_checks(schema, form))
    numbers = number_checks({**schema, "format": form}, kind)
    _add(checks, [int, float], *numbers)
    _add(checks, [list], *_list_checks(schema, strict))
    if schema.get("enum"):
        for each in TYPES:
            _add(checks, [each], _enum_check(schema["enum"]))
    _add(checks, [dict], *_object_checks(schema, strict))
    return {each: tuple(found) for each, found in checks.items()}


def _add(checks: dict[type, list[Check]], types: Iterable[type], *added: Check | None) -> None:
    for each in types:
        checks[each] += [check for check in added if check is not None]


def _types(schema: Schema, strict: bool) -> tuple[str, ...]:
    if strict and schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    kind = schema.get("type") or ""
    return (kind,) if kind else ()


def _known_format(schema: Schema, types: tuple[str, ...]) -> str:
    """The format, if the server knows it for this type."""
    form = schema.get("format") or ""
    kind = types[0] if len(types) == 1 else ""
    if kind in ("", "string"):
        return form if check_of(form) is not None else ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return form if form in known else ""


def _type_check(found: type, types: tuple[str, ...], form: str, *, nullable: bool) -> Check | None:
    """The check of a value of one type; None where it always passes."""
    name = _NAMES[found]
    if not types and not form:
        return None
    if found is type(None):
        wrong = bool(types) and not nullable
        return _constant(_wrong_type(",".join(types), name)) if wrong else None
    wanted = ",".join(types)
    numeric = "number" in types or "integer" in types
    fits = name in types or (found is int and "number" in types)
    if found is float and not fits and "integer" in types:
        return _integral_check(_wrong_type(form, "float64") if form else _wrong_type(wanted, name))
    if form and found not in (str, list) and not fits and _FORMATS.get(found) != form:
        return _constant(_wrong_type(form, _FORMATS.get(found, "")))
    if form and not numeric and found in (str, list):
        return None
    return None if fits else _constant(_wrong_type(wanted, name))


def _wrong_type(wanted: str, found: str) -> Callable[[], SchemaProblem]:
    text = quoted(found)
    return lambda: SchemaProblem(
        lambda name: f"{name} in body must be of type {wanted}: {text}", found, reason=WRONG_TYPE
    )


def _constant(problem: Callable[[], SchemaProblem]) -> Check:
    return lambda _: [problem()]


def _integral_check(problem: Callable[[], SchemaProblem]) -> Check:
    return lambda value: None if is_integral(value) else [problem()]


def _string_checks(schema: Schema, form: str) -> list[Check]:
    made: list[Check] = []
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if least is not None or most is not None or pattern:
        made.append(_text_check(least, most, pattern))
    if form and (accepts := check_of(form)) is not None:
        made.append(_format_check(form, accepts))
    return made


def _text_check(least: int | None, most: int | None, pattern: str | None) -> Check:
    """Length and pattern; only the first problem is told."""
    matches, shown = _search(pattern) if pattern else (None, "")

    def check(value: str) -> list[SchemaProblem] | None:
        if most is not None and len(value) > most:
            unit = "byte" if most == 1 else "bytes"
            return [SchemaProblem(f"may not be more than {most} {unit}", value, reason=TOO_LONG)]
        if least is not None and len(value) < least:
            return [SchemaProblem(lambda name: f"{name} in body should be at least {least} chars long", value)]
        if matches is not None and not matches(value):
            return [SchemaProblem(lambda name: f"{name} in body should match '{shown}'", value)]
        return None

    return check


def _search(pattern: str) -> tuple[Callable[[str], Any], str]:
    try:
        return compiled(pattern).search, pattern
    except PatternError as error:
        return lambda _: None, f"{pattern}, but pattern is invalid: {error}"


def _format_check(form: str, accepts: Callable[[str], bool]) -> Check:
    def check(value: str) -> list[SchemaProblem] | None:
        if accepts(value):
            return None
        text = quoted(value)
        return [SchemaProblem(lambda name: f"{name} in body must be of type {form}: {text}", value, reason=WRONG_TYPE)]

    return check


def _enum_check(members: list[Any]) -> Check:
    texts = [member if isinstance(member, str) else json_text(member) for member in members]
    listed = ", ".join(map(quoted, texts))
    plain = frozenset(member for member in members if isinstance(member, str))

    def check(value: Any) -> list[SchemaProblem] | None:
        if type(value) is str:
            if value in plain:
                return None
        elif any(_is_member(value, member) for member in members):
            return None
        return [SchemaProblem(f"supported values: {listed}", value, reason=NOT_SUPPORTED)]

    return check


def _is_member(value: Any, member: Any) -> bool:
    """Equal after a conversion of Go: numbers to each other's type, an integer to the character with this number."""
    if value is None or member is None:
        return False
    kind, wanted = type(value), type(member)
    if kind is float and wanted is int:
        return bool(int(value) == member)
    if kind is int and wanted is str:
        return bool(0 <= value <= 0x10FFFF and chr(value) == member)
    return equal(value, member)


def _list_checks(schema: Schema, strict: bool) -> list[Check]:
    made: list[Check] = []
    items = schema.get("items")
    if isinstance(items, Mapping):
        made.append(_items_check(lambda: compile_checks(items, strict=strict)))
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None or most is not None:
        made.append(_size_check(least, most, "should have at least {} items"))
    if schema.get("uniqueItems"):
        made.append(_unique_check)
    return made


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


def _size_check(least: int | None, most: int | None, few: str) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        size = len(value)
        found: list[SchemaProblem] = []
        if least is not None and size < least:
            found.append(SchemaProblem(lambda name: f"{name} in body {few.format(least)}", size))
        if most is not None and size > most:
            unit = "item" if most == 1 else "items"
            found.append(SchemaProblem(f"must have at most {most} {unit}", size, reason=TOO_MANY))
        return found

    return check


def _unique_check(value: list[Any]) -> list[SchemaProblem] | None:
    for index, item in enumerate(value):
        if any(equal(item, earlier) and type(item) is type(earlier) for earlier in value[:index]):
            return [SchemaProblem(lambda name: f"{name} in body shouldn't contain duplicates")]
    return None


def _object_checks(schema: Schema, strict: bool) -> list[Check]:
    made: list[Check] = []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None or most is not None:
        made.append(_size_check(least, most, "should have at least {} properties"))
    declared: Mapping[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties")
    if others is False:
        made.append(_closed_check(frozenset(declared)))
    compiled_others = compile_checks(others, strict=strict) if isinstance(others, Mapping) else None
    if declared or compiled_others is not None:
        made.append(_fields_check(declared, lambda inner: compile_checks(inner, strict=strict), compiled_others))
    if schema.get("required"):
        made.append(_required_check(tuple(schema["required"])))
    return made


def _closed_check(declared: frozenset[str]) -> Check:
    def say(key: str) -> Callable[[str], str]:
        return lambda name: f"{name}.{key} in body is a forbidden property"

    def check(value: dict[str, Any]) -> list[SchemaProblem] | None:
        return [SchemaProblem(say(key), key) for key in value if key not in declared]

    return check


def _fields_check(
    declared: Mapping[str, Schema], compile_field: Callable[[Schema], Checks], others: Checks | None
) -> Check:
    # A field is compiled when it is first seen: a pod template declares more than a thousand, and has some ten.
    seen: dict[str, Checks] = {}

    def check(value: dict[str, Any]) -> list[SchemaProblem] | None:
        found: list[SchemaProblem] | None = None
        for name, inner in value.items():
            checks = seen.get(name)
            if checks is None:
                if name in declared:
                    checks = seen[name] = compile_field(declared[name])
                elif others is None:
                    continue
                else:
                    checks = others
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


def problems_of(checks: Checks, value: Any) -> list[SchemaProblem]:
    """All problems of a value, each once."""
    found = run(checks, value)
    if len(found) < 2:
        return found
    unique: dict[tuple[str, str, str], SchemaProblem] = {}
    for problem in found:
        said = problem.say if isinstance(problem.say, str) else problem.say(problem.name)
        unique.setdefault((problem.reason, problem.name, said), problem)
    return list(unique.values())
