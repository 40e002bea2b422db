# SPDX-License-Identifier: Apache-2.0
"""Writes that several controllers make in the same way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from trainwright.api.base import Resource
from trainwright.api.objects import Document, name_of, namespace_of, resource_version_of, uid_of
from trainwright.controller.local.workloads.documents import merge_patch, status_of
from trainwright.controller.runtime import Client, NotFound

T = TypeVar("T")


async def write_status(client: Client, kind: Resource, before: Document, status: Document) -> Document:
    """Make `status` the status of an object, unless it is already. Returns the object.

    Raises Conflict if the object is not the one in `before` any more, because the status was computed from that one.
    """
    patch = merge_patch(status_of(before), status)
    if not patch:
        return before
    lock = {"resourceVersion": resource_version_of(before), "uid": uid_of(before)}
    document = {"metadata": lock, "status": patch}
    return await client.patch(kind, name_of(before), namespace_of(before), document, subresource="status")


async def remove_finalizer(client: Client, kind: Resource, obj: Document, finalizer: str) -> None:
    """Remove a finalizer from an object of a built-in kind, if the object is still there."""
    patch = {"metadata": {"uid": uid_of(obj), "$deleteFromPrimitiveList/finalizers": [finalizer]}}
    try:
        await client.patch(kind, name_of(obj), namespace_of(obj), patch, type="strategic")
    except NotFound:
        return


async def each(work: Callable[[T], Awaitable[None]], items: Iterable[T], *, at_once: int = 50) -> list[Exception]:
    """Do `work` for every item, some at once. Returns the errors, so that one item does not hold up the others."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: T) -> Exception | None:
        async with limit:
            try:
                await work(item)
            except Exception as error:
                return error
        return None

    return [error for error in await asyncio.gather(*(one(item) for item in items)) if error is not None]


async def each_slowly(work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> list[Exception]:
    """As `each`, in batches of 1, 2, 4 … that end with the first batch in which something fails.

    So what cannot succeed, such as the pods of a Job that admission refuses, is tried once and not 500 times.
    """
    left = list(items)
    size = 1
    while left:
        errors = await each(work, left[:size])
        if errors:
            return errors
        left, size = left[size:], size * 2
    return []
