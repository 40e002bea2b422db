# SPDX-License-Identifier: Apache-2.0
"""What a JobSet does next, as tables."""

from typing import Any

import pytest

from tests.unit.local.controllers.objects import NOW, at, child, condition, jobset, made_cases, replicated
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.controllers.base import Plan
from trainwright.controller.local.controllers.jobset import plan
from trainwright.controller.local.controllers.jobset_objects import claims_of, job_of, service_of
from trainwright.controller.local.controllers.objects import JOB, JOBSET
from trainwright.controller.runtime import Terminal

CASES = made_cases(__file__)

DONE, BROKEN = [condition("Complete")], [condition("Failed", "BackoffLimitExceeded", message="too often")]
TWO = (replicated("a", 2), replicated("b"))


def planned(owner: Document, *jobs: Document) -> Plan:
    return plan(owner, jobs, NOW)


def names(objects: list[Document]) -> list[str]:
    return [name_of(obj) for obj in objects]


def conditions(step: Plan) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in step.status.get("conditions", ())}


# ---------------------------------------------------------------------- objects


def test_a_job_says_where_it_is() -> None:
    """Of its labels, those that no recorded scenario shows: of the third replicated job, in the fourth attempt."""
    group = replicated("c", 2, groupName="other")
    owner = jobset(*TWO, group, network={"enableDNSHostnames": True}, status={"restarts": 3})
    group["template"]["spec"]["template"]["spec"]["unknown"] = {"kept": True}
    made = job_of(owner, group, 1)
    place = {"restart-attempt": "3", "global-replicas": "5", "job-index": "1", "job-global-index": "4"}
    place |= {"group-name": "other", "group-replicas": "2", "job-group-index": "1"}
    pod = made["spec"]["template"]
    for found in (made["metadata"]["labels"], made["metadata"]["annotations"], pod["metadata"]["labels"]):
        assert {f"jobset.sigs.k8s.io/{name}": value for name, value in place.items()}.items() <= found.items()
    assert pod["spec"] == {"containers": [], "unknown": {"kept": True}, "subdomain": "set"}
    assert "subdomain" not in group["template"]["spec"]["template"]["spec"], "the JobSet itself is not changed"


@pytest.mark.parametrize(
    ("network", "name", "published"),
    [({}, "set", True), ({"subdomain": "net", "publishNotReadyAddresses": False}, "net", None)],
)
def test_the_service(network: Document, name: str, published: bool | None) -> None:
    service = service_of(jobset(replicated(), network=network))
    assert name_of(service) == name
    assert service["spec"].get("publishNotReadyAddresses") is published
    assert service["spec"]["clusterIP"] == "None"


def test_claims_are_mounted_where_they_are_used() -> None:
    job = replicated()
    job["template"]["spec"]["template"]["spec"] = {"containers": [{"volumeMounts": [{"name": "data"}]}]}
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    unused = {"metadata": {"name": "unused"}, "spec": {}}
    kept = {"whenDeleted": "Retain"}
    owner = jobset(
        job, volumeClaimPolicies=[{"templates": [template]}, {"templates": [unused], "retentionPolicy": kept}]
    )
    data, other = claims_of(owner)
    assert name_of(data) == "data-set"
    assert data["metadata"]["ownerReferences"][0]["uid"] == "uid-set"
    assert "ownerReferences" not in other["metadata"]
    volumes = job_of(owner, job, 0)["spec"]["template"]["spec"]["volumes"]
    assert volumes == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-set"}}]


# ---------------------------------------------------------------------- creation and deletion


@pytest.mark.parametrize(("owner", "jobs", "created"), CASES["jobs_are_created"])
def test_jobs_are_created(owner: Document, jobs: list[Document], created: list[str]) -> None:
    assert names(planned(owner, *jobs).of("create", JOB)) == created


@pytest.mark.parametrize(("owner", "jobs", "deleted"), CASES["jobs_are_deleted"])
def test_jobs_are_deleted(owner: Document, jobs: list[Document], deleted: list[str]) -> None:
    assert names(planned(owner, *jobs).of("delete")) == deleted


def test_a_job_without_its_attempt_ends_the_reconcile() -> None:
    lost = child("set-a-0", "a")
    lost["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = "x"
    with pytest.raises(Terminal, match="must be a number, not 'x'"):
        planned(jobset(*TWO), lost)


# ---------------------------------------------------------------------- status


def test_jobs_are_counted_by_what_they_do() -> None:
    jobs = [
        child("set-a-0", "a", ready=1, active=1),
        child("set-a-1", "a", suspend=True),
        child("set-b-0", "b", conditions=DONE),
        child("set-lost-0", "lost", active=1),
    ]
    zero = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    assert planned(jobset(*TWO), *jobs).status["replicatedJobsStatus"] == [
        {"name": "b", **zero, "succeeded": 1},
        {"name": "a", **zero, "ready": 1, "active": 1, "suspended": 1},
    ]


@pytest.mark.parametrize(("policy", "jobs", "completed"), CASES["the_success_policy"])
def test_the_success_policy(policy: Document, jobs: list[str], completed: bool) -> None:
    owner = jobset(*TWO, successPolicy=policy)
    step = planned(owner, *(child(name, name.split("-")[1], conditions=DONE) for name in jobs))
    assert ("Completed" in conditions(step)) == completed
    assert step.status.get("terminalState") == ("Completed" if completed else None)


def rule(action: str, **match: Any) -> Document:
    return {"maxRestarts": 1, "rules": [{"name": "rule", "action": action, **match}]}


@pytest.mark.parametrize(("policy", "status", "reason", "restarts"), CASES["the_failure_policy"])
def test_the_failure_policy(policy: Document | None, status: Document, reason: str, restarts: list[int]) -> None:
    owner = jobset(*TWO, status=status, failurePolicy=policy)
    step = planned(owner, child("set-a-0", "a", conditions=BROKEN), child("set-b-0", "b"))
    found = conditions(step)
    assert found == {"Failed" if restarts[0] == 0 else "RestartingJobSet": ("True", reason)}
    assert (step.status["restarts"], step.status.get("restartsCountTowardsMax", 0)) == tuple(restarts)
    assert step.status.get("terminalState") == ("Failed" if restarts[0] == 0 else None)
    assert all(r.note.endswith("(first failed job: set-a-0)") for r in step.reports)
    assert not step.of("create")


def test_the_first_failure_is_named() -> None:
    late, early = [condition("Failed", since=5)], [condition("Failed", since=1)]
    step = planned(jobset(*TWO), child("set-a-0", "a", conditions=late), child("set-b-0", "b", conditions=early))
    assert step.status["conditions"][0]["message"].endswith("(first failed job: set-b-0)")


def test_conditions_keep_their_time() -> None:
    suspended = condition("Suspended", "SuspendedJobs", since=-9, message="jobset is suspended")
    owner = jobset(*TWO, suspend=True, status={"conditions": [suspended]})
    step = planned(owner)
    assert step.status["conditions"] == [suspended]
    assert not step.reports


@pytest.mark.parametrize(("since", "expired", "again"), [(-4, False, 6.0), (-10, True, None)])
def test_time_to_live(since: float, expired: bool, again: float | None) -> None:
    owner = jobset(status={"conditions": [condition("Completed", since=since)]}, ttlSecondsAfterFinished=10)
    owner["status"] = planned(owner).status
    step = planned(owner)
    assert (step.of("delete", JOBSET) == [owner], step.look_again) == (expired, again)


# ---------------------------------------------------------------------- suspension


def test_resuming_adds_and_takes_nothing_away() -> None:
    job = replicated("a")
    job["template"]["spec"]["template"] = {
        "metadata": {"labels": {"new": "label"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "a"}, {"key": "b"}],
            "containers": ["other"],
        },
    }
    suspended = child("set-a-0", "a", suspend=True, startTime=at(-5))
    suspended["spec"]["template"] = {
        "metadata": {"labels": {"old": "label"}},
        "spec": {"nodeSelector": {"zone": "1"}, "tolerations": [{"key": "a"}], "containers": []},
    }
    owner = jobset(job, status={"conditions": [condition("Suspended", "SuspendedJobs")]})
    (first,) = (write for write in planned(owner, suspended).writes if write.verb == "patch")
    assert (first.options, first.body["status"]) == ({"subresource": "status"}, {"startTime": None})
    del suspended["status"]["startTime"]
    (change,) = (write for write in planned(owner, suspended).writes if write.verb == "patch")
    assert change.body == {
        "metadata": {"resourceVersion": "7"},
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {"labels": {"new": "label"}},
                "spec": {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "a"}, {"key": "b"}]},
            },
        },
    }
