# SPDX-License-Identifier: Apache-2.0
"""The order in which plugins run in every phase: by what they declare, then by name.

The same plugins have the same order on every start, whatever the order in which they were found.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter


class OrderingCycle(Exception):  # noqa: N818 - it names what was found
    """Plugins that are to run before each other. `members` is one such circle, with its first name again at the end."""

    def __init__(self, members: tuple[str, ...]) -> None:
        super().__init__(" before ".join(members))
        self.members = members


def ordered(before: Mapping[str, AbstractSet[str]], after: Mapping[str, AbstractSet[str]]) -> tuple[str, ...]:
    """The names in an order that every `before` and `after` agrees with.

    Both mappings have all names as keys; other names in their values are ignored. Raises OrderingCycle.
    """
    sorter = TopologicalSorter({name: sorted(after[name] & before.keys()) for name in sorted(before)})
    for name, followers in sorted(before.items()):
        for follower in sorted(followers & before.keys()):
            sorter.add(follower, name)
    try:
        sorter.prepare()
    except CycleError as error:
        members = error.args[1][:-1]
        start = members.index(min(members))
        raise OrderingCycle((*members[start:], *members[:start], members[start])) from None
    ready: list[str] = []
    result: list[str] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        result.append(min(ready))
        ready.remove(result[-1])
        sorter.done(result[-1])
    return tuple(result)
