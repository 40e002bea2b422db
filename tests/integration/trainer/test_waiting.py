# SPDX-License-Identifier: Apache-2.0
"""The condition `Waiting`, over the local API server."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.trainer.reporting import definitions
from trainwright.api.conditions import find
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.runtime import Client, Manager
from trainwright.controller.runtime.manager.settings import ServerSettings
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.explain import waiting
from trainwright.controller.trainer.job.pods import declare_pods

TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}}}
LABELS = {
    "jobset.sigs.k8s.io/jobset-name": "j",
    "jobset.sigs.k8s.io/replicatedjob-name": "node",
    "jobset.sigs.k8s.io/restart-attempt": "0",
}


async def test_a_pod_that_is_ready_between_two_crashes_does_not_hide_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(waiting, "WRITE_SECONDS", 0.0)
    async with api_server(tmp_path, memory=True) as api, TaskScope("test") as tasks:
        client = Client(api.transport(), user_agent="user")
        await install(client, definitions(), owner="test")
        servers = ServerSettings(metrics=None, probes=None)
        manager = Manager(api.config, field_manager="test", servers=servers, transport=api.transport())
        declare_pods(manager.cache)
        waiting.WaitingConditions(manager, JobSet, ())
        running = tasks.start("manager", manager.run())
        await manager.wait_ready()

        async def create(kind: type[Any], version: str, **fields: Any) -> Any:
            document = {"apiVersion": version, "kind": kind.RESOURCE.kind, **fields}
            document["metadata"] = {"name": "j", "namespace": "default"} | fields.get("metadata", {})
            return await client.create(document, kind=kind.RESOURCE)

        async def reason() -> str:
            found = await client.get(TrainJob, "j", "default")
            condition = find(found.status.conditions if found.status is not None else None, "Waiting")
            return condition.reason if condition is not None else ""

        async def set_ready(count: int) -> None:
            status = {"replicatedJobsStatus": [{"name": "node", "ready": count, "active": 1}]}
            status["replicatedJobsStatus"][0] |= {"succeeded": 0, "failed": 0, "suspended": 0}
            await client.patch(JobSet.RESOURCE, "j", "default", {"status": status}, subresource="status")

        job = await create(TrainJob, "trainer.kubeflow.org/v1alpha1", spec={"runtimeRef": {"name": "none"}})
        owner = {"apiVersion": job["apiVersion"], "kind": "TrainJob", "name": "j", "uid": job["metadata"]["uid"]}
        await create(
            JobSet,
            "jobset.x-k8s.io/v1alpha2",
            metadata={"ownerReferences": [{**owner, "controller": True}]},
            spec={"replicatedJobs": [{"name": "node", "replicas": 1, "template": TEMPLATE}]},
        )
        await set_ready(0)
        pod = TEMPLATE["spec"]["template"]["spec"]
        await create(Pod, "v1", metadata={"name": "j-node-0-0-abcde", "labels": LABELS}, spec=pod)
        crashed = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
        container = {"name": "node", "restartCount": 2, "image": "i", "imageID": "", "ready": False}
        container |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": crashed}}
        status = {"phase": "Running", "containerStatuses": [container]}
        await client.patch(Pod.RESOURCE, "j-node-0-0-abcde", "default", {"status": status}, subresource="status")
        await eventually(reason, equals("CrashLoop"))

        # The pod runs for a moment, which changes nothing of the TrainJob, and fails again.
        await set_ready(1)
        await eventually(reason, equals(""))
        await set_ready(0)
        await eventually(reason, equals("CrashLoop"))
        manager.stop()
        await running
