# SPDX-License-Identifier: Apache-2.0
"""The way from a TrainJob to its JobSet and back, with the two plugins that every job uses."""

from typing import Any

import msgspec
import pytest

from tests import builders
from tests.builders import condition
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.plugins.contract import OFFLINE, ClusterFacts, FactUnavailable, Reference
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in
from trainwright.plugins.testing import runtime, train_job

PIPELINE = Pipeline(Registry.load(candidates=built_in()))
TIME = "2026-01-02T03:04:05Z"
COMPLETED = condition("Completed", at=TIME)
JOBSET = Reference(JobSet.RESOURCE, "team", "job")


def jobset(*, suspend: bool | None = None, status: Any = None, of: str = "u-1") -> JobSet:
    """A JobSet that the TrainJob with the uid `of` controls; `u-1` is the uid of `train_job`."""
    spec: dict[str, Any] = {} if suspend is None else {"suspend": suspend}
    return builders.jobset(name="job", owner=builders.train_job("job", uid=of), status=status, **spec)


def test_the_plain_job_becomes_one_jobset() -> None:
    job = train_job("trainer: {image: mine, numNodes: 2, env: [{name: A, value: ''}]}")

    (component,) = PIPELINE.begin(job, runtime()).render(OFFLINE).components

    assert component.document == {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": "job",
            "namespace": "team",
            "ownerReferences": [
                {
                    "apiVersion": "trainer.kubeflow.org/v1alpha1",
                    "kind": "TrainJob",
                    "name": "job",
                    "uid": "u-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "replicas": 1,
                    "groupName": "default",
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {
                            "parallelism": 2,
                            "completions": 2,
                            "template": {
                                "spec": {
                                    "containers": [
                                        {"name": "node", "image": "mine", "env": [{"name": "A", "value": ""}]}
                                    ]
                                }
                            },
                        },
                    },
                }
            ],
            "suspend": False,
        },
    }


@pytest.mark.parametrize(
    ("suspend", "live", "applied"),
    [
        (False, None, True),
        (True, None, True),
        (True, jobset(suspend=True), True),
        (True, jobset(suspend=False), True),
        (False, jobset(suspend=True), True),
        (None, jobset(suspend=True), True),
        (False, jobset(suspend=False), False),
        (None, jobset(), False),
    ],
)
def test_a_running_jobset_is_left_alone(suspend: bool | None, live: JobSet | None, applied: bool) -> None:
    job = train_job(suspend=suspend)

    rendering = PIPELINE.begin(job, runtime()).render(ClusterFacts({JOBSET: live}))

    assert [component.document["kind"] for component in rendering.components] == ["JobSet"] * applied


@pytest.mark.parametrize("suspend", [False, True])
def test_a_jobset_of_somebody_else_is_neither_believed_nor_passed_over(suspend: bool) -> None:
    # The document comes out whatever the other one's state, so that applying it says that the name is taken.
    facts = ClusterFacts({JOBSET: jobset(suspend=suspend, status={"restarts": 0, "conditions": [COMPLETED]}, of="u-2")})

    (component,) = PIPELINE.begin(train_job(), runtime()).render(facts).components

    assert component.document["kind"] == "JobSet"
    assert PIPELINE.begin_status(train_job()).status(facts) is None


def test_facts_are_announced_and_a_failed_read_can_be_retried() -> None:
    job = train_job()
    facts = ClusterFacts({JOBSET: Unreadable("connection lost")})

    assert JOBSET in PIPELINE.begin(job, runtime()).references()
    with pytest.raises(FactUnavailable, match="JobSet team/job cannot be read: connection lost"):
        PIPELINE.begin(job, runtime()).render(facts)
    with pytest.raises(FactUnavailable, match="not announced"):
        PIPELINE.begin(job, runtime()).render(ClusterFacts())


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([("Completed", "True")], [("Complete", "True")]),
        ([("Failed", "True")], [("Failed", "True")]),
        ([("Suspended", "False"), ("StartupPolicyCompleted", "True"), ("Failed", "False")], []),
    ],
)
def test_terminal_conditions_are_copied_with_their_time(
    conditions: list[tuple[str, str]], expected: list[tuple[str, str]]
) -> None:
    live = jobset(status={"conditions": [condition(type_, status, at=TIME) for type_, status in conditions]})

    status = PIPELINE.begin_status(train_job()).status(ClusterFacts({JOBSET: live}))

    assert status is not None
    assert [(c.type, c.status) for c in status.conditions or ()] == expected
    assert all(c.last_transition_time == TIME and c.reason == "R" for c in status.conditions or ())


def test_counters_are_copied_in_order_and_the_rest_of_the_status_stays() -> None:
    counters = {"ready": 0, "succeeded": 1, "failed": 2, "active": 3, "suspended": 4}
    live = jobset(status={"replicatedJobsStatus": [{"name": name, **counters} for name in ("b", "a")]})
    job = train_job()
    job.status = msgspec.convert({"trainerStatus": {"progressPercentage": 7, "lastUpdatedTime": TIME}}, TrainJobStatus)

    status = PIPELINE.begin_status(job).status(ClusterFacts({JOBSET: live}))

    assert msgspec.to_builtins(status) == {
        "jobsStatus": [{"name": "b", **counters}, {"name": "a", **counters}],
        "trainerStatus": {"progressPercentage": 7, "lastUpdatedTime": TIME},
    }


def test_without_a_jobset_nothing_is_said() -> None:
    assert PIPELINE.begin_status(train_job()).status(ClusterFacts({JOBSET: None})) is None


@pytest.mark.parametrize("containers", [None, []])
def test_a_pod_without_containers_is_left_to_the_api_server_to_refuse(containers: list[object] | None) -> None:
    template = {} if containers is None else {"spec": {"template": {"spec": {"containers": containers}}}}
    made = runtime(template={"spec": {"replicatedJobs": [{"name": "node", "template": template}]}})
    (component,) = PIPELINE.begin(train_job(), made).render(OFFLINE).components
    (replicated,) = component.document["spec"]["replicatedJobs"]
    assert "containers" not in replicated["template"]["spec"]["template"]["spec"]


def test_names_that_a_patch_adds_come_first_as_items_do() -> None:
    metadata = {"finalizers": ["example.com/a", "example.com/b"]}
    job = {"name": "node", "template": {"metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}}}
    patch = {"name": "node", "template": {"metadata": {"finalizers": ["example.com/new", "example.com/b"]}}}
    patches = [{"manager": "example.com/m", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [patch]}}}}]
    made = runtime(template={"spec": {"replicatedJobs": [job]}})
    (component,) = PIPELINE.begin(train_job(runtimePatches=patches), made).render(OFFLINE).components
    found = component.document["spec"]["replicatedJobs"][0]["template"]["metadata"]["finalizers"]
    assert found == ["example.com/new", "example.com/a", "example.com/b"]


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param({"tolerations": []}, {}, [], id="empty-list"),
        pytest.param({"serviceAccountName": "", "nodeSelector": {}}, {}, [], id="empty-text-and-map"),
        pytest.param({"terminationGracePeriodSeconds": 0}, {}, ["spec.runtimePatches"], id="a-zero-that-counts"),
        pytest.param({"nodeSelector": {"a": "b"}}, {}, ["spec.runtimePatches"], id="something"),
    ],
)
def test_a_typed_client_changes_no_patch_of_a_running_job(
    before: dict[str, object], after: dict[str, object], refused: list[str]
) -> None:
    def job(pod: dict[str, object]) -> TrainJob:
        replicated = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
        spec = {"template": {"spec": {"replicatedJobs": replicated}}}
        return train_job(runtimePatches=[{"manager": "example.com/m", "trainingRuntimeSpec": spec}])

    facts = ClusterFacts({JOBSET: None})
    found = PIPELINE.begin(job(after), runtime(), job(before)).validate(facts)
    assert [error.path for error in found.errors] == refused
