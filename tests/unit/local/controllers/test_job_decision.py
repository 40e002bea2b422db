# SPDX-License-Identifier: Apache-2.0
"""What a Job does next, as tables."""

from typing import Any

import pytest

from tests.unit.local.controllers.objects import NOW, at, condition, job, made_cases, pod
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.controllers.job_plan import JobPlan, plan
from trainwright.controller.local.controllers.job_pods import NO_FAILURES, Failures, Pods, index_of

CASES = made_cases(__file__)


def planned(owner: Document, *pods: Document, failures: Failures = NO_FAILURES, ended_by_us: str = "") -> JobPlan:
    mine = frozenset({f"uid-{ended_by_us}"}) if ended_by_us else frozenset()
    return plan(owner, Pods(owner, pods, mine), failures, NOW)


INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 2}


@pytest.mark.parametrize(("owner", "pods", "created"), CASES["pods_are_created"])
def test_pods_are_created(owner: Document, pods: list[Document], created: list[int | None]) -> None:
    assert [index_of(made) for made in planned(owner, *pods).of("create")] == created


@pytest.mark.parametrize(("owner", "pods", "deleted", "uncounted"), CASES["pods_are_deleted"])
def test_pods_are_deleted(owner: Document, pods: list[Document], deleted: list[str], uncounted: bool) -> None:
    step = planned(owner, *pods)
    assert [name_of(p) for p in step.of("delete")] == deleted
    assert [name_of(p) for p in step.of("release")] == (deleted if uncounted else [])
    assert not step.of("create")


ON_FAILURE = {"spec": {"restartPolicy": "OnFailure"}}


@pytest.mark.parametrize(("owner", "pods", "reason"), CASES["the_end_begins_with_its_reason"])
def test_the_end_begins_with_its_reason(owner: Document, pods: list[Document], reason: str) -> None:
    status = planned(owner, *pods).status
    noted = [(c["type"], c["reason"]) for c in status.get("conditions", ()) if c["type"] != "Suspended"]
    first = "SuccessCriteriaMet" if reason == "CompletionsReached" else "FailureTarget"
    assert noted == ([(first, reason)] if reason else [])
    assert "completionTime" not in status


def test_the_end_waits_for_pods_and_counts() -> None:
    target = condition("FailureTarget", "BackoffLimitExceeded", message="too often")
    status: Document = {"conditions": [target], "startTime": at(-9)}
    terminating = planned(job(status=status), pod(deleted=True, tracked=False))
    assert [c["type"] for c in terminating.status["conditions"]] == ["FailureTarget"]
    uncounted = {**status, "uncountedTerminatedPods": {"failed": ["uid-pod"]}}
    counting = planned(job(status=uncounted), pod(phase="Failed"))
    assert [c["type"] for c in counting.status["conditions"]] == ["FailureTarget"]
    assert [name_of(write.obj) for write in counting.releases] == ["pod"]
    over = planned(job(status=uncounted))
    assert [c["type"] for c in over.status["conditions"]] == ["FailureTarget", "Failed"]
    assert over.status["failed"] == 1
    assert over.status["uncountedTerminatedPods"] == {}
    assert [(r.type, r.reason, r.note) for r in over.reports] == [("Warning", "BackoffLimitExceeded", "too often")]


def test_a_reason_that_goes_with_the_pods_is_kept() -> None:
    """The pod that had restarted too often may have gone before the status is written."""
    owner = job(template=ON_FAILURE, backoffLimit=2, parallelism=1)
    deleting = planned(owner, pod(restarts=2))
    assert [name_of(one) for one in deleting.of("delete")] == ["pod"]
    assert deleting.end is not None
    for left in ([], [pod(phase="Failed")], [pod(restarts=2, deleted=True)]):
        step = plan(owner, Pods(owner, left), NO_FAILURES, NOW, end=deleting.end)
        assert step.writes == []
        assert step.end == deleting.end
        assert [(c["type"], c["reason"]) for c in step.status["conditions"]] == [
            ("FailureTarget", "BackoffLimitExceeded")
        ]


@pytest.mark.parametrize(("owner", "pods", "uncounted", "released"), CASES["pods_are_counted_once"])
def test_pods_are_counted_once(owner: Document, pods: list[Document], uncounted: Document, released: list[str]) -> None:
    step = plan(owner, Pods(owner, pods), NO_FAILURES, NOW, create=False)
    assert step.status["uncountedTerminatedPods"] == uncounted
    assert [name_of(write.obj) for write in step.releases] == released


def test_what_we_ended_has_not_failed() -> None:
    met = condition("SuccessCriteriaMet", "SuccessPolicy")
    owner = job(**INDEXED, status={"conditions": [met]})
    step = planned(owner, pod("killed", "Failed", index=0, code=137), ended_by_us="killed")
    assert step.status["uncountedTerminatedPods"] == {}
    assert [name_of(write.obj) for write in step.releases] == ["killed"]


def test_a_failed_pod_is_replaced_after_a_delay() -> None:
    owner = job()
    first = planned(owner, pod(phase="Failed", ended=-4))
    assert not first.writes
    assert first.look_again == 6.0
    assert first.failures == Failures(1, first.failures.last)
    later = planned(job(status={"failed": 1}), failures=Failures(1, NOW))
    assert later.look_again == 10.0
    assert planned(job(status={"failed": 1}), failures=Failures(0)).of("create")


def test_a_suspended_job_that_its_last_pods_have_ended_has_a_start() -> None:
    stopped = condition("Suspended", reason="JobSuspended")
    ended = planned(job(suspend=True, backoffLimit=0, status={"conditions": [stopped]}), pod(phase="Failed"))
    assert [c["type"] for c in ended.status["conditions"] if c["type"] != "Suspended"] == ["FailureTarget"]
    assert ended.status["startTime"] == at(0)


def test_a_deadline_is_looked_at_again() -> None:
    assert planned(job(activeDeadlineSeconds=5, status={"startTime": at(-2)}), pod()).look_again == 3.0
