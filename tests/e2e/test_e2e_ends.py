# SPDX-License-Identifier: Apache-2.0
"""How a TrainJob may end, and what may happen to it and its runtime on the way, with the real controllers."""

from typing import Any

import pytest
import yaml

from tests.e2e.conftest import NOWHERE, ON_BOTH, Trainer
from tests.repository import ROOT
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync, has_length, is_empty

pytestmark = ON_BOTH


def created(trainer: Trainer, resource: str, name: str) -> int:
    """How often our manager made an object of that name."""
    return sum(
        (call.namespace, call.resource, call.name, call.code) == (trainer.namespace, resource, name, 201)
        for call in trainer.calls()
    )


def fail_pod(trainer: Trainer, name: str) -> None:
    """The container of a pod fails, and kubelet does not start it again."""
    body = {"status": {"phase": "Failed"}}
    trainer.patch("pod", name, body, subresource="status")


def runtime_that_fails(trainer: Trainer, **job_spec: Any) -> str:
    """A runtime whose pods are never started again in place. Returns its name."""
    pod = {"containers": [{"name": "node", "image": "example.com/none"}], "restartPolicy": "Never", **NOWHERE}
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"metadata": step, "spec": {**job_spec, "template": {"spec": pod}}}
    template = {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}
    trainer.create("TrainingRuntime", "fails", {"mlPolicy": {"numNodes": 1}, "template": template})
    return "fails"


def test_a_job_whose_pods_fail_fails(trainer: Trainer) -> None:
    trainer.job("failing", runtime_that_fails(trainer, backoffLimit=0))
    (found,) = eventually_sync(trainer.pods)
    fail_pod(trainer, found["metadata"]["name"])
    eventually_sync(lambda: trainer.conditions("failing"), equals({"Failed": ("True", "FailedJobs")}))
    # It stays failed, and its JobSet stays, so that users can look for the cause.
    assert trainer.get("jobset", "failing") is not None


def test_failed_pods_stay_where_pods_are_not_restarted_in_place(trainer: Trainer) -> None:
    trainer.job("failing", runtime_that_fails(trainer, backoffLimit=1), trainer={"numNodes": 2})
    failed = []
    for attempt in (1, 2):
        pods = eventually_sync(trainer.pods, has_length(attempt + 1))
        running = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] != "Failed"]
        fail_pod(trainer, running[0])
        failed.append(running[0])
    eventually_sync(lambda: trainer.conditions("failing"), equals({"Failed": ("True", "FailedJobs")}))
    # The pod that was still running is deleted.
    left = eventually_sync(trainer.pods, has_length(2))
    assert sorted(pod["metadata"]["name"] for pod in left) == sorted(failed)


def test_the_pods_of_a_shipped_runtime_are_gone_after_the_last_restart(trainer: Trainer) -> None:
    """JobSet sets `restartPolicy: OnFailure`; at the backoff limit the Job controller deletes pods and their logs."""
    text = (ROOT / "config" / "runtimes" / "torch-distributed.yaml").read_text()
    trainer.cluster.apply(*yaml.safe_load_all(text))
    pod = {"template": {"spec": {"template": {"spec": NOWHERE}}}}
    patch = {"replicatedJobs": [{"name": "node", **pod}]}
    trainer.create(
        "TrainJob",
        "crashing",
        {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 2},
            "runtimePatches": [{"manager": "example.com/test", "trainingRuntimeSpec": {"template": {"spec": patch}}}],
        },
    )
    pods = eventually_sync(trainer.pods, has_length(2))
    assert [pod["spec"]["restartPolicy"] for pod in pods] == ["OnFailure", "OnFailure"]
    (job,) = trainer.cluster.stored.list("jobs", trainer.namespace)
    limit = job["spec"]["backoffLimit"]
    # As kubelet reports a container that crashes for the last time: the pod has not failed, it waits to be restarted.
    crashed = {"name": "node", "image": "i", "imageID": "", "ready": False, "restartCount": limit}
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
    body = {"status": {"phase": "Running", "containerStatuses": [{**crashed, **waiting}]}}
    name = pods[0]["metadata"]["name"]
    trainer.patch("pod", name, body, subresource="status")
    eventually_sync(lambda: trainer.conditions("crashing"), equals({"Failed": ("True", "FailedJobs")}))
    # The crashed pod, and those of the other nodes.
    eventually_sync(lambda: trainer.cluster.stored.list("pods", trainer.namespace), is_empty)


def test_a_job_beyond_its_deadline_frees_what_it_held(trainer: Trainer) -> None:
    # Long enough for its pods to be made, and seen, on a busy machine.
    trainer.job("late", trainer.runtime("waits", **NOWHERE), activeDeadlineSeconds=10)
    eventually_sync(trainer.pods)
    eventually_sync(lambda: trainer.conditions("late"), equals({"Failed": ("True", "DeadlineExceeded")}))
    eventually_sync(lambda: (trainer.get("jobset", "late"), trainer.pods()), equals((None, [])))
    assert created(trainer, "jobsets", "late") == 1


@pytest.mark.parametrize("cascade", ["foreground", "background"])
def test_a_deleted_job_goes_with_all_that_it_made(trainer: Trainer, cascade: str) -> None:
    trainer.job("deleted", trainer.runtime("waits", **NOWHERE), trainer={"numNodes": 2})
    eventually_sync(trainer.pods, has_length(2))
    trainer.delete("trainjob", "deleted", cascade=cascade)
    eventually_sync(lambda: (trainer.get("jobset", "deleted"), trainer.pods()), equals((None, [])))
    eventually_sync(lambda: trainer.get("configmap", "deleted-runtime-snapshot"), is_empty)
    # What garbage collection took was not made again.
    assert created(trainer, "jobsets", "deleted") == 1
    assert created(trainer, "configmaps", "deleted-runtime-snapshot") == 1


def test_a_runtime_that_is_edited_and_deleted_does_not_reach_the_job(trainer: Trainer) -> None:
    runtime = trainer.runtime("changes", **NOWHERE)
    trainer.job("steady", runtime)
    eventually_sync(trainer.pods)
    image = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"
    body = [{"op": "replace", "path": image, "value": "example.com/other"}]
    trainer.patch("trainingruntime", runtime, body, style="json")
    trainer.patch("trainjob", "steady", {"spec": {"suspend": True}})
    eventually_sync(trainer.pods, is_empty)
    # The manager writes the status after the JobSet, whose pods come and go meanwhile.
    eventually_sync(lambda: trainer.conditions("steady"), equals({"Suspended": ("True", "Suspended")}))
    trainer.delete("trainingruntime", runtime)
    trainer.patch("trainjob", "steady", {"spec": {"suspend": False}})
    (pod,) = eventually_sync(trainer.pods)
    assert pod["spec"]["containers"][0]["image"] == "example.com/none"
    eventually_sync(lambda: trainer.conditions("steady"), equals({"Suspended": ("False", "Resumed")}))
