# SPDX-License-Identifier: Apache-2.0
"""The part that watches the progress of jobs: which of them are stalled, and the metrics of single jobs."""

from trainwright.controller.trainer.assembly.features import EXPLAIN
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.job.pods import life_of_ranks, pods_of
from trainwright.controller.trainer.progress.metrics import JobProgress, StalledJobs
from trainwright.controller.trainer.progress.stall import StallController


def declare(assembly: Assembly) -> None:
    manager, settings = assembly.manager, assembly.settings
    cache, has_pods = manager.cache, EXPLAIN in settings.features
    StallController(
        manager,
        assembly.events,
        assembly.snapshots.existing,
        settings.stall_after,
        assembly.records,
        assembly.findings,
        pods_of=(lambda job: pods_of(cache, job)) if has_pods else None,
        attempt_of=lambda job: life_of_ranks(cache, job),
        is_alone=settings.election is None,
    )
    StalledJobs(manager.metrics.registry, assembly.jobs, leads=assembly.leads)
    if settings.progress_metrics:
        JobProgress(manager.metrics.registry, assembly.jobs, leads=assembly.leads)
