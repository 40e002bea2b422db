# SPDX-License-Identifier: Apache-2.0
"""The part that keeps the history of progress."""

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import controller_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Cache, CacheError, Kind
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.assembly.permissions import Grants
from trainwright.controller.trainer.job.pods import present_attempt
from trainwright.controller.trainer.progress.history import HistoryKeeper


def rights(grants: Grants) -> None:
    grants.on_jobs(*HistoryKeeper.RULES)


def declare(assembly: Assembly) -> None:
    manager, jobsets = assembly.manager, assembly.jobsets
    HistoryKeeper(
        manager,
        assembly.coalescer.budget,
        manager.metrics.registry,
        assembly.records,
        attempt_of=lambda job: _attempt(manager.cache, jobsets, job),
    )


def _attempt(cache: Cache, jobsets: Kind, job: TrainJob) -> int | None:
    """The number of the present attempt, from 1; None: its JobSet is not known."""
    try:
        found = cache.get(jobsets, job.name, job.namespace)
    except CacheError:
        return None
    controller = controller_of(found) if found is not None else None
    if not isinstance(found, JobSet) or controller is None or controller.uid != uid_of(job):
        return None
    return present_attempt(found) + 1
