# SPDX-License-Identifier: Apache-2.0
"""A JobSet's whole way on the real API server: Jobs, pods, node, end."""

from tests.integration.local.controllers.conftest import World, conditions, jobset_spec, replicated_job
from tests.integration.local.controllers.kubelet import NODE_NAME
from trainwright.api.objects import annotations_of, labels_of, name_of
from trainwright.controller.local.controllers.objects import JOB, JOBSET, SERVICE


async def test_it_completes(world: World) -> None:
    await world.create(JOBSET, "train", jobset_spec(replicated_job("node", 1, completions=2, parallelism=2)))
    pods = await world.running(2)
    for index, pod in enumerate(pods):
        assert name_of(pod).startswith(f"train-node-0-{index}-")
        assert pod["metadata"]["generateName"] == f"train-node-0-{index}-"
        assert pod["spec"]["hostname"] == f"train-node-0-{index}"
        assert pod["spec"]["subdomain"] == "train"
        assert pod["spec"]["nodeName"] == NODE_NAME
        assert labels_of(pod)["batch.kubernetes.io/job-completion-index"] == str(index)
        assert labels_of(pod)["jobset.sigs.k8s.io/jobset-name"] == "train"
        assert annotations_of(pod)["jobset.sigs.k8s.io/job-global-index"] == "0"
        assert [variable["name"] for variable in pod["spec"]["containers"][0]["env"]] == ["JOB_COMPLETION_INDEX"]
    service = await world.until(SERVICE, "train", bool)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "train"}
    await world.until(
        JOBSET, "train", lambda js: js.get("status", {}).get("replicatedJobsStatus", [{}])[0].get("ready") == 1
    )
    world.end(*pods)
    jobset = await world.until(JOBSET, "train", lambda js: "Completed" in conditions(js))
    assert jobset["status"]["terminalState"] == "Completed"
    counts = {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
    assert jobset["status"]["replicatedJobsStatus"] == [counts]
    job = await world.until(JOB, "train-node-0", bool)
    assert job["status"]["completedIndexes"] == "0,1"
    assert job["status"]["uncountedTerminatedPods"] == {}
    assert [c["type"] for c in job["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    left = await world.pods(lambda pods: not any("finalizers" in pod["metadata"] for pod in pods))
    assert len(left) == 2


async def test_it_fails(world: World) -> None:
    await world.create(JOBSET, "train", jobset_spec(replicated_job("node", 2)))
    pods = await world.running(2)
    world.end(pods[1], code=3)
    jobset = await world.until(JOBSET, "train", lambda js: "Failed" in conditions(js))
    (condition,) = jobset["status"]["conditions"]
    assert condition["reason"] == "FailedJobs"
    assert condition["message"] == "jobset failed due to one or more job failures (first failed job: train-node-1)"
    job = await world.until(JOB, "train-node-1", bool)
    assert [c["type"] for c in job["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert {c["reason"] for c in job["status"]["conditions"]} == {"BackoffLimitExceeded"}
    assert job["status"]["failed"] == 1


async def test_it_is_suspended_and_resumed(world: World) -> None:
    await world.create(JOBSET, "train", jobset_spec(replicated_job("node", 1), suspend=True))
    job = await world.until(JOB, "train-node-0", lambda job: "Suspended" in conditions(job))
    assert job["spec"]["suspend"] is True
    assert "startTime" not in job["status"]
    jobset = await world.until(JOBSET, "train", lambda js: conditions(js).get("Suspended") == ("True", "SuspendedJobs"))
    change = {"spec": {"suspend": False, "replicatedJobs": jobset["spec"]["replicatedJobs"]}}
    template = change["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["nodeSelector"] = {"disk": "fast"}
    await world.client.patch(JOBSET, "train", world.namespace, change)
    (pod,) = await world.running(1)
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    await world.until(JOBSET, "train", lambda js: conditions(js).get("Suspended") == ("False", "ResumeJobs"))
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": True}})
    await world.pods(lambda pods: not pods)
    job = await world.until(JOB, "train-node-0", lambda job: conditions(job).get("Suspended", ("",))[0] == "True")
    assert "startTime" not in job["status"]
    assert "failed" not in job["status"], "suspension is no failure"
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": False}})
    world.end(*await world.running(1))
    await world.until(JOBSET, "train", lambda js: "Completed" in conditions(js))
