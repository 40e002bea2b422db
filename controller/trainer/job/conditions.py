# SPDX-License-Identifier: Apache-2.0
"""Writes conditions of a TrainJob that are not part of its status as computed: `Waiting` and `Stalled`."""

from collections.abc import Sequence

import msgspec

from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import resource_version_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client


def conditions_of(job: TrainJob) -> Sequence[Condition]:
    """The conditions that the job has."""
    return (job.status.conditions if job.status is not None else None) or ()


async def write_conditions(client: Client, job: TrainJob, wanted: Sequence[Condition]) -> bool:
    """Replace the conditions of a job. Returns whether anything was written; equal ones are not.

    With the version, so that a condition that another client adds meanwhile is not lost. Raises KubernetesError,
    Conflict for a job that has changed.
    """
    if list(wanted) == list(conditions_of(job)):
        return False
    patch = {
        "metadata": {"resourceVersion": resource_version_of(job)},
        "status": {"conditions": msgspec.to_builtins(wanted)},
    }
    await client.patch(TrainJob, job.name, job.namespace, patch, type="merge", subresource="status")
    return True
