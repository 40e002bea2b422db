# SPDX-License-Identifier: Apache-2.0
"""The order in which plugins run in every phase: by what they declare, then by name.

The same plugins have the same order on every start, whatever the order in which they were found.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet


class OrderingCycle(Exception):  # noqa: N818 - it names what was found
    """Plugins that are to run before each other. `members` is one such circle, with its first name again at the end."""

    def __init__(self, members: tuple[str, ...]) -> None:
        super().__init__(" before ".join(members))
        self.members = members


def ordered(before: Mapping[str, AbstractSet[str]], after: Mapping[str, AbstractSet[str]]) -> tuple[str, ...]:
    """The names in an order that every `before` and `after` agrees with.

    Both mappings have all names as keys; other names in their values are ignored. Raises OrderingCycle.
    """
    waits_for = {name: set(after[name]) & set(before) for name in before}
    for name, followers in before.items():
        for follower in followers & set(before):
            waits_for[follower].add(name)
    result: list[str] = []
    while waits_for:
        ready = min((name for name, missing in waits_for.items() if not missing), default=None)
        if ready is None:
            raise OrderingCycle(_circle(waits_for))
        result.append(ready)
        del waits_for[ready]
        for missing in waits_for.values():
            missing.discard(ready)
    return tuple(result)


def _circle(waits_for: Mapping[str, set[str]]) -> tuple[str, ...]:
    name = min(waits_for)
    trail: list[str] = []
    while name not in trail:
        trail.append(name)
        name = min(waits_for[name])
    circle = [*trail[trail.index(name) :], name]
    return tuple(reversed(circle))
