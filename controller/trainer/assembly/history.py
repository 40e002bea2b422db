# SPDX-License-Identifier: Apache-2.0
"""The part that keeps the history of progress."""

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import controller_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Cache, CacheError, Group, Kind, Manager
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.assembly.permissions import Grants
from trainwright.controller.trainer.progress.budget import Budget
from trainwright.controller.trainer.progress.history.keeper import HistoryKeeper, HistoryMetrics

NAME = "progress-history"


def rights(grants: Grants) -> None:
    grants.on_jobs(*HistoryKeeper.RULES)


def declare(assembly: Assembly) -> None:
    keep_history(assembly.manager, assembly.coalescer.budget, assembly.jobsets)


def keep_history(manager: Manager, budget: Budget, jobsets: Kind) -> None:
    """Add the keeper to the manager, for the leader. Call it after TrainJobs are declared in the cache.

    Args:
        manager: of the process.
        budget: of all writes of progress.
        jobsets: how the cache holds JobSets, which count the attempts.
    """
    keeper = HistoryKeeper(
        manager.client,
        budget,
        HistoryMetrics(manager.metrics.registry),
        jobs=lambda: manager.cache.list(TrainJob),
        attempt_of=lambda job: _attempt(manager.cache, jobsets, job),
        # Where there is no election, the leader's work begins before the first lists have arrived.
        synced=lambda: manager.cache.wait_synced([TrainJob]),
    )
    keeper.watch(manager.cache)
    manager.add(keeper, Group.LEADER, NAME)


def _attempt(cache: Cache, jobsets: Kind, job: TrainJob) -> int | None:
    """How often the pods of a job were started; None: its JobSet is not known."""
    try:
        found = cache.get(jobsets, job.name, job.namespace)
    except CacheError:
        return None
    controller = controller_of(found) if found is not None else None
    if not isinstance(found, JobSet) or controller is None or controller.uid != uid_of(job):
        return None
    return 1 + (found.status_or_empty.restarts or 0)
