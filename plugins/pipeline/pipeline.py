# SPDX-License-Identifier: Apache-2.0
"""The phases between a TrainJob and its objects, and back from its objects to its status.

A pure function of its inputs: job, runtime, facts. Admission, reconcile, `render` and tests run this one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.plugins.contract import (
    ClusterFacts,
    Component,
    Conflict,
    DuplicateObject,
    ErrorType,
    FactUnavailable,
    FieldError,
    Finding,
    Info,
    PipelineError,
    PluginFailure,
    Reference,
    Refusal,
    Runtime,
    Setting,
    Verdict,
    Warned,
)
from trainwright.plugins.pipeline.guard import Guard
from trainwright.plugins.pipeline.template import resolve
from trainwright.plugins.registry import Loaded, Registry

SHAPING = ("enforce_ml_policy", "enforce_pod_group_policy", "enforce_pod_spec", "prepare_components")
"""The hooks that change the model, in their order."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a job becomes."""

    components: tuple[Component, ...]
    """In the order in which they are to be applied: ConfigMaps and Secrets, PodGroups, others, the JobSet."""
    settings: tuple[Setting, ...]
    """Who set which value, and why."""
    conflicts: tuple[Conflict, ...]
    """Values that plugins and users wanted to be different."""


class Pipeline:
    """Runs the plugins of a registry. Has no state of its own: one instance serves any number of jobs."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def references(self, job: TrainJob, runtime: Runtime) -> tuple[Reference, ...]:
        """The objects that plugins must know of for this job: look each up and put the answers into `ClusterFacts`.

        Raises PipelineError.
        """
        guard = Guard(job, runtime)
        return self._announced(guard, "uses_facts", guard.job, guard.runtime)

    def admission_references(self, job: TrainJob, runtime: Runtime) -> tuple[Reference, ...]:
        """The same for `validate`: what a build would have to know of, and what only admission does.

        Raises PipelineError.
        """
        guard = Guard(job, runtime)
        more = self._announced(guard, "validation_facts", guard.job, guard.runtime)
        return tuple(dict.fromkeys((*self._announced(guard, "uses_facts", guard.job, guard.runtime), *more)))

    def status_references(self, job: TrainJob) -> tuple[Reference, ...]:
        """The same for `status`, which needs no runtime: one may be gone long before its jobs are.

        Raises PipelineError.
        """
        guard = Guard(job)
        return self._announced(guard, "status_facts", guard.job)

    def validate(self, job: TrainJob, runtime: Runtime, facts: ClusterFacts, *, old: TrainJob | None = None) -> Verdict:
        """Every field error and warning of every plugin; `old` is the TrainJob before an update.

        Never raises for what a plugin does: a failing plugin is an internal error at the root of the object that names
        it, and the others are asked all the same.
        """
        guard = Guard(job, runtime, old)
        info: Info | None
        refused: FieldError | None = None
        try:
            info = self._resolved(guard, facts)
        except Refusal as refusal:
            info, refused = self._unpatched(guard, facts), _refused(job, refusal)
        findings: list[Finding] = []
        if info is not None:
            for entry in self.registry.having("validate"):
                findings += self._findings(entry, guard, info)
        # What a plugin says of the same patches is more exact.
        if refused is not None and not any(isinstance(finding, FieldError) for finding in findings):
            findings.append(refused)
        if not any(isinstance(finding, FieldError) for finding in findings):
            findings += self._foreseen(job, runtime, facts, created=old is None)
        return Verdict.of(findings)

    def enforced(self, job: TrainJob, runtime: Runtime, facts: ClusterFacts) -> Info:
        """The model after all shaping phases: the final template, counts and requests, without building objects.

        For queueing systems. Raises PipelineError or FactUnavailable.
        """
        return self._shaped(Guard(job, runtime), facts)

    def render(self, job: TrainJob, runtime: Runtime, facts: ClusterFacts) -> Rendering:
        """The objects that run the job. Raises PipelineError (terminal) or FactUnavailable (try again)."""
        guard = Guard(job, runtime)
        info = self._shaped(guard, facts)
        components: list[Component] = []
        for entry in self.registry.having("build"):
            built = guard.collect(entry.name, "build", _hook(entry, "build"), info, guard.job)
            components += [_attributed(component, entry.name) for component in built]
        return Rendering(
            components=_in_order(components),
            settings=guard.ledger.settings(),
            conflicts=guard.ledger.conflicts(),
        )

    def status(self, job: TrainJob, facts: ClusterFacts) -> Status | None:
        """The whole new status as far as plugins know it; None leaves it. Raises PipelineError or FactUnavailable."""
        for entry in self.registry.having("status"):
            guard = Guard(job)
            result: Status | None = guard.call(entry.name, "status", _hook(entry, "status"), guard.job, facts)
            return result
        return None

    def _announced(self, guard: Guard, hook: str, *arguments: Any) -> tuple[Reference, ...]:
        found: dict[Reference, None] = {}
        for entry in self.registry.having(hook):
            found.update(dict.fromkeys(guard.collect(entry.name, hook, _hook(entry, hook), *arguments)))
        return tuple(found)

    def _resolved(self, guard: Guard, facts: ClusterFacts) -> Info:
        assert guard.runtime is not None
        try:
            return resolve(guard.job, guard.runtime, facts, guard.ledger)
        except ValueError as error:
            raise Refusal(f"the template cannot be used: {error}", phase="template") from error

    def _foreseen(self, job: TrainJob, runtime: Runtime, facts: ClusterFacts, *, created: bool) -> list[Finding]:
        """What a build would run into. An update is only warned, since refusing it would help nobody who is stuck."""
        try:
            rendering = self.render(job, runtime, facts)
        except Refusal as refusal:
            message = f"the objects cannot be built: {refusal}"
            error = FieldError("spec", ErrorType.INVALID, message, job.name, plugin=refusal.plugin)
            return [error if created else Warned(message, plugin=refusal.plugin)]
        except (PipelineError, FactUnavailable):
            # A defect or a hiccup: the job is accepted, and its condition will tell if it lasts.
            return []
        return [Warned(str(conflict)) for conflict in rendering.conflicts]

    def _unpatched(self, guard: Guard, facts: ClusterFacts) -> Info | None:
        """The model as it would be without patches, so that plugins can say what is wrong with them."""
        assert guard.runtime is not None
        if guard.job.spec is None:
            return None
        plain = msgspec.structs.replace(guard.job.spec, runtime_patches=None)
        job = msgspec.structs.replace(guard.job, spec=plain)
        try:
            return resolve(job, guard.runtime, facts, guard.ledger)
        except (Refusal, ValueError):
            return None

    def _shaped(self, guard: Guard, facts: ClusterFacts) -> Info:
        info = self._resolved(guard, facts)
        for hook in SHAPING:
            for entry in self.registry.having(hook):
                guard.call(entry.name, hook, _hook(entry, hook), info, guard.job)
        return info

    def _findings(self, entry: Loaded, guard: Guard, info: Info) -> list[Finding]:
        validate = _hook(entry, "validate")
        try:
            found: list[Finding] = guard.collect(entry.name, "validate", validate, info, guard.old, guard.job)
            return [replace(_checked(finding, entry.name), plugin=entry.name) for finding in found]
        except Refusal as refusal:
            return [FieldError("spec", ErrorType.INVALID, str(refusal), guard.job.name, plugin=entry.name)]
        except (PipelineError, FactUnavailable) as error:
            return [FieldError("", ErrorType.INTERNAL, str(error), plugin=entry.name)]


def _hook(entry: Loaded, hook: str) -> Any:
    return getattr(entry.plugin, hook)


def _refused(job: TrainJob, refusal: Refusal) -> FieldError:
    spec = job.spec
    if spec is None:
        return FieldError("spec", ErrorType.INVALID, refusal.message)
    if spec.runtime_patches:
        return FieldError("spec.runtimePatches", ErrorType.INVALID, refusal.message, spec.runtime_patches)
    return FieldError("spec.runtimeRef", ErrorType.INVALID, refusal.message, spec.runtime_ref)


def _checked(finding: Finding, plugin: str) -> Finding:
    if isinstance(finding, (FieldError, Warned)):
        return finding
    raise PluginFailure(f"validate gave {finding!r}, which is no finding", plugin=plugin, phase="validate")


def _attributed(component: Component, plugin: str) -> Component:
    if isinstance(component, Component):
        return replace(component, plugin=plugin)
    raise PluginFailure(f"build gave {component!r}, which is no Component", plugin=plugin, phase="build")


def _in_order(components: Sequence[Component]) -> tuple[Component, ...]:
    seen: dict[tuple[str, str, str, str], Component] = {}
    for component in components:
        _serialisable(component)
        other = seen.setdefault(component.key, component)
        if other is not component:
            _, kind, _, name = component.key
            problem = f"{kind} {name} was built by {other.plugin} already; use a name of your own"
            raise DuplicateObject(problem, plugin=component.plugin, phase="build")
    return tuple(sorted(components, key=lambda component: component.rank))


def _serialisable(component: Component) -> None:
    try:
        document = component.document
        identity = (document["apiVersion"], document["kind"], document["metadata"]["name"])
        msgspec.json.encode(document)
    except (TypeError, KeyError, msgspec.MsgspecError) as error:
        problem = f"build gave a document that cannot be applied: {type(error).__name__}: {error}"
        raise PluginFailure(problem, plugin=component.plugin, phase="build") from error
    if not all(isinstance(part, str) and part for part in identity):
        problem = f"build gave a document without apiVersion, kind or name: {identity}"
        raise PluginFailure(problem, plugin=component.plugin, phase="build")
