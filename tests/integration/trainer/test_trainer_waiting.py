# SPDX-License-Identifier: Apache-2.0
"""The conditions that explain, over the local API server."""

from pathlib import Path
from typing import Any

import pytest

from tests.findings import declare_writer
from tests.integration.trainer.reporting import definitions
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET_UID
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.runtime import Client, Manager
from trainwright.controller.runtime.manager.manager import ServerSettings
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.job.findings import JobFindings
from trainwright.controller.trainer.job.pods import declare_pods
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.why import waiting

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
        records = JobRecords()
        records.watch(manager.cache)
        findings = JobFindings(records)
        waiting.WaitingConditions(manager, JobSet, (), records, findings)
        declare_writer(manager, findings)
        running = tasks.start("manager", manager.run())
        await manager.wait_ready()

        async def create(kind: type[Any], version: str, **fields: Any) -> Any:
            document = {"apiVersion": version, "kind": kind.RESOURCE.kind, **fields}
            document["metadata"] = {"name": "j", "namespace": "default"} | fields.get("metadata", {})
            return await client.create(document, kind=kind.RESOURCE)

        async def reason() -> str:
            found = await client.get(TrainJob, "j", "default")
            conditions = (found.status.conditions if found.status is not None else None) or ()
            return " ".join(f"{one.type}/{one.reason}" for one in conditions)

        async def set_ready(count: int) -> None:
            status = {"replicatedJobsStatus": [{"name": "node", "ready": count, "active": 1}]}
            status["replicatedJobsStatus"][0] |= {"succeeded": 0, "failed": 0, "suspended": 0}
            await client.patch(JobSet.RESOURCE, "j", "default", {"status": status}, subresource="status")

        job = await create(TrainJob, "trainer.kubeflow.org/v1alpha1", spec={"runtimeRef": {"name": "none"}})
        owner = {"apiVersion": job["apiVersion"], "kind": "TrainJob", "name": "j", "uid": job["metadata"]["uid"]}
        made = await create(
            JobSet,
            "jobset.x-k8s.io/v1alpha2",
            metadata={"ownerReferences": [{**owner, "controller": True}]},
            spec={"replicatedJobs": [{"name": "node", "replicas": 1, "template": TEMPLATE}]},
        )
        await set_ready(0)
        pod, labels = TEMPLATE["spec"]["template"]["spec"], {**LABELS, LABEL_JOBSET_UID: made["metadata"]["uid"]}
        await create(Pod, "v1", metadata={"name": "j-node-0-0-abcde", "labels": labels}, spec=pod)
        crashed = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
        container = {"name": "node", "restartCount": 2, "image": "i", "imageID": "", "ready": False}
        container |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": crashed}}

        async def set_state(state: dict[str, Any]) -> None:
            status = {"phase": "Running", "containerStatuses": [{**container, "state": state}]}
            await client.patch(Pod.RESOURCE, "j-node-0-0-abcde", "default", {"status": status}, subresource="status")

        await set_state({"waiting": {"reason": "CrashLoopBackOff"}})
        await eventually(reason, equals("Restarting/CrashLoop"))

        # The pod runs for a moment, and fails again.
        await set_ready(1)
        await set_state({"running": {"startedAt": format_time(wall_clock())}})
        assert await reason() == "Restarting/CrashLoop"
        await set_ready(0)
        await set_state({"waiting": {"reason": "CrashLoopBackOff"}})
        assert await reason() == "Restarting/CrashLoop"
        # It has run for longer than a kubelet remembers.
        await set_ready(1)
        await set_state({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        await eventually(reason, equals(""))
        manager.stop()
        await running
