# SPDX-License-Identifier: Apache-2.0
"""One word for a job, whoever is asked: kubectl, `explain`, `progress`, `local jobs`, `run`, the dashboard's list.

Each situation is made as a cluster makes it. The manager's part writes the condition that it would write, and then each
view is asked about the same object.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests import builders
from tests.repository import ROOT, documents
from tests.unit.trainer.explain.world import NOW, World, at, condition, container
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.local import local_jobs
from trainwright.controller.dashboard.details import row_of
from trainwright.controller.local.apiserver.views.jsonpath import compile_path
from trainwright.controller.trainer.job.findings import Finding, with_finding
from trainwright.controller.trainer.job.state import EXPLAINING, state_of
from trainwright.controller.trainer.job.status import in_order
from trainwright.controller.trainer.why.waiting import condition_of, told
from trainwright.controller.views import text
from trainwright.controller.views.explanation import as_json as explained_json
from trainwright.controller.views.job import History, as_json, sorted_views, view_of
from trainwright.plugins.contract import JobState

GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
WITHOUT_CONDITION = {JobState.RUNNING, JobState.PENDING, JobState.DELETING}
"""kubectl's column shows conditions only."""
CRASHED = {"exitCode": 1, "reason": "Error", "finishedAt": at(60), "startedAt": at(90)}


def counts(world: World, *, ready: int = 0, active: int = 1) -> None:
    one = builders.counts(active=active, ready=ready)
    world.job.setdefault("status", {})["jobsStatus"] = [one]
    world.jobset["status"]["replicatedJobsStatus"] = [one]


def runs(world: World) -> None:
    counts(world, ready=1)


def starts(world: World) -> None:
    counts(world)
    for pod in world.pods:
        pod["status"] = {"phase": "Pending", "conditions": [condition("PodScheduled", "", ago=2)]}
        pod["status"]["containerStatuses"] = [container("node", {"waiting": {"reason": "ContainerCreating"}})]


def loops(world: World) -> None:
    counts(world)
    world.waiting("CrashLoopBackOff", "back-off 40s", 0, restarts=3, lastState={"terminated": CRASHED})


def runs_between_two_crashes(world: World) -> None:
    counts(world, ready=1)
    again = container("node", {"running": {"startedAt": at(5)}}, 3, lastState={"terminated": CRASHED})
    world.pods[0]["status"]["containerStatuses"] = [again]


def runs_again_for_long(world: World) -> None:
    counts(world, ready=1)
    again = container("node", {"running": {"startedAt": at(700)}}, 3, lastState={"terminated": CRASHED})
    world.pods[0]["status"]["containerStatuses"] = [again]


def is_killed_for_memory_again_and_again(world: World) -> None:
    counts(world)
    killed = {**CRASHED, "exitCode": 137, "reason": "OOMKilled"}
    world.waiting("CrashLoopBackOff", "back-off 40s", 0, restarts=3, lastState={"terminated": killed})
    for pod in world.pods:
        pod["spec"]["restartPolicy"] = "OnFailure"


def fails_once(world: World) -> None:
    counts(world)
    pod = world.terminated(0, 1)
    pod["status"]["phase"], pod["spec"]["restartPolicy"] = "Running", "OnFailure"


def begins_attempt_2(world: World) -> None:
    counts(world)
    # JobSet has deleted all Jobs, and makes them again.
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod")]
    world.jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    world.jobset["status"] |= {
        "restarts": 1,
        "restartsCountTowardsMax": 1,
        "conditions": [condition("RestartingJobSet", "Restart", "first failed job: j-node-0", ago=20)],
    }


def wants_more_gpus_than_there_are(world: World) -> None:
    counts(world)
    world.unschedulable(GPU)
    for one in [*world.pods, *(obj["spec"]["template"] for obj in world.objects if obj["kind"] == "Job")]:
        one["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "16"}}


def waits_for_gpus_in_use(world: World) -> None:
    counts(world)
    world.unschedulable(GPU)


def misses_its_image(world: World) -> None:
    counts(world)
    world.waiting("ImagePullBackOff", "rpc error: code = NotFound desc = not found")


def is_suspended(world: World) -> None:
    world.without_pods()
    world.job["spec"]["suspend"] = True
    world.ended("Suspended", "Suspended", "TrainJob is suspended")


def waits_in_a_queue(world: World) -> None:
    world.without_pods()
    reserved = condition("QuotaReserved", "Pending", "insufficient unused quota for cpu", status="False")
    world.workload(reserved)
    world.ended("Suspended", "Suspended", "TrainJob is suspended")


def cannot_be_built(world: World) -> None:
    world.without_pods()
    world.blocked("BuildFailed", "plugin Torch: no")


def cannot_be_built_and_is_suspended(world: World) -> None:
    is_suspended(world)
    cannot_be_built(world)


def has_lost_a_rank(world: World) -> None:
    counts(world, ready=1)
    pod = world.terminated(1, 0, ago=700)
    pod["status"]["phase"] = "Succeeded"
    # As the manager writes it; see `progress.stall`.
    world.ended("Stalled", "RankEnded", "rank 1 ended with exit code 0")


def has_fallen_silent(world: World) -> None:
    counts(world, ready=1)
    world.job["status"]["trainerStatus"] = {"progressPercentage": 100, "lastUpdatedTime": at(700)}
    world.ended("Stalled", "NoReport", "no report of progress for 10 min")


def has_failed(world: World) -> None:
    counts(world)
    world.terminated(0, 1)
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures")


def is_complete(world: World) -> None:
    world.without_pods()
    world.ended("Complete", "AllJobsCompleted", "jobset completed successfully")


def is_being_deleted(world: World) -> None:
    counts(world, ready=1)
    world.job["metadata"] |= {"deletionTimestamp": at(5), "finalizers": ["foregroundDeletion"]}


SITUATIONS: dict[Callable[[World], None], JobState] = {
    runs: JobState.RUNNING,
    starts: JobState.PENDING,
    loops: JobState.RESTARTING,
    runs_between_two_crashes: JobState.RESTARTING,
    runs_again_for_long: JobState.RUNNING,
    is_killed_for_memory_again_and_again: JobState.RESTARTING,
    fails_once: JobState.RESTARTING,
    begins_attempt_2: JobState.RESTARTING,
    wants_more_gpus_than_there_are: JobState.STUCK,
    waits_for_gpus_in_use: JobState.WAITING,
    misses_its_image: JobState.STUCK,
    is_suspended: JobState.SUSPENDED,
    waits_in_a_queue: JobState.SUSPENDED,
    cannot_be_built: JobState.BLOCKED,
    cannot_be_built_and_is_suspended: JobState.BLOCKED,
    has_lost_a_rank: JobState.STALLED,
    has_fallen_silent: JobState.STALLED,
    has_failed: JobState.FAILED,
    is_complete: JobState.COMPLETE,
    is_being_deleted: JobState.DELETING,
}


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


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_every_view_has_the_same_word(situation: Callable[[World], None]) -> None:
    world, word = World(), SITUATIONS[situation]
    situation(world)
    # Before the manager has written anything, `explain` knows it.
    assert world.explained().outcome is word
    job = managed(world)
    view = view_of(job, History(), NOW)
    row = row_of(job, History(), NOW)
    listed = local_jobs.table([world.job], NOW, namespaces=False)
    assert {
        "kubectl": kubectl(world) or (word.value if word in WITHOUT_CONDITION else "nothing"),
        "explain": explained_json(world.explained())["outcome"],
        "progress": text.state(view).partition(" (")[0],
        "progress --output": as_json(view)["state"],
        "progress --watch": text.line(view, namespace=False).removeprefix("j: ").partition(",")[0].partition(" (")[0],
        "page": row.state,
        "local jobs": listed[1].split()[1],
        "local show": local_jobs.details(world.job, [], NOW)[1].split()[1].rstrip(","),
    } == dict.fromkeys(
        (
            "kubectl",
            "explain",
            "progress",
            "progress --output",
            "progress --watch",
            "page",
            "local jobs",
            "local show",
        ),
        word.value,
    )


@pytest.mark.parametrize(
    ("situation", "says"),
    [
        (loops, "container node of rank 0 has failed 3 times, last with exit code 1"),
        (runs_between_two_crashes, "rank 0 has failed 3 times, first with exit code 1, and runs again"),
        (is_killed_for_memory_again_and_again, "rank 0 was killed for memory 3 times (OOMKilled, exit code 137)"),
        (begins_attempt_2, "attempt 2 of 4 starts: Job j-node-0 failed in the one before"),
        (wants_more_gpus_than_there_are, "no node has 16 nvidia.com/gpu (the largest has 8)"),
        (has_lost_a_rank, "rank 1 ended with exit code 0"),
    ],
)
def test_count_and_cause_are_said_with_the_word(situation: Callable[[World], None], says: str) -> None:
    world = World()
    situation(world)
    job = managed(world)
    view, row = view_of(job, History(), NOW), row_of(job, History(), NOW)
    for shown_text in (
        world.explained().cause.message,
        state_of(job).message,
        row.message,
        dict(text.details(view, NOW))["why"],
        text.table([view], namespaces=False)[1],
        local_jobs.table([world.job], NOW, namespaces=False)[1],
        text.line(view, namespace=False),
    ):
        assert says in shown_text, shown_text


def test_nothing_shows_an_end_for_a_job_that_runs_on() -> None:
    world = World()
    has_fallen_silent(world)
    job = managed(world)
    view = view_of(job, History(), NOW)
    everything = [
        *text.table([view], namespaces=False),
        *text.detail_lines(view, NOW),
        *local_jobs.table([world.job], NOW, namespaces=False),
        world.explained().cause.message,
        str(as_json(view)),
        str(row_of(job, History(), NOW)),
    ]
    for line in everything:
        assert "100" not in line.replace("2026", ""), line
        assert "ETA   0" not in line


def test_lists_begin_with_what_trains_and_end_with_what_has_ended() -> None:
    views = []
    for situation in reversed(SITUATIONS):
        world = World()
        situation(world)
        views.append(view_of(managed(world), History(), NOW))
    order = list(dict.fromkeys(view.state for view in sorted_views(views)))
    assert (order[0], order[-2:]) == (JobState.RUNNING, [JobState.FAILED, JobState.COMPLETE])
    assert set(order) == set(JobState)


def conditions_named(*kinds: str) -> list[Condition]:
    documents: list[dict[str, Any]] = [condition(kind, "R") for kind in kinds]
    return [msgspec.convert(one, Condition) for one in documents]


def test_conditions_are_kept_in_the_order_of_the_words() -> None:
    mixed = conditions_named("Created", "Stalled", "Waiting", "Suspended", "Blocked")
    assert [one.type for one in in_order(mixed)] == ["Blocked", "Suspended", "Waiting", "Stalled", "Created"]
    kubeflows = conditions_named("Suspended", "Complete")
    assert in_order(kubeflows) == kubeflows


def test_a_report_of_the_pods_before_does_not_make_a_resumed_job_run() -> None:
    world = World()
    starts(world)
    world.job["status"]["trainerStatus"] = {"progressPercentage": 40, "lastUpdatedTime": at(700)}
    assert state_of(msgspec.convert(world.job, TrainJob)).state is JobState.RUNNING
    world.job["status"]["conditions"] = [condition("Suspended", "Resumed", status="False", ago=60)]
    assert state_of(msgspec.convert(world.job, TrainJob)).state is JobState.PENDING
