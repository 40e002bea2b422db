# SPDX-License-Identifier: Apache-2.0
"""Observers of the client: the cache hears of writes, metrics hear of attempts.

The cache must know of a write before it is sent, because the watch event of the write often arrives before the answer.
"""

from typing import Any, Protocol

from trainwright.api.base import Resource
from trainwright.api.objects import Key
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.kinds import Codec


class PendingWrite:
    """A write that has started. Exactly one of the three methods is called at its end.

    This one is of a client without a cache: its methods do nothing.
    """

    def written(self, codec: Codec[Any], obj: Any) -> None:
        """The server answered with the written object."""

    def deleted(self, uid: str) -> None:
        """The server answered that the object is deleted. `uid` is empty if the answer had none."""

    def failed(self) -> None:
        """The write was refused, or its outcome is unknown. The watch shows what happened."""


class WriteObserver(Protocol):
    """Is called before every write."""

    def begin(self, resource: Resource, key: Key, *, applies: bool = False) -> PendingWrite:
        """A write of this object is about to be sent. `applies`: by server-side apply, which may change nothing."""
        ...


class RequestObserver(Protocol):
    """Is called after every attempt."""

    def attempt(self, request: Request, status: int | None) -> None:
        """An attempt ended with this HTTP status; None: without an answer."""
        ...
