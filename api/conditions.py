# SPDX-License-Identifier: Apache-2.0
"""Reads and sets conditions of models and of dictionaries.

`lastTransitionTime` changes only when `status` does. A condition that is set to its current values stays the same
object, so that a status computed twice from the same facts compares equal and is not written.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from trainwright.api.times import Now, format_time, wall_clock

C = TypeVar("C")

_WIRE = {"last_transition_time": "lastTransitionTime", "observed_generation": "observedGeneration"}


def _get(condition: object, name: str) -> Any:
    if isinstance(condition, dict):
        return condition.get(_WIRE.get(name, name))
    return getattr(condition, name, None)


def _with_time(condition: C, when: str) -> C:
    if isinstance(condition, dict):
        return {**condition, "lastTransitionTime": when}  # type: ignore[return-value]  # C is the dictionary here
    return msgspec.structs.replace(condition, last_transition_time=when)  # type: ignore[type-var,no-any-return,unused-ignore]


def find(conditions: Iterable[C] | None, type: str) -> C | None:  # noqa: A002 - the API's own word
    for condition in conditions or ():
        if _get(condition, "type") == type:
            return condition
    return None


def find_true(conditions: Iterable[C] | None, type: str) -> C | None:  # noqa: A002 - the API's own word
    """The condition of that type, if its status is True."""
    condition = find(conditions, type)
    return condition if condition is not None and _get(condition, "status") == "True" else None


def is_true(conditions: Iterable[object] | None, type: str) -> bool:  # noqa: A002 - the API's own word
    """Whether there is a condition of that type with status True."""
    return find_true(conditions, type) is not None


def set_condition(
    conditions: Sequence[C] | None, wanted: C, *, now: Now = wall_clock, at: str | None = None
) -> list[C]:
    """The conditions with `wanted` in place of the one of its type, or at the end. The input is not changed.

    The transition time that `wanted` carries is ignored: it gets the current one's if the status is the same, else
    `at`, else `now()`. Reason, message and observed generation may change without a transition.

    Args:
        conditions: None is an empty list.
        wanted: the condition, of the same form as the others.
        now: the wall clock.
        at: when the transition happened, in wire form: for a condition that is taken over from another object.
    """
    current = find(conditions, _get(wanted, "type"))
    if current is None:
        return [*(conditions or ()), _with_time(wanted, at or format_time(now()))]
    same_status = _get(current, "status") == _get(wanted, "status")
    since = _get(current, "last_transition_time") if same_status else None
    changed = _with_time(wanted, since or at or format_time(now()))
    kept = current if _same(current, changed) else changed
    return [kept if one is current else one for one in conditions or ()]


def remove_condition(conditions: Sequence[C] | None, type: str) -> list[C]:  # noqa: A002 - the API's own word
    """The conditions without the one of that type."""
    return [condition for condition in conditions or () if _get(condition, "type") != type]


def _same(a: object, b: object) -> bool:
    names = ("status", "reason", "message", "observed_generation", "last_transition_time")
    return all(_get(a, name) == _get(b, name) for name in names)
