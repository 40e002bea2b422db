# SPDX-License-Identifier: Apache-2.0
"""The part that reads the progress of TrainJobs in pods."""

from functools import partial

from trainwright.controller.runtime import Group
from trainwright.controller.trainer.assembly.features import TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.parts import Assembly, Grants
from trainwright.controller.trainer.progress.files import ProgressFiles
from trainwright.controller.trainer.progress.metrics import FileMetrics
from trainwright.controller.trainer.progress.reading import file_target_of
from trainwright.controller.trainer.progress.writer import RULES as WRITE_RULES


def rights(grants: Grants) -> None:
    by_exec = ProgressFiles.EXEC_RULES if grants.settings.progress_by_exec else ()
    grants.on_jobs(*WRITE_RULES, *ProgressFiles.LIST_RULES, *by_exec)


def declare(assembly: Assembly) -> None:
    manager, settings = assembly.manager, assembly.settings
    if TRAIN_JOB_STATUS not in settings.features:
        manager.add(assembly.coalescer, Group.OTHERS, "progress-writes")
    ProgressFiles(
        manager,
        partial(file_target_of, assembly.pipeline, assembly.snapshots, assembly.facts),
        assembly.coalescer.accept,
        assembly.events,
        FileMetrics(manager.metrics.registry),
        assembly.records,
        reads_files=settings.progress_by_exec,
        interval=settings.pull_interval,
    )
