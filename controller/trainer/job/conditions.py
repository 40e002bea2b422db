# SPDX-License-Identifier: Apache-2.0
"""The order of a TrainJob's conditions, and writes of those that are not part of its status as computed.

These are `Stalled`, and the ones that explain: `Stuck`, `Restarting` and `Waiting`.
"""

from collections.abc import Sequence

import msgspec

from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import resource_version_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client
from trainwright.controller.trainer.job.state import CONDITION_BLOCKED, CONDITION_STALLED, EXPLAINING

CONDITION_CREATED = "Created"
"""Behind a feature gate: True once all objects are applied."""
_LAST = (*EXPLAINING, CONDITION_STALLED, CONDITION_CREATED)
_ORDER = {CONDITION_BLOCKED: -1, **{kind: place for place, kind in enumerate(_LAST, 1)}}
"""Those that are not here have 0."""


def in_order(conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions with `Blocked` first, those that only explain at the end, and the others in their order.

    kubectl's column State shows the first condition that is True, so that one must have the word of the other views.
    `Created` stays True for good.
    """
    return sorted(conditions, key=lambda condition: _ORDER.get(condition.type, 0))


def new_condition(kind: str, status: str, reason: str, message: str) -> Condition:
    """A condition without its transition time, which `set_condition` fills in."""
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time="")


def conditions_of(job: TrainJob) -> Sequence[Condition]:
    return job.status_or_empty.conditions or ()


async def write_conditions(client: Client, job: TrainJob, wanted: Sequence[Condition]) -> bool:
    """Replace the conditions of a job. Returns whether anything was written; equal ones are not.

    With the version, so that a condition that another client adds meanwhile is not lost. Raises KubernetesError,
    Conflict for a job that has changed.
    """
    wanted = in_order(wanted)
    if wanted == list(conditions_of(job)):
        return False
    patch = {
        "metadata": {"resourceVersion": resource_version_of(job)},
        "status": {"conditions": msgspec.to_builtins(wanted)},
    }
    await client.patch(TrainJob, job.name, job.namespace, patch, type="merge", subresource="status")
    return True
