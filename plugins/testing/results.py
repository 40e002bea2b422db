# SPDX-License-Identifier: Apache-2.0
"""TrainJobs and runtimes for tests, and one run of the pipeline on them.

For a test without a cluster, objects come from a few lines of YAML, with the defaults that the API server sets; for one
on a cluster, in wire form.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import yaml

from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.plugins.contract import OFFLINE, ClusterFacts, Component, JobState, Plugin, Runtime
from trainwright.plugins.contract.errors import Verdict
from trainwright.plugins.pipeline import Pipeline, Rendering
from trainwright.plugins.registry import Registry, Selection, built_in


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a job and the objects that it became."""

    verdict: Verdict
    rendering: Rendering

    def component(self, kind: str, name: str | None = None) -> Component:
        """The component of that kind (and name). Raises LookupError with a list of all components."""
        for component in self.rendering.components:
            reference = component.reference
            if reference.resource.kind == kind and name in (None, reference.name):
                return component
        there = ", ".join(f"{c.resource.kind} {c.reference.name}" for c in self.rendering.components) or "nothing"
        raise LookupError(f"no {kind} {name or ''}: the pipeline built {there}")

    def object(self, kind: str, name: str | None = None) -> Document:
        """The document of that kind (and name). Raises LookupError."""
        return self.component(kind, name).document

    def replicated_job(self, name: str = "node") -> Document:
        """One replicated job of the JobSet. Raises LookupError."""
        jobs: list[Document] = self.object("JobSet")["spec"]["replicatedJobs"]
        return _named(jobs, name)

    def pod(self, job: str = "node") -> Document:
        """The pod spec of a replicated job. Raises LookupError."""
        spec: Document = self.replicated_job(job)["template"]["spec"]["template"]["spec"]
        return spec

    def container(self, job: str = "node", name: str = "node") -> Document:
        """A container, regular or init. Raises LookupError."""
        pod = self.pod(job)
        return _named([*pod.get("containers", []), *pod.get("initContainers", [])], name)

    def env(self, job: str = "node", container: str = "node") -> Mapping[str, Any]:
        """The variables of a container, in order: literal values, or the source as a dictionary."""
        variables = self.container(job, container).get("env", [])
        return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in variables}


def run(
    *plugins: Plugin,
    job: TrainJob | None = None,
    runtime: Runtime | None = None,
    facts: ClusterFacts = OFFLINE,
    old: TrainJob | None = None,
) -> Result:
    """Validate and render with these plugins, and the JobSet plugin if none of them builds JobSets.

    Raises RegistryError, PipelineError or FactUnavailable, like the manager.
    """
    pipeline = Pipeline(Registry.of(*_with_jobset(plugins)))
    begun = pipeline.begin(job or train_job(), runtime or _default_runtime(), old)
    return Result(begun.validate(facts), begun.render(facts))


def transition(
    plugin: Plugin, old: JobState, new: JobState, *, job: TrainJob | None = None, reason: str = "Because"
) -> TrainJob:
    """Tell a plugin that a job has changed its state, in this thread; returns the job that it got.

    The job is a copy whose status shows the new state, with `reason` where the state comes from a condition. What the
    plugin raises is raised here; the manager logs it. Raises RegistryError, like the manager.
    """
    (entry,) = Registry.of(plugin).having("on_transition")
    told = in_state(job or train_job(), new, reason=reason)
    entry.hook("on_transition")(told, old, new)
    return told


def _with_jobset(plugins: tuple[Plugin, ...]) -> tuple[Plugin, ...]:
    if any(plugin.name == "JobSet" for plugin in plugins):
        return plugins
    (jobset,) = Registry.load(Selection(only=frozenset({"JobSet"})), built_in())
    return (*plugins, jobset.plugin)


def _named(items: list[Document], name: str) -> Document:
    for item in items:
        if item["name"] == name:
            return item
    raise LookupError(f"no {name!r} among {', '.join(item['name'] for item in items) or 'nothing'}")


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
    if state not in {JobState.RUNNING, JobState.PENDING, JobState.DELETING}:
        told = {"type": state, "status": "True", "reason": reason, "message": "so", "lastTransitionTime": _MOMENT}
        conditions.append(told)
    pods = {"active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}
    jobs = [{"name": "node", **pods}] if state is JobState.RUNNING else []
    changed = job.deepcopy()
    if state is JobState.DELETING:
        changed.metadata = msgspec.structs.replace(changed.metadata_or_empty, deletion_timestamp=_MOMENT)
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


_default_runtime = runtime  # `run` has an argument of that name


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
