# SPDX-License-Identifier: Apache-2.0
"""The part that reads the progress of TrainJobs in pods."""

from dataclasses import dataclass

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Group, Manager
from trainwright.controller.trainer.assembly.features import TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.assembly.permissions import Grants
from trainwright.controller.trainer.assembly.settings import ManagerSettings
from trainwright.controller.trainer.build.facts import CachedFacts
from trainwright.controller.trainer.build.snapshot import Snapshots
from trainwright.controller.trainer.progress.look import Sink, ToldOfProgress
from trainwright.controller.trainer.progress.probes import ProbeMetrics
from trainwright.controller.trainer.progress.pull import Puller
from trainwright.controller.trainer.progress.targets import Targets
from trainwright.controller.trainer.progress.writes import RULES as WRITE_RULES
from trainwright.plugins.pipeline import Pipeline

NAME = "progress-pull"


@dataclass(frozen=True, slots=True)
class Read:
    """What of the manager the puller uses."""

    pipeline: Pipeline
    snapshots: Snapshots
    facts: CachedFacts
    events: ToldOfProgress
    sink: Sink


def rights(grants: Grants) -> None:
    by_exec = Puller.EXEC_RULES if grants.settings.progress_by_exec else ()
    grants.on_jobs(*WRITE_RULES, *Puller.LIST_RULES, *by_exec)


def declare(assembly: Assembly) -> None:
    if not assembly.settings.features.enabled(TRAIN_JOB_STATUS):
        assembly.manager.add(assembly.coalescer, Group.OTHERS, "progress-writes")
    read = Read(assembly.pipeline, assembly.snapshots, assembly.facts, assembly.events, assembly.coalescer)
    read_progress(assembly.manager, assembly.settings, read)


def read_progress(manager: Manager, settings: ManagerSettings, read: Read) -> Puller:
    """Add the puller to the manager, for the leader. Call it after TrainJobs are declared in the cache."""
    puller = Puller(
        manager.client,
        Targets(read.pipeline, read.snapshots, read.facts),
        read.sink,
        read.events,
        ProbeMetrics(manager.metrics.registry),
        jobs=lambda: manager.cache.list(TrainJob),
        # Where there is no election, the leader's work begins before the first lists have arrived.
        synced=lambda: manager.cache.wait_synced([TrainJob]),
        reads_files=settings.progress_by_exec,
    )
    puller.watch(manager.cache)
    manager.add(puller, Group.LEADER, NAME)
    return puller
