# SPDX-License-Identifier: Apache-2.0
"""Writes the progress of a TrainJob into its status.

By server-side apply, as the field manager of Kubeflow Trainer's status server, so that a value of it is taken over. The
document holds the whole progress and nothing else: what a report leaves out is removed, and conditions and counters
stay.

The uid of a TrainJob cannot be a condition of the write: for the status of a custom resource the API server takes all
metadata but the version from the stored object (`customresource/status_strategy.go`). So the document names the version
of the TrainJob with the right uid, and one that was recreated under the same name is never written.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from trainwright.api.objects import Key, resource_version_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Cache, Client, Conflict, KubernetesError, MetadataOnly, NotFound
from trainwright.controller.runtime.errors import CacheError, DecodeError

FIELD_MANAGER = "trainer-status"
ATTEMPTS = 5
"""How often a value is sent while others change the TrainJob."""
RULES = (Rule.on(TrainJob.RESOURCE, "get"), Rule.on(TrainJob.RESOURCE, "patch", subresource="status"))
"""To find a TrainJob that the cache does not hold yet, and to write."""

Known = Callable[[Key], TrainJob | None]
"""The TrainJob of this name, as far as it is known."""


def known_to(cache: Cache) -> Known:
    """The TrainJobs of a cache."""

    def find(key: Key) -> TrainJob | None:
        try:
            return cache.get(TrainJob, key.name, key.namespace)
        except (CacheError, DecodeError):
            return None

    return find


class StatusWriter:
    """Stores values. A caller paces the writes and repeats them; only a change by others is answered here."""

    def __init__(self, client: Client, known: Known) -> None:
        """`client`: of the manager, whose cache shows the writes at once. `known`: see `known_to`."""
        self._client = client.with_defaults(retries=0)
        self._known = known

    async def __call__(self, key: Key, uid: str, status: TrainerStatus) -> None:
        """Store one value.

        Raises:
            NotFound: there is no TrainJob with this name and uid.
            Invalid: the API server refuses the value.
            KubernetesError: others; try again later.
        """
        known = self._known(key)
        version = resource_version_of(known) if known is not None and uid_of(known) == uid else ""
        if not version:
            version = await self._look(key, uid)
        for _ in range(ATTEMPTS):
            document: dict[str, Any] = {
                "metadata": {"name": key.name, "namespace": key.namespace, "resourceVersion": version},
                "status": {"trainerStatus": msgspec.to_builtins(status)},
            }
            try:
                await self._client.apply(
                    document, kind=TrainJob, field_manager=FIELD_MANAGER, force=True, subresource="status"
                )
            except Conflict:
                version = await self._look(key, uid)
            else:
                return
        raise KubernetesError(f"TrainJob {key} changes too often to write its progress")

    async def _look(self, key: Key, uid: str) -> str:
        """The version that the API server holds."""
        job = await self._client.get(MetadataOnly(TrainJob), key.name, key.namespace)
        if uid_of(job) != uid:
            raise NotFound(f"TrainJob {key} was recreated", code=404, reason="NotFound")
        return resource_version_of(job)
