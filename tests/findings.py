# SPDX-License-Identifier: Apache-2.0
"""Writes what single parts of the manager find, for tests of a part without the TrainJob's controller."""

from trainwright.api.objects import Key
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Backoff, Done, KubernetesError, Manager, Result
from trainwright.controller.trainer.job.findings import JobFindings
from trainwright.controller.trainer.job.status import status_patch, wanted_status


def declare_writer(manager: Manager, findings: JobFindings, now: Now = wall_clock) -> None:
    async def write(key: Key) -> Result:
        job = manager.cache.get(TrainJob, key.name, key.namespace)
        if job is None:
            return Done()
        wanted = wanted_status(job, None, None, settled=False, findings=findings.of(job), now=now)
        if (patch := status_patch(job, wanted)) is None:
            return Done()
        try:
            await manager.client.patch(TrainJob, key.name, key.namespace, patch, type="merge", subresource="status")
        except KubernetesError as error:
            return Backoff("not written", error=error)
        return Done()

    manager.controller("writer").for_(TrainJob).source(findings.changed).reconcile(write, workers=16)
