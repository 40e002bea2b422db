# SPDX-License-Identifier: Apache-2.0
"""What the client tells about its own traffic: to the cache about writes, to metrics about attempts.

The cache must know of a write before it is sent, because the watch event that the write causes often arrives before
the answer does.
"""

from typing import Any, Protocol

from trainwright.api.base import Resource
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.kinds import Codec
from trainwright.controller.runtime.objects import AnyObject, Key


class PendingWrite(Protocol):
    """One write that was begun; exactly one of the three ends it."""

    def written(self, codec: Codec[Any], obj: AnyObject) -> None:
        """The server answered with the object as it is now."""
        ...

    def deleted(self, uid: str) -> None:
        """The server answered that the object is gone; `uid` is empty if it did not say which."""
        ...

    def failed(self) -> None:
        """Refused, or the outcome is unknown: only the watch will tell."""
        ...


class WriteObserver(Protocol):
    """Hears of every write before it is sent."""

    def begin(self, resource: Resource, key: Key) -> PendingWrite:
        """A write of this object starts."""
        ...


class RequestObserver(Protocol):
    """Hears of every attempt."""

    def attempt(self, request: Request, status: int | None) -> None:
        """One attempt ended with an HTTP status, or with None if no answer came."""
        ...


class IgnoredWrite:
    """For clients without a cache."""

    def written(self, codec: Codec[Any], obj: AnyObject) -> None:
        """Nothing to note."""

    def deleted(self, uid: str) -> None:
        """Nothing to note."""

    def failed(self) -> None:
        """Nothing to note."""
