# SPDX-License-Identifier: Apache-2.0
"""Small pods, Jobs, JobSets and nodes for tables of decisions."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cases import cases
from trainwright.api.objects import Document
from trainwright.api.times import format_time

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
TRACKING = "batch.kubernetes.io/job-tracking"


def at(seconds: float) -> str:
    """The time so many seconds after now, in wire form."""
    return format_time(NOW + timedelta(seconds=seconds))


def pod(
    name: str = "pod",
    phase: str = "Running",
    *,
    index: int | None = None,
    ready: bool = True,
    deleted: bool = False,
    tracked: bool = True,
    code: int | None = None,
    ended: float = 0,
    restarts: int = 0,
    node: str = "laptop",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    conditions: list[Document] | None = None,
    cpu: str = "1",
    spec: Document | None = None,
) -> Document:
    """A pod of a Job, or any other."""
    notes = dict(annotations or {})
    if index is not None:
        notes["batch.kubernetes.io/job-completion-index"] = str(index)
    metadata: Document = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "labels": labels or {},
        "annotations": notes,
        "finalizers": [TRACKING] if tracked else [],
        "creationTimestamp": at(-60),
    }
    if deleted:
        metadata |= {"deletionTimestamp": at(0), "deletionGracePeriodSeconds": 0}
    state: Document = {"running": {}}
    if phase in ("Succeeded", "Failed"):
        exit_code = code if code is not None else int(phase == "Failed")
        state = {"terminated": {"exitCode": exit_code, "finishedAt": at(ended)}}
    is_ready = "True" if ready and phase == "Running" else "False"
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container], **(spec or {})},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": is_ready}, *(conditions or ())],
            "containerStatuses": [{"name": "main", "restartCount": restarts, "state": state}],
        },
    }


def job(name: str = "job", status: Document | None = None, *, deleted: bool = False, **spec: Any) -> Document:
    """A Job as the API server stores it."""
    metadata: Document = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    if deleted:
        metadata["deletionTimestamp"] = at(0)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}
    defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template}
    return {"metadata": metadata, "spec": {**defaults, **spec}, "status": status or {}}


def condition(type_: str, reason: str = "", status: str = "True", since: float = 0, message: str = "") -> Document:
    """A condition."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(since)}


def replicated(name: str = "node", replicas: int = 1, **fields: Any) -> Document:
    """A replicated job as JobSet's webhook leaves it."""
    spec = {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": {"spec": {"containers": []}}}
    return {"name": name, "replicas": replicas, "groupName": "default", "template": {"spec": spec}, **fields}


def jobset(*jobs: Document, status: Document | None = None, name: str = "set", **spec: Any) -> Document:
    """A JobSet as JobSet's webhook leaves it."""
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {"successPolicy": {"operator": "All"}, "replicatedJobs": list(jobs), **spec},
        "status": status or {},
    }


def child(
    name: str,
    parent: str = "node",
    attempt: int = 0,
    *,
    conditions: list[Document] | None = None,
    deleted: bool = False,
    suspend: bool = False,
    **status: Any,
) -> Document:
    """A Job of a JobSet."""
    made = job(name, {**status, "conditions": conditions or []}, deleted=deleted, suspend=suspend)
    made["metadata"]["labels"] = {
        "jobset.sigs.k8s.io/replicatedjob-name": parent,
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    made["metadata"]["resourceVersion"] = "7"
    return made


def node(name: str = "laptop", labels: dict[str, str] | None = None, cpu: str = "4", **spec: Any) -> Document:
    """A node."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "3"}},
    }


_MADE: Mapping[str, Callable[..., Any]] = {
    "at": at,
    "pod": lambda given: pod(**given),
    "job": lambda given: job(**given),
    "condition": lambda given: condition(**given),
    "replicated": lambda given: replicated(**given),
    "jobset": lambda given: jobset(*given.pop("jobs", ()), **given),
    "child": lambda given: child(**given),
    "node": lambda given: node(**given),
}


def made_cases(test_file: str) -> dict[str, Any]:
    """The cases of a file of tests. `{"pod": {"name": "a"}}` stands for `pod(name="a")`, as does any function here."""
    found: dict[str, Any] = _made(cases(test_file))
    return found


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(one) for one in value]
    if not isinstance(value, dict):
        return value
    parts = {name: _made(part) for name, part in value.items()}
    name = next(iter(parts), "")
    return _MADE[name](parts[name]) if len(parts) == 1 and name in _MADE else parts
