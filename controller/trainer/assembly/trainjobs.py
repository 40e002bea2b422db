# SPDX-License-Identifier: Apache-2.0
"""The part that reconciles TrainJobs, with the objects of the enabled plugins."""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.assembly.features import CREATED_CONDITION
from trainwright.controller.trainer.assembly.parts import Assembly, Grants
from trainwright.controller.trainer.controller import WORKERS, TrainJobController


def rights(grants: Grants) -> None:
    grants.on_jobs(*TrainJobController.RULES, *grants.registry.rules())


def declare(assembly: Assembly) -> None:
    settings = assembly.settings
    TrainJobController(
        assembly.manager,
        assembly.pipeline,
        assembly.facts,
        assembly.snapshots,
        assembly.events,
        assembly.records,
        assembly.findings,
        recoveries=assembly.recoveries,
        workers=settings.workers_of(TrainJob, WORKERS),
        created_condition=CREATED_CONDITION in settings.features,
    )
