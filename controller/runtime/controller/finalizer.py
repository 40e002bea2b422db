# SPDX-License-Identifier: Apache-2.0
"""Cleans up outside of the cluster before an object is deleted, as `finalizer` of kube-rs does.

    async def reconcile(key: Key) -> Result:
        bucket = manager.cache.get(Bucket, key)
        if bucket is None:
            return Done()
        return await finalizer(manager.client, "example.com/bucket", bucket, apply=create, cleanup=empty)

The finalizer is on the object before `apply` runs, so nothing that `apply` makes is ever left behind: `cleanup` runs
until it says that it is done, and then the finalizer is taken off. Both must bear being run again.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from trainwright.api.objects import AnyObject, deletion_timestamp_of, finalizers_of, key_of, resource_version_of, uid_of
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.controller.controller import Done, Result
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.kinds import Kind, kind_of

O = TypeVar("O", bound=AnyObject)  # noqa: E741 - the object


async def finalizer(
    client: Client,
    name: str,
    obj: O,
    *,
    apply: Callable[[O], Awaitable[Result]],
    cleanup: Callable[[O], Awaitable[Result]],
    kind: Kind | None = None,
) -> Result:
    """Reconcile an object with a finalizer of this name; returns what `apply` or `cleanup` returns.

    Args:
        client: it needs the right to patch the kind.
        name: such as `example.com/bucket`. Other finalizers are left alone.
        obj: as the cache has it; it is not changed.
        apply: reconciles an object that stays. It gets the object with the finalizer on it.
        cleanup: undoes what `apply` did. The finalizer stays for as long as it raises, or returns a `RetryAfter` or
            `Backoff`.
        kind: for dictionaries of kinds that the client does not know.

    Raises:
        Conflict: the object has changed meanwhile; its next reconcile sees the change.
        ApiError, TransportError: the finalizer could not be written.
    """
    there = list(finalizers_of(obj))
    if deletion_timestamp_of(obj) is None:
        if name not in there:
            obj = await _write(client, obj, kind, [*there, name])
        return await apply(obj)
    if name not in there:
        return Done()  # it waits for others
    result = await cleanup(obj)
    if result is None or isinstance(result, Done):
        try:
            await _write(client, obj, kind, [one for one in there if one != name])
        except NotFound:
            return result  # another replica was faster, or somebody took the finalizer off by hand
    return result


async def _write(client: Client, obj: O, kind: Kind | None, finalizers: list[str]) -> O:
    """Fails with a Conflict if the object is not as it was read: a list is replaced as a whole."""
    locked = {"uid": uid_of(obj), "resourceVersion": resource_version_of(obj)}
    place: Any = kind or kind_of(obj, client.known_kinds())
    patch = {"metadata": {**{field: value for field, value in locked.items() if value}, "finalizers": finalizers}}
    namespace, name = key_of(obj)
    written: O = await client.patch(place, name, namespace, patch)
    return written
