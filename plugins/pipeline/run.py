# SPDX-License-Identifier: Apache-2.0
"""Runs the plugins on one TrainJob: which facts they need, whether the job is valid, which objects it becomes.

It is a pure function of job, runtime and facts; admission, reconcile, `render` and tests all use it. The caller begins
a run for one admission or one reconcile, asks it for the references, looks them up, and passes the facts to `validate`
or `render`. The copies of the inputs that plugins get are made once, when the first hook is called.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.plugins.contract import (
    ClusterFacts,
    Component,
    FactUnavailable,
    FieldError,
    Finding,
    Info,
    PodRef,
    Reference,
    Refusal,
    Runtime,
    Stage,
    Warned,
)
from trainwright.plugins.contract.container import Override, Setting
from trainwright.plugins.contract.errors import (
    DuplicateObject,
    ErrorType,
    InputMutated,
    PipelineError,
    PluginFailure,
    Verdict,
)
from trainwright.plugins.contract.points import SHAPING
from trainwright.plugins.pipeline.references import literal_references
from trainwright.plugins.pipeline.template import JobTemplate, Templates, changes, resolve
from trainwright.plugins.registry import Loaded, Registry, is_ours, place_of
from trainwright.plugins.registry.calling import GuardedInputs, PluginGuard

BUILD = "build"


@dataclass(frozen=True, slots=True)
class Rendering:
    components: tuple[Component, ...]
    """In the order in which they are applied, which is by `Stage`."""
    settings: tuple[Setting, ...]
    """Who set which value, and why."""
    overrides: tuple[Override, ...]
    """Values that one plugin or user set and another one replaced."""


class PipelineRun:
    """Made by `Pipeline.begin`."""

    def __init__(
        self,
        registry: Registry,
        job: TrainJob,
        runtime: Runtime,
        old: TrainJob | None,
        templates: Templates,
    ) -> None:
        self._registry = registry
        self._templates = templates
        self._job = job
        self._runtime = runtime
        self._old = old
        self._inputs = GuardedInputs(job, runtime, old)
        self._askers: dict[Reference, set[str]] = {}

    def references(self) -> tuple[Reference, ...]:
        """The objects that plugins need for this job; look each up, and pass the results as `ClusterFacts`.

        Raises PipelineError, FactUnavailable.
        """
        return self._announced("uses_facts")

    def is_asked_by(self, reference: Reference, plugin: str) -> bool:
        """Whether this plugin, and no other one, has announced the reference in this run."""
        return self._askers.get(reference) == {plugin}

    def admission_references(self) -> tuple[Reference, ...]:
        """The objects that plugins need for `validate`: those of a build, and those that only validation needs.

        Raises PipelineError, FactUnavailable.
        """
        return self._announced("uses_facts", "validation_facts")

    def validate(self, facts: ClusterFacts) -> Verdict:
        """Every field error and warning of every plugin.

        An exception of a plugin is not raised: it becomes an internal error that names the plugin, and the other
        plugins are asked as well.
        """
        refused: FieldError | None = None
        template: JobTemplate | None
        try:
            template = resolve(self._job, self._runtime, self._templates)
        except Refusal as refusal:
            template, refused = self._without_patches(), self._refused(refusal)
        findings = self._validated(template, facts) if template is not None else []
        # An error of a plugin about the same patches is more exact.
        if refused is not None and not _has_errors(findings):
            findings.append(refused)
        if template is not None and not _has_errors(findings):
            findings += self._foreseen(template, facts)
        return Verdict.of(findings)

    def enforced(self, facts: ClusterFacts) -> Info:
        """The model after all shaping phases: the final template, counts and requests. No objects are built.

        For queueing systems. Raises PipelineError, FactUnavailable.
        """
        return self._inputs.phase(
            lambda guard: self._shaped(guard, resolve(self._job, self._runtime, self._templates), facts)
        )

    def render(self, facts: ClusterFacts) -> Rendering:
        """The objects that run the job. Raises PipelineError (final) or FactUnavailable (try again)."""

        def build(guard: PluginGuard) -> Rendering:
            return self._built(guard, self._shaped(guard, resolve(self._job, self._runtime, self._templates), facts))

        return self._inputs.phase(build)

    def _announced(self, *hooks: str) -> tuple[Reference, ...]:
        def collect(guard: PluginGuard) -> tuple[Reference, ...]:
            found: dict[Reference, None] = {}
            for hook in hooks:
                for entry in self._registry.having(hook):
                    announced = guard.call(entry, hook, guard.job, guard.runtime)
                    found.update(dict.fromkeys(announced))
                    for reference in announced:
                        self._askers.setdefault(reference, set()).add(entry.name)
            return tuple(found)

        return self._inputs.phase(collect)

    def _validated(self, template: JobTemplate, facts: ClusterFacts) -> list[Finding]:
        """The findings of all plugins. If one changed an input, each runs again on its own copies, to find which."""
        entries = self._registry.having("validate")
        guard = self._inputs.shared()
        info = _info(guard, template.copy(), facts)
        findings = [finding for entry in entries for finding in _findings(guard, entry, "validate", info)]
        if not guard.changed():
            return findings
        self._inputs.renew()
        findings = []
        for entry in entries:
            guard = self._inputs.guard(strict=True)
            try:
                findings += _findings(guard, entry, "validate", _info(guard, template.copy(), facts))
            except InputMutated as error:
                findings.append(_defect(error))
        return findings

    def _foreseen(self, template: JobTemplate, facts: ClusterFacts) -> list[Finding]:
        """The problems that a build would have. They refuse a new job; for an existing one they are warnings, so that
        it can still be changed.
        """
        findings: list[Finding] = []

        def build(guard: PluginGuard) -> Rendering:
            findings.clear()
            info = self._shaped(guard, template.copy(), facts)
            for entry in self._registry.having("validate_shaped"):
                findings.extend(_findings(guard, entry, "validate_shaped", info))
            return self._built(guard, info)

        try:
            rendering = self._inputs.phase(build)
        except Refusal as refusal:
            message = f"the objects cannot be built: {refusal}"
            error = FieldError("spec", ErrorType.INVALID, message, self._job.name, plugin=refusal.plugin)
            return [*findings, error if self._old is None else Warned(message, plugin=refusal.plugin)]
        except (PipelineError, FactUnavailable) as error:
            if isinstance(error, InputMutated) and error.phase == "validate_shaped":
                return [*findings, _defect(error)]
            # A defect of a plugin, or a read that failed: the job is accepted, and gets a condition if it lasts.
            return findings
        replaced = (Warned(str(override)) for override in rendering.overrides)
        return [*findings, *replaced, *literal_references(rendering.components, rendering.settings)]

    def _shaped(self, guard: PluginGuard, template: JobTemplate, facts: ClusterFacts) -> Info:
        info = _info(guard, template, facts)
        for hook in SHAPING:
            if hook == "enforce_pod_spec":
                info.reporter = self._reporter(guard, info)
            for entry in self._registry.having(hook):
                if is_ours(entry.plugin):
                    guard.call(entry, hook, info, guard.job)
                else:
                    _noted(guard, entry, hook, info)
        return info

    def _reporter(self, guard: PluginGuard, info: Info) -> PodRef | None:
        """The pod that reports progress: the first pod of the trainer, or what a plugin answers.

        The last answer counts, as with all that plugins set: a plugin corrects those that it runs after.
        """
        chosen = PodRef.first_of(info.trainer_pods)
        for entry in self._registry.having("reporter"):
            found: PodRef | None = guard.call(entry, "reporter", info, guard.job)
            if found is None:
                continue
            pods = info.pod_set(found.job)
            if pods is None or found.replica not in range(pods.replicas) or found.index not in range(pods.count):
                lacks = "replicated job of this name" if pods is None else "such pod"
                problem = f"reporter returned {found}, but the template has no {lacks}"
                raise PluginFailure(problem, plugin=entry.name, phase="reporter")
            chosen = found
        return chosen

    def _built(self, guard: PluginGuard, info: Info) -> Rendering:
        components: list[Component] = []
        for entry in self._registry.having(BUILD):
            built = guard.call(entry, BUILD, info, guard.job)
            components += [replace(component, plugin=entry.name) for component in built]
        return Rendering(
            components=in_order(components, self._registry, guard.job),
            settings=guard.ledger.settings(),
            overrides=guard.ledger.overrides(),
        )

    def _without_patches(self) -> JobTemplate | None:
        """The template without patches, so that plugins can check the patches."""
        if self._job.spec is None:
            return None
        plain = msgspec.structs.replace(self._job.spec, runtime_patches=None)
        try:
            return resolve(msgspec.structs.replace(self._job, spec=plain), self._runtime, self._templates)
        except Refusal:
            return None

    def _refused(self, refusal: Refusal) -> FieldError:
        spec = self._job.spec
        if spec is None:
            return FieldError("spec", ErrorType.INVALID, refusal.message)
        if spec.runtime_patches:
            return FieldError("spec.runtimePatches", ErrorType.INVALID, refusal.message, spec.runtime_patches)
        return FieldError("spec.runtimeRef", ErrorType.INVALID, refusal.message, spec.runtime_ref)


def _info(guard: PluginGuard, template: JobTemplate, facts: ClusterFacts) -> Info:
    assert guard.runtime is not None
    guard.ledger = template.ledger
    return template.info(guard.job, guard.runtime, facts)


def _noted(guard: PluginGuard, entry: Loaded, hook: str, info: Info) -> None:
    """Call a hook that changes the model, and note what it has changed in `info.template` directly.

    Only plugins of others are looked at: a comparison costs a tenth of a millisecond, and ours note what they set. The
    JobSet plugin owns the template, and writes into it what pod sets have noted.
    """
    before = msgspec.to_builtins(info.template)
    guard.call(entry, hook, info, guard.job)
    try:
        after = msgspec.to_builtins(info.template)
        jobs = msgspec.convert(after, JobSetSpec).replicated_jobs or ()
        found = list(changes(JobSetSpec, before, after))
    except (TypeError, KeyError, msgspec.ValidationError) as error:
        problem = f"{hook} made info.template something that is no JobSet: {error}"
        raise PluginFailure(problem, plugin=entry.name, phase=hook) from error
    if [job.name for job in jobs] != (names := [pods.name for pods in info.pod_sets]):
        problem = f"{hook} changed which replicated jobs info.template has; those of the runtime are {', '.join(names)}"
        raise PluginFailure(problem, plugin=entry.name, phase=hook)
    for path, old, new in found:
        guard.ledger.found(path, new, before=old)


def _findings(guard: PluginGuard, entry: Loaded, hook: str, info: Info) -> list[Finding]:
    """The findings of one plugin; an exception becomes a finding. Raises InputMutated from a strict guard."""
    try:
        found = guard.call(entry, hook, info, guard.old, guard.job)
        return [replace(finding, plugin=entry.name) for finding in found]
    except Refusal as refusal:
        return [FieldError("spec", ErrorType.INVALID, str(refusal), guard.job.name, plugin=entry.name)]
    except InputMutated:
        raise
    except (PipelineError, FactUnavailable) as error:
        return [FieldError("", ErrorType.INTERNAL, str(error), plugin=entry.name)]


def _defect(error: InputMutated) -> FieldError:
    return FieldError("", ErrorType.INTERNAL, str(error), plugin=error.plugin)


def _has_errors(findings: Iterable[Finding]) -> bool:
    return any(isinstance(finding, FieldError) for finding in findings)


class StatusRun:
    """Made by `Pipeline.begin_status`."""

    def __init__(self, registry: Registry, job: TrainJob) -> None:
        self._registry = registry
        self._inputs = GuardedInputs(job)

    def references(self) -> tuple[Reference, ...]:
        """The objects that `status` needs. Raises PipelineError, FactUnavailable."""

        def collect(guard: PluginGuard) -> tuple[Reference, ...]:
            found: dict[Reference, None] = {}
            for entry in self._registry.having("status_facts"):
                found.update(dict.fromkeys(guard.call(entry, "status_facts", guard.job)))
            return tuple(found)

        return self._inputs.phase(collect)

    def status(self, facts: ClusterFacts) -> Status | None:
        """The new status; None leaves the current one as it is. Raises PipelineError, FactUnavailable."""

        def ask(guard: PluginGuard) -> Status | None:
            for entry in self._registry.having("status"):
                found: Status | None = guard.call(entry, "status", guard.job, facts)
                return found
            return None

        return self._inputs.phase(ask)


class Pipeline:
    """Runs the plugins of a registry. One instance serves all jobs; it keeps the prepared templates of runtimes."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._templates = Templates()

    def begin(self, job: TrainJob, runtime: Runtime, old: TrainJob | None = None) -> PipelineRun:
        """Begin to build one TrainJob. `old` is the TrainJob before an update. No plugin is called yet."""
        return PipelineRun(self.registry, job, runtime, old, self._templates)

    def begin_status(self, job: TrainJob) -> StatusRun:
        """Begin to compute the status of one TrainJob. No plugin is called yet."""
        return StatusRun(self.registry, job)


def in_order(components: Iterable[Component], registry: Registry, job: TrainJob) -> tuple[Component, ...]:
    """The components in the order of applying. Raises PluginFailure, DuplicateObject."""
    seen: dict[Reference, Component] = {}
    for component in components:
        _check(component, registry, job)
        other = seen.setdefault(component.reference, component)
        if other is not component:
            name = component.reference.name
            problem = f"{component.resource.kind} {name} was already built by {other.plugin}; use another name"
            raise DuplicateObject(problem, plugin=component.plugin, phase=BUILD)
    return tuple(sorted(seen.values(), key=lambda component: component.order))


def filled_in(component: Component) -> Document:
    """The document of a component with generated content, as it is created. Raises PluginFailure."""
    assert component.generate is not None
    try:
        return component.generate(component.document)
    except Exception as error:
        where = place_of(error, getattr(component.generate, "__module__", ""))
        problem = f"generate of {component.reference} failed: {type(error).__name__}: {error}{where}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD) from error


def _check(component: Component, registry: Registry, job: TrainJob) -> None:
    """Raises PluginFailure for a document that no API server could take, or of a kind that no plugin watches, and for a
    Secret that the admission policy refuses.
    """
    try:
        document, resource = component.document, component.resource
        identity = (document["apiVersion"], document["kind"], document["metadata"]["name"])
        msgspec.json.encode(document)
        expected = (resource.api_version, resource.kind)
        Stage(component.stage)
    except (TypeError, KeyError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        problem = f"build returned a document that cannot be applied: {type(error).__name__}: {error}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD) from error
    if not all(isinstance(part, str) and part for part in identity):
        problem = f"build returned a document without apiVersion, kind or name: {identity}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
    if identity[:2] != expected:
        problem = f"build returned a {identity[1]} of {identity[0]} as a {resource.kind} of {resource.api_version}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
    if component.reference.namespace != job.namespace or not resource.namespaced:
        problem = f"build returned {component.reference}; an object of a job must be in its namespace, {job.namespace}"
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
    if resource == Secret.RESOURCE:
        declared = {(one.type, one.name(job)) for one in registry.secrets()} if component.generate else ()
        if (document.get("type"), identity[2]) not in declared:
            problem = f"build returned the Secret {identity[2]}, which is not declared; use GeneratedSecret.component"
            raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
    elif resource not in registry.buildable:
        problem = (
            f"build returned a {resource.kind} of {resource.api_version}, but no plugin watches this kind; "
            "declare it in the plugin's watches"
        )
        raise PluginFailure(problem, plugin=component.plugin, phase=BUILD)
