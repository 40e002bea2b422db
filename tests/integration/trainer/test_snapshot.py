# SPDX-License-Identifier: Apache-2.0
"""The runtime that a job was made with is kept beside it, and is what the job is built from."""

from typing import Any

from tests.integration.trainer.conftest import User, conditions
from trainwright.api.manifest import load
from trainwright.api.trainer.v1alpha1 import TrainingRuntime

IMAGE = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"


def image(jobset: dict[str, Any]) -> str:
    (replicated,) = jobset["spec"]["replicatedJobs"]
    found: str = replicated["template"]["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


async def set_image(user: User, value: str) -> None:
    body = [{"op": "replace", "path": IMAGE, "value": value}]
    await user.patch("trainingruntime", "runtime", body, style="json")


async def test_it_is_the_runtime_as_it_is_stored_and_belongs_to_the_job(user: User) -> None:
    await user.runtime()
    await user.job("job")
    snapshot = await user.until("configmap", "job-runtime-snapshot", bool)
    stored = await user.get("trainingruntime", "runtime")
    assert stored is not None
    del stored["metadata"]["managedFields"]
    assert load(snapshot["data"]["runtime"]) == stored
    (owner,) = snapshot["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("TrainJob", "job", True)


async def test_a_changed_or_deleted_runtime_does_not_reach_a_job_that_exists(user: User) -> None:
    await user.runtime()
    await user.job("job", suspend=True)
    await user.until("jobset", "job", bool)
    await set_image(user, "example.com/other")
    await user.delete("jobset", "job")
    jobset = await user.until("jobset", "job", bool)
    assert image(jobset) == "example.com/none"
    await user.delete("trainingruntime", "runtime")
    await user.patch("trainjob", "job", {"spec": {"suspend": False}})
    await user.until("jobset", "job", lambda jobset: not jobset["spec"].get("suspend"))
    assert "Blocked" not in conditions(await user.get("trainjob", "job") or {})


async def test_a_deleted_snapshot_is_taken_anew(user: User) -> None:
    await user.runtime()
    await user.job("job", suspend=True)
    before = await user.until("configmap", "job-runtime-snapshot", bool)
    await user.until("jobset", "job", bool)
    await set_image(user, "example.com/other")
    await user.noticed(TrainingRuntime, "runtime")
    await user.delete("configmap", "job-runtime-snapshot")
    uid = before["metadata"]["uid"]
    await user.until("configmap", "job-runtime-snapshot", lambda found: found["metadata"]["uid"] != uid)
    await user.until("jobset", "job", lambda jobset: image(jobset) == "example.com/other")


async def test_a_config_map_of_somebody_else_is_left_alone_and_named(user: User) -> None:
    await user.runtime()
    theirs = {"metadata": {"name": "job-runtime-snapshot"}, "data": {"theirs": "yes"}}
    await user.make({"apiVersion": "v1", "kind": "ConfigMap", **theirs})
    before = await user.get("configmap", "job-runtime-snapshot")
    await user.job("job")
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    blocked = conditions(job)["Blocked"]
    assert blocked["reason"] == "SnapshotInvalid"
    assert "job-runtime-snapshot" in blocked["message"]
    assert await user.get("configmap", "job-runtime-snapshot") == before
    assert await user.get("jobset", "job") is None
    await user.delete("configmap", "job-runtime-snapshot")
    await user.until("jobset", "job", bool)
    await user.until("trainjob", "job", lambda job: "Blocked" not in conditions(job))


async def test_a_snapshot_of_another_runtime_is_refused_by_name(user: User) -> None:
    await user.runtime()
    await user.job("job", suspend=True)
    await user.until("jobset", "job", bool)
    other = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: other}\nspec: {}\n"
    await user.patch("configmap", "job-runtime-snapshot", {"data": {"runtime": other}})
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    assert conditions(job)["Blocked"]["message"] == (
        "ConfigMap job-runtime-snapshot holds TrainingRuntime other of trainer.kubeflow.org, "
        "not TrainingRuntime runtime of trainer.kubeflow.org; delete it, and a new snapshot is taken"
    )
