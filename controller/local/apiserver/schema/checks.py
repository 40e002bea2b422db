# SPDX-License-Identifier: Apache-2.0
"""The checks of a value by an OpenAPI schema, compiled once: types, bounds, enums, required fields, alternatives.

A value is looked at by the checks for its type alone, so that what a schema cannot say about a type costs nothing.
Values are of a JSON decoder, with integers of 64 bits.

Source: `k8s.io/kube-openapi/pkg/validation/validate`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainwright.api.validation.formats import check_of
from trainwright.api.validation.patterns import PatternError, compiled
from trainwright.controller.local.apiserver.schema.errors import (
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPES,
    WRONG_TYPE,
    Check,
    Checks,
    SchemaProblem,
    run,
)
from trainwright.controller.local.values import equal, float_text, json_text, quoted, shown

_LARGEST = {"int32": 2**31, "int64": 2**63}
_LARGEST_FLOAT32 = 3.4028235677973366e38
"""From here on a double does not round to a finite float."""


def is_integral(value: float) -> bool:
    """Whether a double counts as an integer: without a fraction, and exact."""
    return value == value // 1 and -(2**53) <= value <= 2**53 - 1


def number_checks(schema: Mapping[str, Any], kind: str) -> list[Check]:
    """The checks of a number by a schema of one type (`integer`, `number` or something else)."""
    form = _format(schema, kind)
    made: list[Check] = []
    if kind == "integer" or form == "float":
        made.append(_range_check(kind, form))
    if (factor := schema.get("multipleOf")) is not None:
        made.append(_bound_check("MultipleOf", factor, kind, form, _multiple(factor)))
    for word, upper in (("maximum", True), ("minimum", False)):
        if (limit := schema.get(word)) is not None:
            exclusive = bool(schema.get(f"exclusive{word.title()}"))
            title = f"{word.title()} boundary"
            made.append(_bound_check(title, limit, kind, form, _limit(limit, upper, exclusive)))
    return made


def _format(schema: Mapping[str, Any], kind: str) -> str:
    form = schema.get("format") or ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return form if form in known else ""


def _fits(value: float, kind: str, form: str) -> bool:
    if kind == "integer":
        largest = _LARGEST[form or "int64"]
        return value == value // 1 and -largest <= value < largest
    return form != "float" or abs(value) < _LARGEST_FLOAT32


def _unfit(title: str, kind: str, form: str) -> SchemaProblem:
    what = f"with format {form}" if form else "(default format)"
    return SchemaProblem(lambda name: f"{title} value must be of type {kind} {what} in {name}", nowhere=True)


def _range_check(kind: str, form: str) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        return None if _fits(value, kind, form) else [_unfit("Checked", kind, form)]

    return check


def _bound_check(title: str, bound: float, kind: str, form: str, check: Any) -> Check:
    """The check of a bound; a bound that does not fit the type itself makes every value wrong."""
    if _fits(bound, kind, form):

        def fitting(value: Any) -> list[SchemaProblem] | None:
            found = check(value, type(value) is int)
            return [found] if found else None

        return fitting

    def unfit(value: Any) -> list[SchemaProblem] | None:
        found = check(float(value), False)
        return [_unfit(title, kind, form), *([found] if found else [])]

    return unfit


def _limit(limit: float, upper: bool, exclusive: bool) -> Any:
    words = {(True, False): "less than or equal to", (True, True): "less than"}
    words |= {(False, False): "greater than or equal to", (False, True): "greater than"}

    def check(value: float, whole: bool) -> SchemaProblem | None:
        bound: float = int(limit) if whole else float(limit)
        beyond = value > bound if upper else value < bound
        if not beyond and not (exclusive and value == bound):
            return None
        return SchemaProblem(lambda name: f"{name} in body should be {words[upper, exclusive]} {shown(bound)}", value)

    return check


def _multiple(factor: float) -> Any:
    def check(value: float, whole: bool) -> SchemaProblem | None:
        by: float = int(factor) if whole else float(factor)
        if by <= 0:
            return SchemaProblem(
                lambda name: f"factor MultipleOf declared for {name} must be positive: {shown(by)}", by
            )
        if (value % by == 0) if whole else is_integral(1 / by * value if by < 1 else value / by):
            return None
        text = shown(by) if whole else float_text(by)
        return SchemaProblem(lambda name: f"{name} in body should be a multiple of {text}", value)

    return check


Schema = Mapping[str, Any]
Compile = Callable[[Schema], Checks]


def alternative_checks(schema: Schema, compile_inner: Compile) -> list[Check]:
    """The checks of `anyOf`, `oneOf`, `allOf` and `not`, in the server's order."""
    made: list[Check] = []
    for word, check in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of)):
        if schema.get(word):
            made.append(check([compile_inner(inner) for inner in schema[word]]))
    if schema.get("not") is not None:
        made.append(_none_of(compile_inner(schema["not"])))
    return made


def _fixed(problems: list[SchemaProblem]) -> list[SchemaProblem]:
    for problem in problems:
        problem.fixed = len(problem.steps)
    return problems


def _unplaced(text: str) -> SchemaProblem:
    """A problem that names the field in its text alone."""
    return SchemaProblem(lambda name: f"{quoted(name)} {text}", nowhere=True)


def _any_of(alternatives: list[Checks]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results: list[list[SchemaProblem]] = []
        for checks in alternatives:
            problems = run(checks, value)
            if not problems:
                return None
            results.append(problems)
        # The problems of the alternative that came nearest say most.
        return _fixed([_unplaced("must validate at least one schema (anyOf)"), *min(results, key=len)])

    return check


def _one_of(alternatives: list[Checks]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        results = [run(checks, value) for checks in alternatives]
        valid = sum(not problems for problems in results)
        if valid == 1:
            return None
        told = f"Found {valid} valid alternatives" if valid else "Found none valid"
        failed = _unplaced(f"must validate one and only one schema (oneOf). {told}")
        return _fixed([failed, *min(results, key=len)])

    return check


def _all_of(alternatives: list[Checks]) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        failed = [problem for checks in alternatives for problem in run(checks, value)]
        return _fixed([*failed, _unplaced("must validate all the schemas (allOf)")]) if failed else None

    return check


def _none_of(checks: Checks) -> Check:
    def check(value: Any) -> list[SchemaProblem] | None:
        return None if run(checks, value) else [_unplaced("must not validate the schema (not)")]

    return check


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
    alternatives = alternative_checks(schema, lambda inner: compile_checks(inner, strict=strict))
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
