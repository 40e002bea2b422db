# SPDX-License-Identifier: Apache-2.0
"""Adds to a manager what reads the progress of TrainJobs in pods."""

from collections.abc import Iterable
from dataclasses import dataclass

from trainwright.api.rights import Rule
from trainwright.controller.runtime import Manager
from trainwright.controller.trainer.assembly.settings import Settings
from trainwright.controller.trainer.build.facts import CachedFacts
from trainwright.controller.trainer.build.snapshot import Snapshots
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.files import ProgressFiles, TellsOfFiles
from trainwright.controller.trainer.progress.metrics import FileMetrics
from trainwright.controller.trainer.progress.reading import Targets
from trainwright.controller.trainer.progress.writer import RULES as WRITE_RULES
from trainwright.controller.trainer.progress.writer import Coalescer
from trainwright.plugins.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Read:
    """What of the manager the reads use."""

    pipeline: Pipeline
    snapshots: Snapshots
    facts: CachedFacts
    events: TellsOfFiles
    coalescer: Coalescer
    records: JobRecords


def pull_rights(settings: Settings) -> Iterable[Rule]:
    """What it needs in every namespace with TrainJobs."""
    by_exec = ProgressFiles.EXEC_RULES if settings.progress_by_exec else ()
    return (*WRITE_RULES, *ProgressFiles.LIST_RULES, *by_exec)


def read_progress(manager: Manager, settings: Settings, read: Read) -> None:
    """Declare the controller that reads files."""
    ProgressFiles(
        manager,
        Targets(read.pipeline, read.snapshots, read.facts).of,
        read.coalescer.accept,
        read.events,
        FileMetrics(manager.metrics.registry),
        read.records,
        reads_files=settings.progress_by_exec,
    )
