# SPDX-License-Identifier: Apache-2.0
"""Checks of numbers, as Go makes them: bounds are doubles, compared as integers with integers."""

from collections.abc import Mapping
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import float_text, shown
from trainwright.controller.local.apiserver.schema.problems import Check, SchemaProblem

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
