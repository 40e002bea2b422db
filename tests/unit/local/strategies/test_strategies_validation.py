# SPDX-License-Identifier: Apache-2.0
"""Errors that users meet, without a real server; tests/integration/local/test_built_in_kinds.py has many more."""

import copy
from typing import Any

import pytest

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.kinds.jobs import IndexesError, JobStrategy, count_indexes
from trainwright.controller.local.apiserver.kinds.pods import PodStrategy
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds

Document = dict[str, Any]

PODS = PodStrategy(recorded_kinds()["v1", "Pod"])
JOBS = JobStrategy(recorded_kinds()["batch/v1", "Job"])


def created(strategy: Strategy, spec: Document) -> Document:
    made: Document = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": copy.deepcopy(spec)}
    strategy.default(made)
    strategy.prepare_for_create(made)
    return made


def changed(strategy: Strategy, old: Document, change: Document, subresource: str = "") -> list[str]:
    new = copy.deepcopy(old)
    for path, value in change.items():
        *steps, last = path.split(".")
        here: Any = new
        for step in steps:
            here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
        here[last] = value
    strategy.default(new)
    strategy.prepare_for_update(new, old, subresource)
    return told(strategy.validate_update(new, old, subresource))


def told(errors: list[DocumentError]) -> list[str]:
    """Reason and field of each error; sentences are the server's own."""
    return [f"{error.reason.removeprefix('FieldValue')} {error.field}" for error in errors]


def pod_spec(*containers: Document, **fields: Any) -> Document:
    named = [{"name": f"c{index}", "image": "i:1", **one} for index, one in enumerate(containers or ({},))]
    return {"containers": named, **fields}


def job_spec(**fields: Any) -> Document:
    return {"template": {"spec": pod_spec(restartPolicy="Never")}, **fields}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (pod_spec(), []),
        ({"containers": []}, ["Required spec.containers"]),
        (
            {"containers": [{}]},
            ["Required spec.containers[0].name", "Required spec.containers[0].image"],
        ),
        (pod_spec({"name": "a"}, {"name": "a"}), ["Duplicate spec.containers[1].name"]),
        (
            pod_spec({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            ["NotFound spec.containers[0].volumeMounts[0].name"],
        ),
        (
            pod_spec({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}),
            ["Invalid spec.containers[0].resources.requests"],
        ),
        (
            pod_spec({"resources": {"requests": {"example.com/gpu": 1}}}),
            ["Required spec.containers[0].resources.limits"],
        ),
        (
            pod_spec(restartPolicy="Sometimes"),
            ["NotSupported spec.restartPolicy"],
        ),
        (
            pod_spec({"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            ["Invalid spec.containers[0].env[0].valueFrom"],
        ),
        (
            pod_spec(volumes=[{"name": "v", "emptyDir": {}, "configMap": {"name": "c"}}]),
            ["Forbidden spec.volumes[0].configMap"],
        ),
        (
            pod_spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            ["Invalid spec.tolerations[0].operator"],
        ),
        (
            pod_spec(activeDeadlineSeconds=0),
            ["Invalid spec.activeDeadlineSeconds"],
        ),
    ],
)
def test_new_pods(spec: Document, errors: list[str]) -> None:
    pod = created(PODS, spec)
    assert told(PODS.validate(pod)) == errors


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"spec.containers.0.image": "j"}, []),
        ({"spec.activeDeadlineSeconds": 5}, []),
        ({"spec.tolerations": [{"key": "a", "operator": "Exists"}]}, []),
        ({"spec.containers": []}, ["Required spec.containers"]),
        (
            {"spec.nodeName": "n"},
            ["Forbidden spec"],
        ),
        (
            {"spec.schedulingGates": [{"name": "g"}]},
            ["Forbidden spec.schedulingGates[0].name"],
        ),
    ],
)
def test_changed_pods(change: Document, errors: list[str]) -> None:
    found = changed(PODS, created(PODS, pod_spec()), change)
    assert found[: len(errors)] == errors
    assert bool(found) == bool(errors)


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (job_spec(), []),
        (
            {"template": {"spec": pod_spec()}},
            ["Required spec.template.spec.restartPolicy"],
        ),
        (
            job_spec(completionMode="Indexed", parallelism=1),
            ["Required spec.completions"],
        ),
        (job_spec(parallelism=-1), ["Invalid spec.parallelism"]),
        (
            job_spec(managedBy="me"),
            ["Invalid spec.managedBy"],
        ),
        (
            job_spec(podFailurePolicy={"rules": [{"action": "FailJob"}]}),
            ["Invalid spec.podFailurePolicy.rules[0]"],
        ),
    ],
)
def test_new_jobs(spec: Document, errors: list[str]) -> None:
    job = created(JOBS, spec)
    assert told(JOBS.validate(job)) == errors


IMAGE = "spec.template.spec.containers.0.image"
SELECTOR = "spec.template.spec.nodeSelector"
RESOURCES = "spec.template.spec.containers.0.resources"


@pytest.mark.parametrize(
    ("spec", "status", "path", "value", "field"),
    [
        ({}, {}, "spec.suspend", True, ""),
        ({}, {}, IMAGE, "j", "spec.template"),
        ({}, {}, "spec.template.metadata.labels.a", "b", "spec.template"),
        ({"suspend": True}, {}, IMAGE, "j", "spec.template.spec"),
        ({"suspend": True}, {}, SELECTOR, {"a": "b"}, ""),
        ({"suspend": True}, {}, RESOURCES, {"limits": {"cpu": 1}}, ""),
        ({"suspend": True}, {}, "spec.template.metadata.labels.a", "b", ""),
        # It ran before and is not known to be suspended yet.
        ({"suspend": True}, {"startTime": "2026-01-01T00:00:00Z"}, SELECTOR, {"a": "b"}, "spec.template"),
        ({"suspend": True}, {"active": 1}, SELECTOR, {"a": "b"}, "spec.template"),
        (
            {"suspend": True},
            {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]},
            SELECTOR,
            {"a": "b"},
            "",
        ),
    ],
)
def test_the_template_of_a_job(spec: Document, status: Document, path: str, value: Any, field: str) -> None:
    old = created(JOBS, job_spec(**spec))
    old["status"] = status
    found = changed(JOBS, old, {path: value})
    assert set(found) == ({f"Invalid {field}"} if field else set())


def test_an_indexed_job_is_scaled_in_tandem() -> None:
    old = created(JOBS, job_spec(completionMode="Indexed", completions=3, parallelism=3))
    assert changed(JOBS, old, {"spec.completions": 5, "spec.parallelism": 5}) == []
    assert changed(JOBS, old, {"spec.completions": 5}) == ["Invalid spec.completions"]


def test_what_is_not_changed_in_a_status_is_not_checked() -> None:
    old = created(JOBS, job_spec())
    old["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert changed(JOBS, old, {"status.succeeded": 1}, "status") == []
    assert "Invalid status.conditions" in changed(JOBS, old, {"status.conditions": []}, "status")


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("0,2-4", 4)])
def test_indexes(text: str, count: int) -> None:
    assert count_indexes(text, 5) == count


@pytest.mark.parametrize("text", ["5", "a", "1-2-3", "2-1", "1,1", "-1", ","])
def test_bad_indexes(text: str) -> None:
    with pytest.raises(IndexesError):
        count_indexes(text, 5)
