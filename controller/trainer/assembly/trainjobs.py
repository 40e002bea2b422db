# SPDX-License-Identifier: Apache-2.0
"""The part that reconciles TrainJobs, with the objects of the enabled plugins."""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.assembly.features import CREATED_CONDITION
from trainwright.controller.trainer.assembly.parts import Assembly
from trainwright.controller.trainer.assembly.permissions import Grants
from trainwright.controller.trainer.controller import WORKERS, Options, TrainJobController


def rights(grants: Grants) -> None:
    grants.on_jobs(*TrainJobController.RULES, *grants.registry.rules())


def declare(assembly: Assembly) -> None:
    TrainJobController(
        assembly.manager,
        assembly.pipeline,
        assembly.kinds,
        assembly.facts,
        assembly.runtimes,
        assembly.snapshots,
        assembly.events,
        assembly.records,
        Options(
            workers=assembly.settings.workers_of(TrainJob, WORKERS),
            created_condition=assembly.settings.features.enabled(CREATED_CONDITION),
        ),
    )
