# SPDX-License-Identifier: Apache-2.0
"""How a TrainJob may end, and what may happen to it and its runtime on the way, with the real controllers."""

import json

import pytest

from tests.e2e.conftest import NOWHERE, Trainer, eventually


def created(trainer: Trainer, resource: str, name: str) -> int:
    """How often our manager made an object of that name."""
    calls = trainer.cluster.audit_log.calls(user_agent="trainwright")
    return sum(
        (call.namespace, call.resource, call.name, call.code) == (trainer.namespace, resource, name, 201)
        for call in calls
    )


def test_a_job_whose_pods_fail_fails(trainer: Trainer) -> None:
    pod = {"containers": [{"name": "node", "image": "example.com/none"}], "restartPolicy": "Never", **NOWHERE}
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"metadata": step, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}
    trainer.create("TrainingRuntime", "fails", {"mlPolicy": {"numNodes": 1}, "template": template})
    trainer.job("failing", "fails")
    eventually(trainer.pods)
    (found,) = trainer.pods()
    body = json.dumps({"status": {"phase": "Failed"}})
    trainer.kubectl("patch", "pod", found["metadata"]["name"], "--subresource=status", "--type=merge", "--patch", body)
    eventually(lambda: trainer.conditions("failing") == {"Failed": ("True", "FailedJobs")})
    # It stays failed, and its JobSet stays for whoever looks for the cause.
    assert trainer.get("jobset", "failing") is not None


def test_a_job_beyond_its_deadline_frees_what_it_held(trainer: Trainer) -> None:
    trainer.job("late", trainer.runtime("waits", **NOWHERE), activeDeadlineSeconds=4)
    eventually(trainer.pods)
    eventually(lambda: trainer.conditions("late") == {"Failed": ("True", "DeadlineExceeded")})
    eventually(lambda: trainer.get("jobset", "late") is None and trainer.pods() == [])
    assert created(trainer, "jobsets", "late") == 1


@pytest.mark.parametrize("cascade", ["foreground", "background"])
def test_a_deleted_job_goes_with_all_that_it_made(trainer: Trainer, cascade: str) -> None:
    trainer.job("deleted", trainer.runtime("waits", **NOWHERE), trainer={"numNodes": 2})
    eventually(lambda: len(trainer.pods()) == 2)
    trainer.kubectl("delete", "trainjob", "deleted", f"--cascade={cascade}", "--timeout=60s")
    eventually(lambda: trainer.get("jobset", "deleted") is None and trainer.pods() == [])
    eventually(lambda: trainer.get("configmap", "deleted-runtime-snapshot") is None)
    # What garbage collection took was not made again.
    assert created(trainer, "jobsets", "deleted") == 1
    assert created(trainer, "configmaps", "deleted-runtime-snapshot") == 1


def test_a_runtime_that_is_edited_and_deleted_does_not_reach_the_job(trainer: Trainer) -> None:
    runtime = trainer.runtime("changes", **NOWHERE)
    trainer.job("steady", runtime)
    eventually(trainer.pods)
    image = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"
    body = json.dumps([{"op": "replace", "path": image, "value": "example.com/other"}])
    trainer.kubectl("patch", "trainingruntime", runtime, "--type=json", "--patch", body)
    trainer.kubectl("patch", "trainjob", "steady", "--type=merge", "--patch", '{"spec": {"suspend": true}}')
    eventually(lambda: trainer.pods() == [])
    trainer.kubectl("delete", "trainingruntime", runtime)
    trainer.kubectl("patch", "trainjob", "steady", "--type=merge", "--patch", '{"spec": {"suspend": false}}')
    eventually(trainer.pods)
    (pod,) = trainer.pods()
    assert pod["spec"]["containers"][0]["image"] == "example.com/none"
    assert trainer.conditions("steady") == {"Suspended": ("False", "Resumed")}
