# SPDX-License-Identifier: Apache-2.0
"""Debug mode: detects code that changes an object of the cache.

The encoded form of each object is kept from the moment it is stored. It is compared every second and when the cache
stops. This needs a copy of every object, so it is for tests.
"""

import asyncio
from typing import Any

import msgspec

from trainwright.api.objects import AnyObject, key_of
from trainwright.controller.runtime.lag import Pacer

PERIOD_SECONDS = 1.0
RETAIN_CHECKS = 120
"""Number of checks after which an object is no longer checked."""
_ENCODER = msgspec.json.Encoder(order="deterministic")


class MutationError(Exception):
    """A shared object was changed; the message names the object and the field."""


class MutationDetector:
    """Remembers the encoded form of objects."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[AnyObject, bytes, int]] = {}
        self._checks = 0

    def watch(self, obj: AnyObject) -> None:
        """Check this object from now on. It stays in memory for two minutes."""
        self._seen[id(obj)] = (obj, _ENCODER.encode(obj), self._checks)

    async def run(self) -> None:
        """Check until cancelled. Raises MutationError."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self._checks += 1
            pacer = Pacer()
            for name, (obj, before, since) in list(self._seen.items()):
                compare(obj, before)
                if self._checks - since > RETAIN_CHECKS:
                    del self._seen[name]
                await pacer.pause()

    def check(self) -> None:
        """Check all at once. Raises MutationError."""
        for obj, before, _ in self._seen.values():
            compare(obj, before)


def compare(obj: AnyObject, before: bytes) -> None:
    """Raise MutationError if an object differs from its encoded form."""
    after = _ENCODER.encode(obj)
    if after != before:
        name = type(obj).__name__ if not isinstance(obj, dict) else obj.get("kind")
        where = _first_difference(msgspec.json.decode(before), msgspec.json.decode(after), "")
        raise MutationError(
            f"{name} {key_of(obj)} was changed at {where}: cached objects are shared; call deepcopy() first"
        )


def _first_difference(a: Any, b: Any, path: str) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            if a.get(name) != b.get(name):
                return _first_difference(a.get(name), b.get(name), f"{path}.{name}")
    if isinstance(a, list) and isinstance(b, list):
        for index, (x, y) in enumerate(zip(a, b, strict=False)):
            if x != y:
                return _first_difference(x, y, f"{path}[{index}]")
    return f"{path or '.'} ({a!r} became {b!r})"
