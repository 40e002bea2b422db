# SPDX-License-Identifier: Apache-2.0
"""Recognises the watch events of own writes ("echoes"), so that a controller is not woken by its own writes.

An event is an echo for a controller only if its resourceVersion is one that a write of this controller was answered.
A write that changes nothing has no echo: it is answered with the version of an earlier change, perhaps somebody else's.
The event can arrive before the answer. So while a write of a key is in flight, events of this key are held back from
the writing controller, and only from it. When the answer arrives, it shows which of them is the echo. The others are
delivered, so a change by someone else is never missed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from trainwright.api.objects import AnyObject, Key
from trainwright.controller.runtime.cache.store import Event, at_least

Deliver = Callable[[str, Event[AnyObject]], None]

LIMIT = 4096
"""Maximum of remembered answers; those that the watch has passed are dropped first."""


@dataclass(slots=True, eq=False)
class Flight:
    """One write between request and answer."""

    key: Key
    writer: str
    before: AnyObject | None = None
    """What was held when an apply was sent; None for other writes."""
    held: list[tuple[Event[AnyObject], str]] = field(default_factory=list)


class EchoGuard:
    """One per informer. `deliver(writer, event)` delivers an event to the handlers of one controller."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._flights: dict[Key, list[Flight]] = {}
        self._answered: dict[tuple[Key, str], str] = {}

    def take_off(self, key: Key, writer: str, before: AnyObject | None = None) -> Flight:
        """A write of `key` by `writer` is about to be sent; `before` as in Flight."""
        flight = Flight(key, writer, before)
        self._flights.setdefault(key, []).append(flight)
        return flight

    def land(self, flight: Flight, version: str, watched: str) -> None:
        """The write ended. `version`: of the answer, empty without one; `watched`: the version of the watch."""
        flights = self._flights[flight.key]
        flights.remove(flight)
        if not flights:
            del self._flights[flight.key]
        echoed = False
        for event, seen in flight.held:
            if version and seen == version:
                echoed = True
            else:
                self._deliver(flight.writer, event)
        if version and not echoed and not at_least(watched, version):
            if len(self._answered) >= LIMIT:
                self._prune(watched)
            self._answered[flight.key, version] = flight.writer

    def withheld_from(self, event: Event[AnyObject], version: str) -> frozenset[str]:
        """The controllers that must not get this event: its author, and those with a write in flight."""
        author = self._answered.pop((event.key, version), None)
        flights = self._flights.get(event.key)
        if flights is None:
            return frozenset((author,)) if author is not None else frozenset()
        writers = set()
        for flight in flights:
            if flight.writer not in writers and flight.writer != author:
                flight.held.append((event, version))
            writers.add(flight.writer)
        if author is not None:
            writers.add(author)
        return frozenset(writers)

    def _prune(self, watched: str) -> None:
        self._answered = {
            (key, version): writer
            for (key, version), writer in self._answered.items()
            if not at_least(watched, version)
        }
        while len(self._answered) >= LIMIT:
            del self._answered[next(iter(self._answered))]
