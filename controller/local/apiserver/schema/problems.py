# SPDX-License-Identifier: Apache-2.0
"""What a check found, before it is known where: problems get their path while the walk returns."""

from collections.abc import Callable, Iterable
from typing import Any

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.schema.errors import INVALID, NOWHERE, error

Step = str | int
"""The name of a field or the index of an item."""


class SchemaProblem:
    """One thing that is wrong with a value."""

    __slots__ = ("fixed", "nowhere", "reason", "say", "steps", "value")

    def __init__(
        self,
        say: Callable[[str], str] | str,
        value: Any = "",
        *,
        reason: str = INVALID,
        steps: list[Step] | None = None,
        nowhere: bool = False,
    ) -> None:
        self.say = say
        """The detail, or what makes it from the name of the field."""
        self.value = value
        self.reason = reason
        self.steps: list[Step] = steps or []
        """The way to the value, backwards."""
        self.nowhere = nowhere
        """The server names the field in the text only."""
        self.fixed = 0
        """So many of the first steps lie in `anyOf`, `allOf` or `oneOf`: unchanged values are not excused there."""

    @property
    def name(self) -> str:
        """The path from where the check started, such as `spec.jobs[0].name`; empty for the start."""
        return path_text(reversed(self.steps))

    def located(self, base: str = "") -> DocumentError:
        """The error; `base` is the path of where the check started."""
        name = self.name
        detail = self.say if isinstance(self.say, str) else self.say(name)
        field = join(base, name) if not self.nowhere else base
        return error(self.reason, field or NOWHERE, self.value, detail)


def path_text(steps: Iterable[Step]) -> str:
    """A path of names and indexes as one text."""
    made = "".join(f"[{step}]" if type(step) is int else f".{step}" for step in steps)
    return made.removeprefix(".")


def join(base: str, name: str) -> str:
    """The path of a part."""
    return f"{base}.{name}" if base and name else base or name


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
