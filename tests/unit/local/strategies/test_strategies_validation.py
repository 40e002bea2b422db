# SPDX-License-Identifier: Apache-2.0
"""Errors that users meet, without a real server; tests/integration/local/test_built_in_kinds.py has many more."""

import copy
from typing import Any

import pytest

from trainwright.controller.local.apiserver.kinds.builtin.jobs.indexes import IndexesError, count_indexes, overlap
from trainwright.controller.local.apiserver.kinds.builtin.jobs.strategy import JobStrategy
from trainwright.controller.local.apiserver.kinds.builtin.pods.strategy import PodStrategy
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds

Document = dict[str, Any]

PODS = PodStrategy(recorded_kinds()["v1", "Pod"])
JOBS = JobStrategy(recorded_kinds()["batch/v1", "Job"])


NO_OTHER_FIELDS = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
NO_CONDITION = (
    "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
)


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
    return [str(error).partition("\n")[0] for error in strategy.validate_update(new, old, subresource)]


def pod_spec(*containers: Document, **fields: Any) -> Document:
    named = [{"name": f"c{index}", "image": "i:1", **one} for index, one in enumerate(containers or ({},))]
    return {"containers": named, **fields}


def job_spec(**fields: Any) -> Document:
    return {"template": {"spec": pod_spec(restartPolicy="Never")}, **fields}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (pod_spec(), []),
        ({"containers": []}, ["spec.containers: Required value"]),
        (
            {"containers": [{}]},
            ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        (pod_spec({"name": "a"}, {"name": "a"}), ['spec.containers[1].name: Duplicate value: "a"']),
        (
            pod_spec({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            pod_spec({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}),
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            pod_spec({"resources": {"requests": {"example.com/gpu": 1}}}),
            ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            pod_spec(restartPolicy="Sometimes"),
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (
            pod_spec({"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
        ),
        (
            pod_spec(volumes=[{"name": "v", "emptyDir": {}, "configMap": {"name": "c"}}]),
            ["spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            pod_spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            ["spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            pod_spec(activeDeadlineSeconds=0),
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
    ],
)
def test_new_pods(spec: Document, errors: list[str]) -> None:
    pod = created(PODS, spec)
    assert [str(error) for error in PODS.validate(pod)] == errors


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"spec.containers.0.image": "j"}, []),
        ({"spec.activeDeadlineSeconds": 5}, []),
        ({"spec.tolerations": [{"key": "a", "operator": "Exists"}]}, []),
        ({"spec.containers": []}, ["spec.containers: Required value"]),
        (
            {"spec.nodeName": "n"},
            [NO_OTHER_FIELDS],
        ),
        (
            {"spec.schedulingGates": [{"name": "g"}]},
            ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"],
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
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
        ),
        (
            job_spec(completionMode="Indexed", parallelism=1),
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (job_spec(parallelism=-1), ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        (
            job_spec(managedBy="me"),
            ['spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
        (
            job_spec(podFailurePolicy={"rules": [{"action": "FailJob"}]}),
            [NO_CONDITION],
        ),
    ],
)
def test_new_jobs(spec: Document, errors: list[str]) -> None:
    job = created(JOBS, spec)
    assert [str(error) for error in JOBS.validate(job)] == errors


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
    assert bool(found) == bool(field)
    assert all(error.startswith(f"{field}: Invalid value: ") for error in found)
    assert all(error.endswith(": field is immutable") for error in found)


def test_an_indexed_job_is_scaled_in_tandem() -> None:
    old = created(JOBS, job_spec(completionMode="Indexed", completions=3, parallelism=3))
    assert changed(JOBS, old, {"spec.completions": 5, "spec.parallelism": 5}) == []
    assert changed(JOBS, old, {"spec.completions": 5}) == [
        "spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"
    ]


def test_what_is_not_changed_in_a_status_is_not_checked() -> None:
    old = created(JOBS, job_spec())
    old["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert changed(JOBS, old, {"status.succeeded": 1}, "status") == []
    assert changed(JOBS, old, {"status.conditions": []}, "status") == [
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition"
    ]


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("0,2-4", 4)])
def test_indexes(text: str, count: int) -> None:
    assert count_indexes(text, 5) == count


@pytest.mark.parametrize("text", ["5", "a", "1-2-3", "2-1", "1,1", "-1", ","])
def test_bad_indexes(text: str) -> None:
    with pytest.raises(IndexesError):
        count_indexes(text, 5)


def test_overlapping_indexes() -> None:
    assert overlap("0-2", "4", 5) is None
    assert overlap("0-2", "2-3", 5) == 2
    assert overlap("x", "2", 5) is None
