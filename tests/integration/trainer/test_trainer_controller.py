# SPDX-License-Identifier: Apache-2.0
"""The TrainJob controller on a real API server, with the test in the part of the JobSet controller."""

from collections import Counter
from typing import Any

import pytest

from tests.builders import condition
from tests.builders import counts as counted
from tests.integration.trainer.conftest import POD, STEP, TEMPLATE, TIME, User, conditions, working
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.audit import AuditedCall
from trainwright.controller.runtime.testing.waiting import eventually, has_length, is_empty

MPI = {
    "mlPolicy": {"numNodes": 2, "mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}},
    "template": {
        "spec": {
            "replicatedJobs": [
                {"name": "launcher", "template": {"metadata": STEP, "spec": {"template": {"spec": POD}}}},
                {"name": "node", "template": {"spec": {"template": {"spec": POD}}}},
            ]
        }
    },
}
"""A runtime whose jobs have a ConfigMap, a Secret and a JobSet."""


async def test_the_jobset_holds_what_runtime_and_job_say(user: User) -> None:
    await user.runtime()
    await user.job("job", trainer={"numNodes": 3, "image": "example.com/mine", "command": ["run"]})
    jobset = await user.until("jobset", "job", bool)
    (replicated,) = jobset["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["replicas"]) == ("node", 1)
    assert replicated["template"]["spec"]["parallelism"] == replicated["template"]["spec"]["completions"] == 3
    (container,) = replicated["template"]["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("example.com/mine", ["run"])
    (owner,) = jobset["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("TrainJob", "job", True)
    assert {entry["manager"] for entry in jobset["metadata"]["managedFields"]} == {"trainer"}


@pytest.mark.parametrize(("theirs", "ours"), [("Completed", "Complete"), ("Failed", "Failed")])
async def test_the_jobsets_end_is_the_jobs(user: User, theirs: str, ours: str) -> None:
    await user.runtime()
    await user.job("job")
    await user.until("jobset", "job", bool)
    end = condition(theirs, reason="Because", message="so", at=TIME)
    counts = counted(succeeded=1)
    status = {"conditions": [end], "replicatedJobsStatus": [counts], "restarts": 0}
    await user.patch("jobset", "job", {"status": status}, subresource="status")
    job = await user.until("trainjob", "job", lambda job: ours in conditions(job))
    assert conditions(job)[ours] == end | {"type": ours}
    assert job["status"]["jobsStatus"] == [counts]
    # A finished job is over: its JobSet may go, and does not come back.
    await user.delete("jobset", "job")
    await user.patch("trainjob", "job", {"metadata": {"labels": {"looked": "at"}}})
    await user.job("later")
    await user.until("jobset", "later", bool)
    assert await user.get("jobset", "job") is None


async def test_a_jobset_of_somebody_else_is_left_alone_and_named(user: User) -> None:
    await user.runtime()
    spec = {"replicatedJobs": [{"name": "theirs", "template": {"spec": {"template": {"spec": POD}}}}]}
    await user.create("JobSet", "job", spec, api="jobset.x-k8s.io/v1alpha2")
    before = await user.get("jobset", "job")
    await user.job("job")
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    assert conditions(job)["Blocked"]["reason"] == "ApplyRefused"
    assert "JobSet" in conditions(job)["Blocked"]["message"]
    assert await user.get("jobset", "job") == before
    await user.delete("jobset", "job")
    job = await user.until("trainjob", "job", lambda job: "Blocked" not in conditions(job))
    assert (await user.until("jobset", "job", bool))["spec"]["replicatedJobs"][0]["name"] == "node"


async def test_what_stands_in_the_way_is_told_in_one_event(user: User) -> None:
    await user.job("job")
    await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))

    def told() -> list[dict[str, Any]]:
        events = user.control_plane.stored.list("events.events.k8s.io", user.namespace)
        return [event for event in events if event["regarding"]["kind"] == "TrainJob"]

    # Events are written in a task of their own, so one may come after the condition.
    (event,) = await eventually(told, has_length(1))
    assert (event["type"], event["reason"], event["action"], event["regarding"]["name"]) == (
        "Warning",
        "TrainJobResourcesCreationFailed",
        "Reconciling",
        "job",
    )
    assert "TrainingRuntime runtime does not exist" in event["note"]
    assert event["reportingController"] == "trainer-trainjob-controller"


async def test_a_reference_to_something_that_is_no_runtime_blocks(user: User) -> None:
    await user.create("TrainJob", "job", {"runtimeRef": {"apiGroup": "apps", "kind": "Deployment", "name": "x"}})
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    blocked = conditions(job)["Blocked"]
    assert (blocked["reason"], blocked["message"]) == (
        "BuildFailed",
        "spec.runtimeRef refers to the unsupported kind Deployment.apps; use TrainingRuntime or ClusterTrainingRuntime",
    )


async def test_a_job_that_is_fine_gets_no_status_before_its_jobset_has_one(user: User) -> None:
    await user.runtime()
    await user.job("job")
    await user.until("jobset", "job", bool)
    await user.job("later")
    await user.until("jobset", "later", bool)
    job = await user.get("trainjob", "job")
    assert job is not None
    assert "status" not in job


async def test_nothing_is_written_for_a_job_that_is_as_it_should_be(user: User) -> None:
    # One with a ConfigMap, a Secret and a JobSet, which the controller looks at again whenever the job changes.
    await user.create("TrainingRuntime", "runtime", MPI)
    await user.job("job")
    await user.until("jobset", "job", bool)
    await user.patch("trainjob", "job", {"metadata": {"labels": {"looked": "at"}}})
    await user.job("later")
    await user.until("jobset", "later", bool)
    writes = Counter((call.verb, call.resource, call.name) for call in calls(user, "job") if call.is_write)
    assert writes == {
        ("create", "configmaps", "job-runtime-snapshot"): 1,
        ("patch", "configmaps", "job-mpi-hostfile"): 1,
        ("create", "secrets", "job-mpi-ssh-auth"): 1,
        ("patch", "jobsets", "job"): 1,
    }


async def test_a_secret_of_somebody_else_is_used_as_it_is(with_jobsets: ControlPlane, namespace: str) -> None:
    name = "job-mpi-ssh-auth"
    async with working(with_jobsets, namespace) as user:
        await user.create("TrainingRuntime", "runtime", MPI)
        theirs = {"metadata": {"name": name}, "stringData": {"theirs": "yes"}}
        await user.make({"apiVersion": "v1", "kind": "Secret", **theirs})
        await user.job("job")
        await user.until("jobset", "job", bool)
        await user.patch("trainjob", "job", {"metadata": {"labels": {"looked": "at"}}})
        await built_again(user)
        tried = calls(user, name)
        # Never read. A new job waits a moment, since the Secret may go with a deleted job of its name.
        assert {(call.verb, call.code) for call in tried} == {("create", 409)}
    async with working(with_jobsets, namespace) as user:
        # Another process takes what runs the pods for proof that their Secret is there.
        await user.patch("trainjob", "job", {"metadata": {"labels": {"looked": "again"}}})
        await user.job("later")
        await user.until("jobset", "later", bool)
        assert calls(user, name) == tried
        kept = await user.get("secret", name)
        assert kept is not None
        assert list(kept["data"]) == ["theirs"]
        await user.delete("secret", name)
        await built_again(user)
        made = await user.get("secret", name)
        assert made is not None
        assert made["type"] == "kubernetes.io/ssh-auth"


async def test_a_jobset_that_goes_while_no_manager_runs_is_not_run_twice(
    with_jobsets: ControlPlane, namespace: str
) -> None:
    short_lived = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "ttlSecondsAfterFinished": 60}}
    ran = counted(succeeded=1)
    async with working(with_jobsets, namespace) as user:
        await user.create("TrainingRuntime", "runtime", {"mlPolicy": {"numNodes": 1}, "template": short_lived})
        for name in ("ran", "waited"):
            await user.job(name)
            await user.until("jobset", name, bool)
        await shows_pods(user, "ran", ran)
        # A JobSet that this process saw was deleted by somebody: it is made again.
        await user.delete("jobset", "ran")
        await user.until("jobset", "ran", bool)
        await user.until("trainjob", "ran", lambda job: not job.get("status", {}).get("jobsStatus"))
        await shows_pods(user, "ran", ran)
    await user.delete("jobset", "ran", "waited")
    async with working(with_jobsets, namespace) as user:
        job = await user.until("trainjob", "ran", lambda job: "Failed" in conditions(job))
        failed = conditions(job)["Failed"]
        assert (failed["status"], failed["reason"]) == ("True", "EndUnknown")
        assert "create it again" in failed["message"]
        assert job["status"]["jobsStatus"] == [ran]
        await user.until("jobset", "waited", bool)
        assert await user.get("jobset", "ran") is None


async def shows_pods(user: User, name: str, counters: dict[str, Any]) -> None:
    """Let the JobSet have pods, and wait until the job shows them."""
    status = {"status": {"replicatedJobsStatus": [counters]}}
    await user.patch("jobset", name, status, subresource="status")
    await user.until("trainjob", name, lambda job: job.get("status", {}).get("jobsStatus") == [counters])


def calls(user: User, name: str) -> list[AuditedCall]:
    """The manager's calls in the namespace for objects whose names begin so, oldest first."""
    return [
        call
        for call in user.control_plane.audit_log.calls(user_agent="trainwright")
        if call.namespace == user.namespace and call.name.startswith(name)
    ]


async def built_again(user: User) -> None:
    """Have the job's objects made again, the JobSet last."""
    await user.delete("jobset", "job")
    await user.until("jobset", "job", bool)


async def test_a_job_beyond_its_deadline_fails_and_what_runs_it_goes(user: User) -> None:
    await user.runtime()
    # The time counts from the resume, so it cannot be over before there is a JobSet.
    await user.job("job", activeDeadlineSeconds=2, suspend=True)
    await user.until("jobset", "job", bool)
    await user.patch("trainjob", "job", {"spec": {"suspend": False}})
    job = await user.until("trainjob", "job", lambda job: "Failed" in conditions(job))
    failed = conditions(job)["Failed"]
    assert (failed["reason"], failed["message"]) == ("DeadlineExceeded", "TrainJob exceeded its active deadline")
    await eventually(lambda: user.get("jobset", "job"), is_empty)
    # The rest stays with the job until that is deleted.
    assert await user.get("configmap", "job-runtime-snapshot") is not None


async def test_a_job_that_is_going_is_still_reported_and_gets_nothing_back(user: User) -> None:
    await user.runtime()
    await user.job("job", activeDeadlineSeconds=3600)
    await user.until("jobset", "job", bool)
    await user.patch("trainjob", "job", {"metadata": {"finalizers": ["example.com/keep"]}})
    await user.delete("trainjob", "job", wait=False)
    await user.delete("configmap", "job-runtime-snapshot")
    counters = {"ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
    status = {"replicatedJobsStatus": [{"name": "node", "active": 1, **counters}]}
    await user.patch("jobset", "job", {"status": status}, subresource="status")
    await user.until("trainjob", "job", lambda job: job.get("status", {}).get("jobsStatus"))
    assert await user.get("configmap", "job-runtime-snapshot") is None
    await user.patch("trainjob", "job", {"metadata": {"finalizers": None}})


async def test_a_gang_where_nobody_schedules_gangs_is_said_so(user: User) -> None:
    spec = {"mlPolicy": {"numNodes": 1}, "podGroupPolicy": {"volcano": {}}, "template": TEMPLATE}
    await user.create("TrainingRuntime", "runtime", spec)
    await user.job("job")
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    blocked = conditions(job)["Blocked"]
    assert blocked["reason"] == "BuildFailed"
    assert blocked["message"] == (
        "the cluster does not serve PodGroup of scheduling.volcano.sh/v1beta1, which the runtime needs: "
        "install Volcano (https://volcano.sh) and restart the manager, or use another runtime"
    )
    assert await user.get("jobset", "job") is None


async def test_what_others_change_of_a_suspended_jobset_is_put_right_each_time(user: User) -> None:
    await user.runtime()
    await user.job("job", suspend=True)
    made = await user.until("jobset", "job", bool)
    for parallelism in (7, 8):
        template = {"spec": {"parallelism": parallelism, "template": {"spec": POD}}}
        replicated = {**made["spec"]["replicatedJobs"][0], "template": template}
        await user.patch("jobset", "job", {"spec": {"replicatedJobs": [replicated]}})
        await user.until("jobset", "job", lambda jobset: jobset["spec"] == made["spec"])
    await user.patch("jobset", "job", {"spec": {"suspend": False}})
    await user.until("jobset", "job", lambda jobset: jobset["spec"]["suspend"])
    await user.delete("jobset", "job")
    again = await user.until("jobset", "job", bool)
    assert again["spec"] == made["spec"]


async def test_a_place_without_a_former_label_takes_a_new_jobset(user: User) -> None:
    """As a queue moves a job to another flavor: the Jobs of the old JobSet would ask for both labels."""
    await user.runtime()
    await user.job("job", suspend=True)
    for label in ("spot", "spot", "reserved"):
        before = await user.until("jobset", "job", lambda jobset: jobset["spec"]["suspend"])
        await user.patch("trainjob", "job", placed(label, suspend=False))
        if label == "reserved":
            # No garbage collector runs here, so the test does what it does.
            await user.until("jobset", "job", lambda jobset: "deletionTimestamp" in jobset["metadata"])
            await user.patch("jobset", "job", {"metadata": {"finalizers": None}})
        jobset = await user.until("jobset", "job", lambda jobset: not jobset["spec"].get("suspend"))
        assert selector_of(jobset) == {label: "yes"}
        assert (jobset["metadata"]["uid"] != before["metadata"]["uid"]) is (label == "reserved")
        await user.patch("trainjob", "job", {"spec": {"suspend": True}})
        await user.until("jobset", "job", lambda jobset: jobset["spec"]["suspend"])
        await user.patch("trainjob", "job", placed("", suspend=True))


def placed(label: str, *, suspend: bool) -> dict[str, Any]:
    """What Kueue writes into a job: where its pods run, or an empty patch."""
    template = {"spec": {"template": {"spec": {"nodeSelector": {label: "yes"}}}}}
    jobs = [{"name": "node", "template": template}] if label else []
    spec = {"template": {"spec": {"replicatedJobs": jobs}}}
    return {
        "spec": {
            "suspend": suspend,
            "runtimePatches": [{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": spec}],
        }
    }


def selector_of(jobset: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"]
    return found
