# SPDX-License-Identifier: Apache-2.0
"""A TrainJob all the way, with the real JobSet and Job controllers: what a user sees from the outside."""

import pytest

from tests.e2e.conftest import NOWHERE, ON_BOTH, Trainer
from tests.managers import MANAGER
from trainwright.controller.runtime.testing.waiting import contains, equals, eventually_sync, has_length, is_empty


@ON_BOTH
def test_a_job_becomes_a_jobset_jobs_and_pods_and_completes(trainer: Trainer) -> None:
    trainer.job("plain", trainer.runtime("plain"), trainer={"numNodes": 2, "env": [{"name": "A", "value": "b"}]})
    eventually_sync(lambda: trainer.conditions("plain"), equals({"Complete": ("True", "AllJobsCompleted")}))
    jobset = trainer.get("jobset", "plain")
    assert jobset is not None
    assert [owner["kind"] for owner in jobset["metadata"]["ownerReferences"]] == ["TrainJob"]
    assert len(trainer.pods()) == 2
    assert all({"name": "A", "value": "b"} in pod["spec"]["containers"][0]["env"] for pod in trainer.pods())
    eventually_sync(lambda: counts(trainer, "plain"), equals({"node": (0, 1)}))


def counts(trainer: Trainer, name: str) -> dict[str, tuple[int, int]]:
    """Active and succeeded of each replicated job."""
    found = (trainer.get("trainjob", name) or {}).get("status", {}).get("jobsStatus", [])
    return {entry["name"]: (entry["active"], entry["succeeded"]) for entry in found}


@ON_BOTH
def test_a_deleted_jobset_comes_back(trainer: Trainer) -> None:
    trainer.job("again", trainer.runtime("waits", **NOWHERE))
    first = (eventually_sync(lambda: trainer.get("jobset", "again")) or {})["metadata"]["uid"]
    trainer.delete("jobset", "again")
    eventually_sync(
        lambda: trainer.get("jobset", "again"), lambda found: found is not None and found["metadata"]["uid"] != first
    )


@ON_BOTH
def test_a_field_of_ours_that_somebody_edits_is_repaired(trainer: Trainer) -> None:
    trainer.job("edited", trainer.runtime("waits", **NOWHERE))
    eventually_sync(lambda: trainer.get("jobset", "edited"))
    trainer.patch("jobset", "edited", {"spec": {"suspend": True}})
    eventually_sync(lambda: (trainer.get("jobset", "edited") or {})["spec"].get("suspend"), is_empty)


@ON_BOTH
def test_suspending_stops_the_pods_and_resuming_starts_them(trainer: Trainer) -> None:
    trainer.job("paused", trainer.runtime("waits", **NOWHERE), trainer={"numNodes": 2})
    eventually_sync(trainer.pods, has_length(2))
    assert trainer.conditions("paused") == {}
    suspend(trainer, "paused", suspended=True)
    eventually_sync(trainer.pods, is_empty)
    eventually_sync(lambda: trainer.conditions("paused"), equals({"Suspended": ("True", "Suspended")}))
    suspend(trainer, "paused", suspended=False)
    eventually_sync(trainer.pods, has_length(2))
    eventually_sync(lambda: trainer.conditions("paused"), equals({"Suspended": ("False", "Resumed")}))


def suspend(trainer: Trainer, name: str, *, suspended: bool) -> None:
    trainer.patch("trainjob", name, {"spec": {"suspend": suspended}})


@pytest.mark.real_control_plane("the whole chain")
def test_a_killed_manager_that_starts_again_writes_nothing(own_trainer: Trainer) -> None:
    trainer = own_trainer
    runtime = trainer.runtime("waits", **NOWHERE)
    for index in range(5):
        trainer.job(f"kept-{index}", runtime)
    eventually_sync(trainer.pods, has_length(5))
    running = [{"node": (1, 0)}] * 5
    eventually_sync(lambda: [counts(trainer, f"kept-{index}") for index in range(5)], equals(running))
    log = trainer.cluster.audit_log
    before = sum(1 for _ in log.calls(user_agent="trainwright"))
    trainer.cluster.restart(MANAGER, kill=True)
    # That it works again shows that it has seen, and looked at, everything that was there.
    trainer.job("new", runtime)
    eventually_sync(lambda: trainer.get("jobset", "new"))
    calls = list(log.calls(user_agent="trainwright"))[before:]
    assert [
        call for call in calls if call.is_write and not call.name.startswith("new") and call.resource != "leases"
    ] == []
    assert any(call.is_write for call in calls)


@ON_BOTH
def test_a_missing_runtime_blocks_the_job_until_it_is_there(unadmitted: Trainer) -> None:
    trainer = unadmitted
    trainer.job("early", "late")
    eventually_sync(lambda: trainer.conditions("early"), equals({"Blocked": ("True", "RuntimeMissing")}))
    found = (trainer.get("trainjob", "early") or {})["status"]["conditions"][0]
    assert found["message"] == (
        f"TrainingRuntime late does not exist in namespace {trainer.namespace}: create it, or delete this TrainJob"
    )
    assert found["observedGeneration"] == 1
    trainer.runtime("late")
    eventually_sync(lambda: trainer.conditions("early"), equals({"Complete": ("True", "AllJobsCompleted")}))


@ON_BOTH
def test_a_runtime_that_comes_a_moment_later_is_never_reported(unadmitted: Trainer) -> None:
    with unadmitted.one_file():
        unadmitted.job("together", "soon")
        unadmitted.runtime("soon", **NOWHERE)
    eventually_sync(lambda: unadmitted.get("jobset", "together"))
    # The job has pods, so its status has been written since; what was reported would be there.
    eventually_sync(lambda: counts(unadmitted, "together"), equals({"node": (1, 0)}))
    calls = [call for call in unadmitted.calls() if call.is_write and call.namespace == unadmitted.namespace]
    first = next(index for index, call in enumerate(calls) if call.resource == "jobsets")
    # Nothing but the snapshot was written before: no event, and no status with a condition.
    assert {(call.resource, call.subresource) for call in calls[:first]} <= {("configmaps", "")}
    assert unadmitted.conditions("together") == {}
    events = unadmitted.cluster.stored.list("events.events.k8s.io", unadmitted.namespace)
    notes = [event["note"] for event in events if event["regarding"]["kind"] == "TrainJob"]
    # On the local cluster, where jobs are explained, there is one about the node that the pod does not find.
    assert [note for note in notes if "soon" in note] == []


@ON_BOTH
def test_a_job_of_another_manager_is_left_alone(trainer: Trainer) -> None:
    runtime = trainer.runtime("plain")
    trainer.job("theirs", runtime, managedBy="kueue.x-k8s.io/multikueue")
    trainer.job("ours", runtime)
    eventually_sync(lambda: trainer.conditions("ours"), contains("Complete"))
    assert trainer.get("jobset", "theirs") is None
    assert trainer.conditions("theirs") == {}
