# SPDX-License-Identifier: Apache-2.0
"""Looks up the facts that plugins ask for, and the objects of jobs: in the cache where possible."""

from collections.abc import Callable, Iterable

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, PartialObject, deletion_timestamp_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Cache, Client, KubernetesError, MetadataOnly, NotFound
from trainwright.controller.trainer.build.kinds import WatchedKinds
from trainwright.plugins.contract import ClusterFacts, Reference, Unreadable


class CachedFacts:
    """Reads from the manager's cache; for kinds that no plugin watches, from the API server."""

    def __init__(self, client: Client, cache: Cache, kinds: WatchedKinds) -> None:
        self._client = client
        self._cache = cache
        self.kinds = kinds
        self._provided: dict[Resource, Callable[[Reference], AnyObject | None]] = {}

    def provide(self, resource: Resource, give: Callable[[Reference], AnyObject | None]) -> None:
        """Take the facts of a kind that no API server has from this process."""
        self._provided[resource] = give

    async def read(self, references: Iterable[Reference]) -> ClusterFacts:
        """The current state of these objects. A read that failed is part of the answer (`Unreadable`)."""
        found: dict[Reference, AnyObject | Unreadable | None] = {}
        for reference in references:
            try:
                if (give := self._provided.get(reference.resource)) is not None:
                    found[reference] = give(reference)
                elif self.kinds.watches(reference):
                    found[reference] = self.find(reference)
                else:
                    found[reference] = await self._client.get(reference.resource, reference.name, reference.namespace)
            except NotFound:
                found[reference] = None
            except KubernetesError as error:
                found[reference] = Unreadable(str(error))
        return ClusterFacts(found)

    def find(self, reference: Reference) -> AnyObject | None:
        """The object from the cache, or None.

        Raises CacheError: its kind is not watched, or the first list of the kind has not arrived.
        """
        if self.kinds.is_absent(reference.resource):
            return None
        found: AnyObject | None = self._cache.get(self.kinds.kind_of(reference), reference.name, reference.namespace)
        return found


async def metadata_of(client: Client, reference: Reference) -> PartialObject | None:
    """What the API server has of the object. The cache is late, and lacks objects that no TrainJob controls.

    It is a list, because the manager may list every watched kind but need not have the right to get one. Raises
    KubernetesError.
    """
    kind = MetadataOnly(reference.resource)
    listed = await client.list(kind, reference.namespace, field_selector=f"metadata.name={reference.name}")
    return next(iter(listed.items), None)


async def is_there(client: Client, job: TrainJob) -> bool:
    """Whether the API server has this very job, and it is not being deleted. Raises KubernetesError.

    Whoever makes an object of a job again asks this first. The garbage collector may have deleted the object because
    the job is gone; until the watch shows that, both would write as fast as they can.
    """
    found = await metadata_of(client, Reference(TrainJob.RESOURCE, job.namespace, job.name))
    return found is not None and uid_of(found) == uid_of(job) and deletion_timestamp_of(found) is None
