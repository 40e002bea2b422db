# SPDX-License-Identifier: Apache-2.0
"""When a job is built again, and when a build would change nothing."""

from typing import Any

import pytest

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.runtime import Key
from trainwright.controller.runtime.objects import AnyObject
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.trainer.builds import Builds
from trainwright.plugins.contract import ClusterFacts, Reference, Unreadable

JOBSET = Reference(JobSet.RESOURCE, "ns", "job")
SECRET = Reference(Secret.RESOURCE, "ns", "keys")
RUNTIME = build(ClusterTrainingRuntime, "runtime")


def an_object(kind: Any, name: str, *, status: Any = None, **metadata: Any) -> dict[str, Any]:
    made = {"uid": f"uid-of-{name}", "resourceVersion": "1", "generation": 1, "labels": {"a": "b"}}
    document: dict[str, Any] = {
        "apiVersion": kind.RESOURCE.api_version,
        "kind": kind.RESOURCE.kind,
        "metadata": {"name": name, "namespace": "ns", **made, **metadata},
    }
    if status is not None:
        document["status"] = status
    return document


def a_job(**metadata: Any) -> TrainJob:
    job = build(TrainJob, "job", namespace="ns")
    assert job.metadata is not None
    job.metadata.uid, job.metadata.generation, job.metadata.resource_version = "uid", 1, "1"
    for name, value in metadata.items():
        setattr(job.metadata, name, value)
    return job


def built() -> tuple[Builds, TrainJob, ClusterFacts]:
    builds, job, facts = Builds(), a_job(), ClusterFacts({JOBSET: an_object(JobSet, "job")})
    builds.keep(job, RUNTIME, facts, {SECRET: an_object(Secret, "keys", generation=None)})
    return builds, job, facts


def found(_: Reference) -> AnyObject | None:
    return an_object(Secret, "keys", generation=None)


def is_current(builds: Builds, job: TrainJob, runtime: Any, facts: ClusterFacts, find: Any) -> bool:
    last = builds.of(job, runtime)
    return last is not None and last.is_current(facts, find)


def test_a_job_that_was_not_built_has_no_build() -> None:
    builds, _, facts = Builds(), a_job(), ClusterFacts({})
    assert builds.of(a_job(), RUNTIME) is None
    assert not is_current(builds, a_job(), RUNTIME, facts, found)


def test_a_build_is_current_while_only_statuses_change() -> None:
    builds, _, _ = built()
    facts = ClusterFacts({JOBSET: an_object(JobSet, "job", resourceVersion="2", status={"restarts": 1})})
    job = a_job(resource_version="2")
    last = builds.of(job, RUNTIME)
    assert last is not None
    assert last.references == (JOBSET,)
    assert is_current(builds, job, RUNTIME, facts, found)


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": 2},
        {"uid": "another"},
        {"labels": {"x": "y"}},
        {"annotations": {"x": "y"}},
        {"finalizers": ["x/y"]},
        {"deletion_timestamp": "2026-01-02T03:04:05Z"},
    ],
)
def test_a_changed_job_is_built_again(changed: dict[str, Any]) -> None:
    builds, _, facts = built()
    assert builds.of(a_job(**changed), RUNTIME) is None
    assert not is_current(builds, a_job(**changed), RUNTIME, facts, found)


def test_another_runtime_is_built_again() -> None:
    builds, job, facts = built()
    assert not is_current(builds, job, RUNTIME.deepcopy(), facts, found)


@pytest.mark.parametrize(
    "fact",
    [
        None,
        Unreadable("no"),
        an_object(JobSet, "job", generation=2),
        an_object(JobSet, "job", uid="another"),
        an_object(JobSet, "job", labels={}),
        an_object(JobSet, "job", ownerReferences=[{"kind": "X", "name": "x", "uid": "x", "apiVersion": "v1"}]),
    ],
)
def test_a_changed_fact_is_built_again(fact: Any) -> None:
    builds, job, _ = built()
    assert not is_current(builds, job, RUNTIME, ClusterFacts({JOBSET: fact}), found)


def test_what_could_not_be_read_is_never_as_it_was() -> None:
    builds, job, facts = Builds(), a_job(), ClusterFacts({JOBSET: Unreadable("no")})
    builds.keep(job, RUNTIME, facts, {})
    assert not is_current(builds, job, RUNTIME, facts, found)


@pytest.mark.parametrize("live", [None, an_object(Secret, "keys", generation=None, resourceVersion="2")])
def test_a_changed_object_is_built_again(live: Any) -> None:
    builds, job, facts = built()
    assert not is_current(builds, job, RUNTIME, facts, lambda _: live)


def test_a_forgotten_build_is_done_again() -> None:
    builds, job, facts = built()
    builds.forget(Key("ns", "job"))
    assert not is_current(builds, job, RUNTIME, facts, found)
