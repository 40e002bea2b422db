# SPDX-License-Identifier: Apache-2.0
"""What stands between a decoded object and the store: those who may change it, and those who may refuse it."""

from typing import Protocol

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.request.call import Operation, RequestInfo
from trainwright.controller.local.apiserver.request.info import WriteQuery


class Admission(Protocol):
    """One or several checks."""

    async def mutate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> Document | None:
        """The object to go on with. Raises StatusError."""
        ...

    async def validate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> None:
        """Raises StatusError where the object is refused."""
        ...


class Chain:
    """Several, one after the other.

    Args:
        parts: in their order.
        again: what completes objects, and does so again where a part after it has changed the object.
    """

    def __init__(self, *parts: Admission, again: Admission | None = None) -> None:
        self._parts = parts
        self._again = again

    async def mutate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> Document | None:
        """Each gets what the one before it made."""
        completed = new
        for part in self._parts:
            new = await part.mutate(call, operation, new, old, options)
            if part is self._again:
                completed = new
        if self._again is not None and new != completed:
            new = await self._again.mutate(call, operation, new, old, options)
        return new

    async def validate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> None:
        """The first refusal is the answer."""
        for part in self._parts:
            await part.validate(call, operation, new, old, options)
