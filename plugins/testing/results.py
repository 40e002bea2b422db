# SPDX-License-Identifier: Apache-2.0
"""One run of the pipeline, with shortcuts to what tests look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import (
    OFFLINE,
    ClusterFacts,
    Component,
    FollowsTransitions,
    JobState,
    Plugin,
    Runtime,
    Verdict,
)
from trainwright.plugins.pipeline import Pipeline, Rendering
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing.builders import in_state, train_job
from trainwright.plugins.testing.builders import runtime as default_runtime


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
    job, runtime = job or train_job(), runtime or default_runtime()
    begun = pipeline.begin(job, runtime, old)
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
    cast("FollowsTransitions", entry.plugin).on_transition(told, old, new)
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
