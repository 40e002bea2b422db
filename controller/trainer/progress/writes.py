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

from trainwright.api.objects import Document, Key, dig, resource_version_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import Cache, CacheError, Client, Conflict, DecodeError, KubernetesError, NotFound
from trainwright.controller.trainer.progress.reports import is_newer

FIELD_MANAGER = "trainer-status"
ATTEMPTS = 5
"""How often a value is sent while others change the TrainJob."""
RULES = (Rule.on(TrainJob.RESOURCE, "get"), Rule.on(TrainJob.RESOURCE, "patch", subresource="status"))
"""To find a TrainJob that the cache does not hold yet, and to write."""


class Superseded(KubernetesError):  # noqa: N818 - what happened to the value, not a failure
    """The API server holds a newer value, which the cache did not show when the write began."""

    def __init__(self, key: Key, stored: TrainerStatus) -> None:
        """`stored`: the newer value."""
        super().__init__(f"TrainJob {key} holds a newer value of its progress")
        self.stored = stored


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
            Superseded: a newer one was stored meanwhile.
            KubernetesError: others; try again later.
        """
        job: TrainJob | Document | None = self._known(key)
        if job is None or uid_of(job) != uid or not resource_version_of(job):
            job = await self._look(key, uid)
        base, version = _value_of(job), resource_version_of(job)
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
                job = await self._look(key, uid)
                found, version = _value_of(job), resource_version_of(job)
                # A value that was there before is older than ours, whatever its clock says.
                if found is not None and found != base and is_newer(found, status):
                    raise Superseded(key, found) from None
            else:
                return
        raise KubernetesError(f"TrainJob {key} changes too often to write its progress")

    async def _look(self, key: Key, uid: str) -> Document:
        """What the API server holds. Undecoded: the progress of a job is written whatever else is wrong with it."""
        job = await self._client.get(TrainJob.RESOURCE, key.name, key.namespace)
        if uid_of(job) != uid:
            raise NotFound(f"TrainJob {key} was recreated", code=404, reason="NotFound")
        return job


def _value_of(job: TrainJob | Document) -> TrainerStatus | None:
    if isinstance(job, TrainJob):
        return job.status_or_empty.trainer_status
    try:
        return msgspec.convert(dig(job, "status.trainerStatus"), TrainerStatus | None)
    except msgspec.ValidationError:
        return None
