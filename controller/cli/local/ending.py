# SPDX-License-Identifier: Apache-2.0
"""Ends a job of `trainwright local run` that failed or was interrupted, so that it stays as it is.

The job gets the condition `Failed`, which is written once and for all: nothing is built for such a job any more. Then
its JobSet is suspended, which deletes the pods that run, with their grace, and leaves those that have failed. Neither
the controllers nor the next start of the cluster run it again.
"""

import asyncio
from contextlib import suppress

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod
from trainwright.api.messages import shortened
from trainwright.api.objects import dig
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_FAILED
from trainwright.controller.cli.local.jobs import has_ended
from trainwright.controller.runtime import Client, Conflict, KubernetesError, NotFound
from trainwright.controller.trainer.failures.record import entries_of, name_of_record

REASON_FAILED = "ContainerFailed"
REASON_INTERRUPTED = "Interrupted"
REASON_LATE = "OutOfTime"
REASON_STALLED = "Stalled"
RECORD_SECONDS = 2.0
"""How long to wait for the record of the failure, which is taken from the pods."""
GRACE_SECONDS = 40.0
_LOOK_SECONDS = 0.05


async def end(client: Client, namespace: str, name: str, reason: str, message: str) -> bool:
    """End a job, unless it has ended, and wait until none of its pods runs; returns whether that is so."""
    try:
        if await say_failed(client, namespace, name, reason, message):
            if reason == REASON_FAILED:
                await _recorded(client, namespace, name)
            await client.patch(JobSet.RESOURCE, name, namespace, {"spec": {"suspend": True}})
    except NotFound:
        pass  # it was deleted, or had no JobSet yet
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            return await stopped(client, namespace, name)
    return False


async def stopped(client: Client, namespace: str, name: str) -> bool:
    """Wait until no pod of the job runs. Returns True."""
    while True:
        pods = await client.list(Pod.RESOURCE, namespace, label_selector=f"{LABEL_JOBSET}={name}")
        if all(map(has_ended, pods.items)):
            return True
        await asyncio.sleep(_LOOK_SECONDS)


async def say_failed(client: Client, namespace: str, name: str, reason: str, message: str) -> bool:
    """Give the job the condition `Failed`, or that condition of ours the message; False if it has another end.

    Raises NotFound.
    """
    while True:
        job = await client.get(TrainJob.RESOURCE, name, namespace)
        conditions = dig(job, "status.conditions") or []
        ends = [one for one in conditions if one["type"] in ("Complete", CONDITION_FAILED) and one["status"] == "True"]
        if any(one.get("reason") != reason for one in ends):
            return False
        condition = {
            "type": CONDITION_FAILED,
            "status": "True",
            "reason": reason,
            "message": shortened(message),
            "lastTransitionTime": ends[0]["lastTransitionTime"] if ends else format_time(wall_clock()),
        }
        others = [one for one in conditions if one["type"] != CONDITION_FAILED]
        patch = {
            "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
            "status": {"conditions": [*others, condition]},
        }
        try:
            await client.patch(TrainJob.RESOURCE, name, namespace, patch, subresource="status")
        except Conflict:
            continue  # progress was written meanwhile
        return True


async def _recorded(client: Client, namespace: str, name: str) -> None:
    """Wait for the record of the failure: it is taken from pods that are about to go."""
    with suppress(TimeoutError, KubernetesError):
        async with asyncio.timeout(RECORD_SECONDS):
            while True:
                with suppress(NotFound):
                    record = await client.get(ConfigMap.RESOURCE, name_of_record(name), namespace)
                    if entries_of(record.get("data")):
                        return
                await asyncio.sleep(_LOOK_SECONDS)
