# SPDX-License-Identifier: Apache-2.0
"""One word for a job, whoever is asked: kubectl, `explain`, `progress`, `local jobs`, `run`, the dashboard's list.

The situations are those of tests/explanations. The manager's part writes the condition that it would write, and then
each view is asked about the same object.
"""

from typing import Any

import msgspec
import pytest

from tests import builders
from tests.repository import ROOT, documents
from tests.unit.trainer.explain.test_explanations import cases, made
from tests.unit.trainer.explain.world import NOW, World, at, condition
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.cli.local import local_jobs
from trainwright.controller.dashboard.details import row_of
from trainwright.controller.local.apiserver.views.jsonpath import compile_path
from trainwright.controller.trainer.job.status import EXPLAINING, Finding, in_order, state_of, with_finding
from trainwright.controller.trainer.why.waiting import condition_of, told
from trainwright.controller.views import text
from trainwright.controller.views.explanation import as_json as explained_json
from trainwright.controller.views.job import History, as_json, sorted_views, view_of
from trainwright.plugins.contract import JobState

WITHOUT_CONDITION = {JobState.RUNNING, JobState.PENDING, JobState.DELETING}
"""kubectl's column shows conditions only."""


def managed(world: World) -> TrainJob:
    """The job as the manager leaves it, and the world with it."""
    job, explanation = msgspec.convert(world.job, TrainJob), world.explained()
    had = (job.status.conditions if job.status is not None else None) or []
    found = Finding(frozenset(EXPLAINING), condition_of(told(job, explanation)))
    conditions = in_order(with_finding(had, found, lambda: NOW))
    world.job.setdefault("status", {})["conditions"] = msgspec.to_builtins(conditions)
    return msgspec.convert(world.job, TrainJob)


def kubectl(world: World) -> str:
    """The column State, by the definition that is installed."""
    path = ROOT / "config" / "crd" / "trainer.kubeflow.org_trainjobs.yaml"
    (version,) = documents(path)[0]["spec"]["versions"]
    (column,) = [one for one in version["additionalPrinterColumns"] if one["name"] == "State"]
    return next(iter(compile_path(column["jsonPath"])(world.job)), "")


def words_of(world: World, job: TrainJob) -> dict[str, str]:
    view = view_of(job, History(), NOW)
    word = state_of(job).state
    return {
        "kubectl": kubectl(world) or (word.value if word in WITHOUT_CONDITION else "nothing"),
        "progress": text.state(view).partition(" (")[0],
        "progress --output": as_json(view)["state"],
        "progress --watch": text.line(view, namespace=False).partition(": ")[2].partition(",")[0].partition(" (")[0],
        "page": row_of(view_of(job, History(), NOW)).state,
        "local jobs": local_jobs.table([world.job], NOW, namespaces=False)[1].split()[1],
        "local show": local_jobs.details(world.job, [], NOW)[1].split()[1].rstrip(","),
    }


def tells(case: Any) -> bool:
    """Whether a manager tells what explain finds: one that is there does, of a job that is to run and has not ended."""
    world = made(case)
    try:
        job = msgspec.convert(world.job, TrainJob)
    except msgspec.ValidationError:  # the manager cannot read it either
        return False
    is_to_run = not (job.spec_or_empty.suspend or job.metadata_or_empty.deletion_timestamp or is_finished(job))
    return is_to_run and "Manager" not in case["says"] and condition_of(told(job, world.explained())) is not None


CASES = [one for one in cases() if tells(one.values[1])]


@pytest.mark.parametrize("case", [pytest.param(one.values[1], id=str(one.id)) for one in CASES])
def test_what_explain_finds_is_said_by_every_view_with_its_word(case: Any) -> None:
    world = made(case)
    word, says = world.explained().outcome, world.explained().cause.message
    job = managed(world)
    assert words_of(world, job) == dict.fromkeys(words_of(world, job), word.value)
    assert explained_json(world.explained())["outcome"] == word.value
    view = view_of(job, History(), NOW)
    start = says.partition(";")[0][:60]
    for shown in (
        state_of(job).message,
        row_of(view_of(job, History(), NOW)).message,
        dict(text.details(view, NOW))["why"],
        text.table([view], namespaces=False)[1],
        local_jobs.table([world.job], NOW, namespaces=False)[1],
        text.line(view, namespace=False),
    ):
        assert start in shown


STALLED = condition("Stalled", "NoReport", "no report of progress for 10 min")
STATUSES: dict[JobState, Any] = {
    JobState.RUNNING: {"jobsStatus": [builders.counts(active=1, ready=1)]},
    JobState.PENDING: {"jobsStatus": [builders.counts(active=1)]},
    JobState.SUSPENDED: {"conditions": [condition("Suspended", "Suspended", "TrainJob is suspended")]},
    JobState.STALLED: {
        "jobsStatus": [builders.counts(active=1, ready=1)],
        "trainerStatus": {"progressPercentage": 100, "lastUpdatedTime": at(700)},
        "conditions": [STALLED],
    },
    JobState.BLOCKED: {"conditions": [condition("Blocked", "BuildFailed", "plugin Torch: no")]},
    JobState.FAILED: {"conditions": [condition("Failed", "FailedJobs", "jobset failed")]},
    JobState.COMPLETE: {"conditions": [condition("Complete", "AllJobsCompleted", "jobset completed successfully")]},
}
"""What the manager writes without an explanation."""


def with_status(word: JobState) -> tuple[World, TrainJob]:
    world = World()
    if word is JobState.DELETING:
        world.job["metadata"] |= {"deletionTimestamp": at(5), "finalizers": ["foregroundDeletion"]}
    world.job["status"] = STATUSES.get(word, {})
    return world, msgspec.convert(world.job, TrainJob)


@pytest.mark.parametrize("word", [*STATUSES, JobState.DELETING])
def test_every_view_has_the_word_of_the_status(word: JobState) -> None:
    world, job = with_status(word)
    assert words_of(world, job) == dict.fromkeys(words_of(world, job), word.value)


def test_nothing_shows_an_end_for_a_job_that_runs_on() -> None:
    world, job = with_status(JobState.STALLED)
    view = view_of(job, History(), NOW)
    everything = [
        *text.table([view], namespaces=False),
        *text.detail_lines(view, NOW),
        *local_jobs.table([world.job], NOW, namespaces=False),
        str(as_json(view)),
        str(row_of(view_of(job, History(), NOW))),
    ]
    for line in everything:
        assert "100" not in line.replace("2026", ""), line
        assert "ETA   0" not in line


def test_lists_begin_with_what_trains_and_end_with_what_has_ended() -> None:
    found = [managed(made(one.values[1])) for one in CASES] + [with_status(word)[1] for word in reversed(STATUSES)]
    order = [view.state for view in sorted_views([view_of(job, History(), NOW) for job in found])]
    assert (order[0], list(dict.fromkeys(order))[-2:]) == (JobState.RUNNING, [JobState.FAILED, JobState.COMPLETE])
    assert set(order) == set(JobState) - {JobState.DELETING}


def test_conditions_are_kept_in_the_order_of_the_words() -> None:
    def named(*kinds: str) -> list[Condition]:
        return [msgspec.convert(condition(kind, "R"), Condition) for kind in kinds]

    mixed = named("Created", "Stalled", "Waiting", "Suspended", "Blocked")
    assert [one.type for one in in_order(mixed)] == ["Blocked", "Suspended", "Waiting", "Stalled", "Created"]
    kubeflows = named("Suspended", "Complete")
    assert in_order(kubeflows) == kubeflows


def test_a_report_of_the_pods_before_does_not_make_a_resumed_job_run() -> None:
    _, job = with_status(JobState.PENDING)
    report = {"progressPercentage": 40, "lastUpdatedTime": at(700)}
    resumed = condition("Suspended", "Resumed", status="False", ago=60)
    for conditions, word in (([], JobState.RUNNING), ([resumed], JobState.PENDING)):
        status = {**STATUSES[JobState.PENDING], "trainerStatus": report, "conditions": conditions}
        found = msgspec.convert({**msgspec.to_builtins(job), "status": status}, TrainJob)
        assert state_of(found).state is word
