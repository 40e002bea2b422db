# SPDX-License-Identifier: Apache-2.0
"""When a job is built again, and when a build would change nothing."""

from typing import Any

import pytest

from tests.builders import train_job
from tests.cases import cases
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import AnyObject
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.trainer.build.objects import BuildMemory, Built
from trainwright.plugins.contract import ClusterFacts, Component, Reference
from trainwright.plugins.contract.facts import Unreadable

CASES = cases(__file__)

JOBSET = Reference(JobSet.RESOURCE, "ns", "job")
SECRET = Reference(Secret.RESOURCE, "ns", "keys")
RUNTIME = build(ClusterTrainingRuntime, "runtime")


def an_object(kind: Any, name: str, *, status: Any = None, **metadata: Any) -> dict[str, Any]:
    resource: Resource = kind.RESOURCE
    made = build(resource, name, "ns", version="1", uid=f"uid-of-{name}", labels={"a": "b"}, status=status)
    made["metadata"] |= {"generation": 1, **metadata}
    return made


def a_job(**metadata: Any) -> TrainJob:
    job = train_job("job", "ns", uid="uid", version="1", meta={"generation": 1})
    for name, value in metadata.items():
        setattr(job.metadata, name, value)
    return job


def built() -> tuple[Built, TrainJob, ClusterFacts]:
    job, facts = a_job(), ClusterFacts({JOBSET: an_object(JobSet, "job")})
    return Built.of(job, RUNTIME, facts, {SECRET: an_object(Secret, "keys", generation=None)}), job, facts


def found(_: Reference) -> AnyObject | None:
    return an_object(Secret, "keys", generation=None)


def is_current(last: Built, job: TrainJob, runtime: Any, facts: ClusterFacts, find: Any) -> bool:
    return last.is_of(job) and last.runtime is runtime and last.is_current(facts, find)


def test_a_refused_document_is_refused_again_and_another_one_is_tried() -> None:
    memory = BuildMemory()
    refused = Component(resource=JobSet.RESOURCE, document=an_object(JobSet, "job"))
    other = Component(resource=JobSet.RESOURCE, document=an_object(JobSet, "job", labels={}))
    assert not memory.was_refused(refused)
    memory.remember_refusal(refused)
    assert memory.was_refused(refused)
    assert not memory.was_refused(other)


def test_a_build_is_current_while_only_statuses_change() -> None:
    last, _, _ = built()
    facts = ClusterFacts({JOBSET: an_object(JobSet, "job", resourceVersion="2", status={"restarts": 1})})
    job = a_job(resource_version="2")
    assert last.references == (JOBSET,)
    assert is_current(last, job, RUNTIME, facts, found)


@pytest.mark.parametrize("changed", CASES["a_changed_job_is_built_again"])
def test_a_changed_job_is_built_again(changed: dict[str, Any]) -> None:
    last, _, facts = built()
    assert not last.is_of(a_job(**changed))
    assert not is_current(last, a_job(**changed), RUNTIME, facts, found)


def test_another_runtime_is_built_again() -> None:
    last, job, facts = built()
    assert not is_current(last, job, RUNTIME.deepcopy(), facts, found)


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
    last, job, _ = built()
    assert not is_current(last, job, RUNTIME, ClusterFacts({JOBSET: fact}), found)


def test_what_could_not_be_read_is_never_as_it_was() -> None:
    job, facts = a_job(), ClusterFacts({JOBSET: Unreadable("no")})
    last = Built.of(job, RUNTIME, facts, {})
    assert not is_current(last, job, RUNTIME, facts, found)


@pytest.mark.parametrize("live", [None, an_object(Secret, "keys", generation=None, resourceVersion="2")])
def test_a_changed_object_is_built_again(live: Any) -> None:
    last, job, facts = built()
    assert not is_current(last, job, RUNTIME, facts, lambda _: live)


def settled_build(*settled: Reference) -> tuple[Built, TrainJob]:
    job = a_job()
    return Built.of(job, RUNTIME, ClusterFacts({JOBSET: None}), {JOBSET: an_object(JobSet, "job")}, settled), job


def test_what_a_build_has_created_is_no_change_if_its_plugin_says_so() -> None:
    last, job = settled_build(JOBSET)
    created, changed = an_object(JobSet, "job"), an_object(JobSet, "job", generation=2)
    assert is_current(last, job, RUNTIME, ClusterFacts({JOBSET: created}), lambda _: created)
    assert not is_current(last, job, RUNTIME, ClusterFacts({JOBSET: changed}), lambda _: changed)
    assert not is_current(last, job, RUNTIME, ClusterFacts({JOBSET: None}), lambda _: None)


def test_what_a_build_has_created_is_a_changed_fact_if_its_plugin_says_nothing() -> None:
    last, job = settled_build()
    created = an_object(JobSet, "job")
    assert not is_current(last, job, RUNTIME, ClusterFacts({JOBSET: created}), lambda _: created)


def test_what_a_build_has_created_and_somebody_has_deleted_is_made_again() -> None:
    # A gang's PodGroup: absent when the job was built, made, and deleted before the job was built again.
    last, job = settled_build()
    assert not is_current(last, job, RUNTIME, ClusterFacts({JOBSET: None}), lambda _: None)


@pytest.mark.parametrize("settled", [(), (JOBSET,)])
def test_what_a_build_has_changed_is_not_as_it_was_seen(settled: tuple[Reference, ...]) -> None:
    # Somebody changed a label, the build put it right, and somebody changes it in the same way again.
    job, seen = a_job(), an_object(JobSet, "job", labels={"a": "theirs"})
    last = Built.of(job, RUNTIME, ClusterFacts({JOBSET: seen}), {JOBSET: an_object(JobSet, "job")}, settled)
    assert not is_current(last, job, RUNTIME, ClusterFacts({JOBSET: seen}), lambda _: seen)


def test_what_a_build_has_found_as_it_should_be_is_no_change() -> None:
    job, seen = a_job(), an_object(JobSet, "job")
    last = Built.of(job, RUNTIME, ClusterFacts({JOBSET: seen}), {JOBSET: seen})
    assert is_current(last, job, RUNTIME, ClusterFacts({JOBSET: seen}), lambda _: seen)


@pytest.mark.parametrize("facts", [ClusterFacts(), ClusterFacts({SECRET: None})])
def test_what_the_cache_does_not_hold_is_looked_at_again(facts: ClusterFacts) -> None:
    # A Secret of somebody else is used as it is; nothing shows when it is deleted.
    job = a_job()
    last = Built.of(job, RUNTIME, facts, {SECRET: None})
    assert not is_current(last, job, RUNTIME, facts, lambda _: None)
