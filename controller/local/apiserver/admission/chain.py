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
    """Several, one after the other."""

    def __init__(self, *parts: Admission) -> None:
        self._parts = parts

    async def mutate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> Document | None:
        """Each gets what the one before it made."""
        for part in self._parts:
            new = await part.mutate(call, operation, new, old, options)
        return new

    async def validate(
        self, call: RequestInfo, operation: Operation, new: Document | None, old: Document | None, options: WriteQuery
    ) -> None:
        """The first refusal is the answer."""
        for part in self._parts:
            await part.validate(call, operation, new, old, options)
