# SPDX-License-Identifier: Apache-2.0
"""TrainJobs and runtimes for tests.

For a test without a cluster, from a few lines of YAML, with the defaults that the API server sets; for one on a
cluster, in wire form.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import msgspec
import yaml

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.plugins.contract import JobState

_MOMENT = "2026-01-01T00:00:00Z"

RUNTIME = """
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [{name: node, image: base}]}}}
"""
"""The smallest runtime with a policy: one trainer job with one container."""


def train_job(spec: str = "", *, metadata: dict[str, Any] | None = None, **fields: Any) -> TrainJob:
    """A stored TrainJob `job` in namespace `team` that refers to `runtime()`.

    The spec is YAML, keywords in wire form (`runtimePatches=[...]`), or both.
    """
    whole = {
        "runtimeRef": {"name": "blueprint", "kind": "TrainingRuntime"},
        **(deepcopy(_read(spec) or {})),
        **fields,
    }
    stored = {"name": "job", "namespace": "team", "uid": "u-1", **(metadata or {})}
    job = msgspec.convert({"metadata": stored, "spec": whole}, TrainJob)
    job.set_defaults()
    return job.typed()


def in_state(job: TrainJob, state: JobState, *, reason: str = "Because") -> TrainJob:
    """A copy of the job whose status shows the state."""
    conditions: list[dict[str, Any]] = []
    if state not in {JobState.RUNNING, JobState.PENDING}:
        told = {"type": state, "status": "True", "reason": reason, "message": "so", "lastTransitionTime": _MOMENT}
        conditions.append(told)
    pods = {"active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}
    jobs = [{"name": "node", **pods}] if state is JobState.RUNNING else []
    changed = job.deepcopy()
    changed.status = msgspec.convert({"conditions": conditions, "jobsStatus": jobs}, TrainJobStatus)
    return changed


def runtime(text: str = RUNTIME, *, metadata: dict[str, Any] | None = None, **fields: Any) -> TrainingRuntime:
    """A TrainingRuntime `blueprint` in namespace `team` from YAML; keywords replace fields of its spec."""
    document = deepcopy(_read(text))
    spec = {**document["spec"], **fields}
    stored = {"name": "blueprint", "namespace": "team", **(document.get("metadata") or {}), **(metadata or {})}
    made = msgspec.convert({"metadata": stored, "spec": spec}, TrainingRuntime)
    made.set_defaults()
    return made.typed()


def replicated_job(
    name: str = NODE, pod: Mapping[str, Any] | None = None, *, step: str = "", **job: Any
) -> dict[str, Any]:
    """A job of the template of a runtime, in wire form.

    Args:
        name: of the job, and of its container unless `pod` has containers of its own.
        pod: fields of the spec of its pods.
        step: of the TrainJob that it runs, such as `trainer`, which is that of `node` by itself; others have none.
        job: further fields of the Job's spec, such as `backoffLimit`.
    """
    step = step or (STEP_TRAINER if name == NODE else "")
    labels = {"metadata": {"labels": {LABEL_ANCESTOR_STEP: step}}} if step else {}
    pods = {"spec": {"containers": [{"name": name, "image": "example.com/none"}], **(pod or {})}}
    return {"name": name, "template": {**labels, "spec": {"template": pods, **job}}}


def runtime_document(
    name: str,
    *jobs: Mapping[str, Any],
    namespace: str = "default",
    policy: Mapping[str, Any] | None = None,
    jobset: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A runtime in wire form, to be created in a cluster: a TrainingRuntime, or a cluster's if `namespace` is empty.

    Args:
        name: of the runtime.
        jobs: of its template, such as `replicated_job` makes; none: one `node` with one container.
        namespace: of the runtime.
        policy: further fields of `mlPolicy`, beside one node.
        jobset: further fields of the JobSet's spec, such as `failurePolicy`.
        spec: further fields of the runtime's spec.
    """
    template = {"spec": {"replicatedJobs": list(jobs) or [replicated_job()], **(jobset or {})}}
    return {
        "apiVersion": TrainingRuntime.RESOURCE.api_version,
        "kind": (TrainingRuntime if namespace else ClusterTrainingRuntime).RESOURCE.kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": {"mlPolicy": {"numNodes": 1, **(policy or {})}, "template": template, **spec},
    }


@cache
def _read(text: str) -> Any:
    """What the YAML says. A suite builds hundreds of objects from a few texts, and reading one is most of the work."""
    return yaml.safe_load(text)
