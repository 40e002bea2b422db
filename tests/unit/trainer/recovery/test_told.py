# SPDX-License-Identifier: Apache-2.0
"""What `explain` says of a job that recovers: between two attempts, while one runs, and at the end."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.builders import RUNNING
from tests.cases import cases
from tests.unit.trainer.recovery.test_recovery_causes import pod
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document
from trainwright.controller.trainer.job.pods import attempts_begun
from trainwright.controller.trainer.recovery.verdict import KEY, Counts, Summary, text_of
from trainwright.controller.trainer.why import Explanation, GivenObjects, explain
from trainwright.controller.trainer.why.job.jobset import attempts_of
from trainwright.plugins.contract.picture import Picture

CASES = cases(__file__)

NOW = datetime(2026, 11, 25, 10, 0, 0, tzinfo=UTC)
WHY = "rank 1 failed with exit code 1; its log ends with: ValueError: bad shape"


def owned(kind: str, api: str, name: str, owner: str, uid: str, **more: Any) -> Document:
    reference = {"apiVersion": "v1", "kind": owner, "name": "j", "uid": uid, "controller": True}
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "ownerReferences": [reference],
        "creationTimestamp": "2026-11-25T09:00:00Z",
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def said(summary: Summary, *more: Document, **settings: Any) -> Explanation:
    return explain(pictured(summary, *more, **settings))


def pictured(
    summary: Summary,
    *more: Document,
    suspended: bool = False,
    failed: dict[str, str] | None = None,
    complete: bool = False,
    record: dict[str, str] | None = None,
    gave_up: list[dict[str, str]] | None = None,
) -> Picture:
    counts = [RUNNING]
    conditions = (
        [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-25T09:59:00Z", **failed}] if failed else []
    )
    if complete:
        end = {"reason": "R", "message": "m", "lastTransitionTime": "2026-11-25T09:59:00Z"}
        conditions.append({"type": "Complete", "status": "True", **end})
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j", "namespace": "n", "uid": "job", "creationTimestamp": "2026-11-25T09:00:00Z"},
        "spec": {"runtimeRef": {"name": "r"}},
        "status": {"jobsStatus": counts, "conditions": conditions},
    }
    template = {"spec": {"completions": 2, "parallelism": 2, "template": {"spec": {"containers": [{"name": "node"}]}}}}
    spec = {
        "suspend": suspended,
        "failurePolicy": {"maxRestarts": 3, "rules": [{"name": "infra", "action": "RestartJobSet"}]},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": template}],
    }
    jobset = owned(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        "j",
        "TrainJob",
        "job",
        spec=spec,
        status={"restarts": 2, "replicatedJobsStatus": counts, "conditions": gave_up or []},
    )
    data = {KEY: text_of(summary), **(record or {})}
    kept = owned("ConfigMap", "v1", "j-failures", "TrainJob", "job", data=data)
    return GivenObjects((job, jobset, kept, *more)).picture(job, NOW)


def running(rank: int) -> Document:
    found = pod(rank)
    labels = {
        **found["metadata"]["labels"],
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/jobset-uid": "uid-j",
        "jobset.sigs.k8s.io/restart-attempt": "2",
    }
    metadata = {**found["metadata"], "namespace": "n", "labels": labels, "creationTimestamp": "2026-11-25T09:59:00Z"}
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
    containers = [{"name": "node", "state": {"running": {"startedAt": "2026-11-25T09:59:00Z"}}}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": containers}
    return {**found, "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def test_between_two_attempts_it_says_when_the_next_begins_and_why() -> None:
    held = Summary(judged=2, hold_until="2026-11-25T10:00:48Z", paid="2 of 3 retries used", why=WHY)
    found = said(held, suspended=True)
    assert (found.outcome, found.cause.message) == (
        "Restarting",
        f"attempt 3 begins at 10:00:48 UTC, 2 of 3 retries used: {WHY}",
    )
    over = Summary(judged=2, hold_until="2026-11-25T09:59:48Z", paid="2 of 3 retries used", why=WHY)
    assert said(over).cause.message == f"attempt 3 begins, 2 of 3 retries used: {WHY}"
    hang = Summary(judged=2, hang=True, paid="1 of 2 hang retries used", why="no report for 15 min")
    assert said(hang).cause.message.startswith("attempt 3 begins when all ranks have stopped, 1 of 2 hang retries used")


def ended(rank: int, code: int) -> Document:
    found = running(rank)
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": "2026-11-25T09:59:30Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "node", "state": state}]}
    labels = {**found["metadata"]["labels"], "batch.kubernetes.io/job-name": "j-node-0"}
    return {**found, "metadata": {**found["metadata"], "labels": labels}, "status": status}


def test_a_jobset_that_has_given_up_is_not_stuck_while_the_verdict_waits_for_evidence() -> None:
    """Kubernetes has no retry left: either a new JobSet follows, or the job fails."""
    at = {"status": "True", "lastTransitionTime": "2026-11-25T09:59:35Z"}
    given_up = [{"type": "Failed", "reason": "ReachedMaxRestarts", "message": "", **at}]
    failed = {"conditions": [{"type": "Failed", "reason": "BackoffLimitExceeded", **at}]}
    job = owned("Job", "batch/v1", "j-node-0", "JobSet", "uid-j", spec={"backoffLimit": 0}, status=failed)
    labels = {"jobset.sigs.k8s.io/jobset-name": "j", "jobset.sigs.k8s.io/replicatedjob-name": "node"}
    job["metadata"]["labels"] = {**labels, "jobset.sigs.k8s.io/restart-attempt": "2"}
    objects = (job, ended(0, 137))
    found = said(Summary(judged=2, why=WHY), *objects, gave_up=given_up)
    assert (found.outcome, found.cause.reason) == ("Waiting", "Ending")
    told = "; the job fails at 10:00:35 UTC, unless it shows by then that the cluster was the reason"
    assert "failed with exit code 137 (killed)" in found.cause.message
    assert told in found.cause.message
    follows = Summary(judged=3, why="rank 0 failed with exit code 137", paid="3 of 4 retries used", replace="uid-j")
    found = said(follows, *objects, gave_up=given_up)
    assert (found.outcome, found.cause.message) == (
        "Restarting",
        "attempt 4 begins, 3 of 4 retries used: rank 0 failed with exit code 137",
    )


def test_while_an_attempt_runs_it_says_what_those_before_have_cost() -> None:
    counts = Counts(causes={"Infrastructure": 1, "Code": 1}, step=160.0)
    found = said(Summary(judged=2, counts=counts), running(0), running(1))
    assert found.outcome == "Running"
    assert "attempt 3; best step so far: 160; before: 1 infrastructure, 1 code" in found.cause.message


@pytest.mark.parametrize(
    ("suspended", "failed", "judged", "wanted"),
    CASES["an_attempt_is_counted_once_it_has_begun"].values(),
    ids=CASES["an_attempt_is_counted_once_it_has_begun"],
)
def test_an_attempt_is_counted_once_it_has_begun(
    suspended: bool, failed: dict[str, str] | None, judged: int, wanted: int
) -> None:
    picture = pictured(Summary(judged=judged), suspended=suspended, failed=failed)
    # How many there may be depends on their causes: 3 retries allow more than four attempts.
    assert attempts_of(picture) == (wanted, None)
    if failed is None:
        assert attempts_begun(msgspec.convert(picture.jobset, JobSet)) == wanted


def test_a_complete_job_says_what_its_attempts_have_cost() -> None:
    counts = Counts(causes={"Infrastructure": 1, "Code": 1}, step=160.0)  # the last attempt went on from there
    found = said(Summary(judged=2, counts=counts), complete=True)
    assert found.cause.message == "the job is complete after 3 attempts; before: 1 infrastructure, 1 code"


@pytest.mark.parametrize("reason", ["ReachedMaxRestarts", "Hang", "Interrupted", "OutOfTime", "Stalled"])
def test_the_end_is_told_in_the_words_of_whoever_ended_the_job(reason: str) -> None:
    """And not by an attempt before, which may have stood still."""
    before = {"attempt-1": "{attempt: 1, pod: '', message: no report of progress for 2 min, cause: Hang}"}
    end = {"reason": reason, "message": f"the job failed after 5 attempts; the last: {WHY}"}
    assert said(Summary(judged=5), failed=end, record=before).cause.message == end["message"]


def test_an_attempt_that_stood_still_names_no_pod() -> None:
    before = {"attempt-1": "{attempt: 1, pod: '', message: no report of progress for 2 min, cause: Hang}"}
    found = said(Summary(judged=1), failed={"reason": "FailedJobs", "message": "one failed"}, record=before)
    assert found.cause.message == "the job failed with reason FailedJobs: one failed"


def test_the_end_by_the_record_is_told_as_it_is_written() -> None:
    message = f"the same failure three times at step 120, so a retry would not help: {WHY}"
    found = said(Summary(judged=3), failed={"reason": "SameFailure", "message": message})
    assert (found.outcome, found.cause.message) == ("Failed", message)
