# SPDX-License-Identifier: Apache-2.0
"""The part that keeps the history of progress."""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Cache, CacheError
from trainwright.controller.trainer.assembly.parts import Assembly, Grants
from trainwright.controller.trainer.job.pods import jobset_of_job, present_attempt
from trainwright.controller.trainer.progress.history import HistoryKeeper


def rights(grants: Grants) -> None:
    grants.on_jobs(*HistoryKeeper.RULES)


def declare(assembly: Assembly) -> None:
    manager = assembly.manager
    HistoryKeeper(
        manager,
        assembly.coalescer.budget,
        manager.metrics.registry,
        assembly.records,
        attempt_of=lambda job: _attempt(manager.cache, job),
    )


def _attempt(cache: Cache, job: TrainJob) -> int | None:
    """The number of the present attempt, from 1; None: its JobSet is not known."""
    try:
        found = jobset_of_job(cache, job)
    except CacheError:
        return None
    return present_attempt(found) + 1 if found is not None else None
