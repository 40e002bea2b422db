# SPDX-License-Identifier: Apache-2.0
"""The JobSet of a TrainJob as an apply document: the template with the values of the TrainJob.

Of a JobSet that exists, it changes what JobSet's webhook allows. A running JobSet can hardly be changed. In a suspended
one, labels, annotations, node selectors, tolerations and scheduling gates of the pods can be changed, and `suspend`.
Source: `jobset_webhook.go` of JobSet 0.12.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet, ReplicatedJob
from trainwright.api.jobset.v1alpha2.claims import makes_claims
from trainwright.api.kubernetes.core.v1 import EnvFromSource, EnvVar, SecretEnvSource
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Document, managed_fields_of
from trainwright.api.ownership import extract
from trainwright.api.trainer.v1alpha1 import DatasetInitializer, ModelInitializer, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    ENV_STORAGE_URI,
    FIELD_MANAGER,
    NODE,
    STEP_CONTAINERS,
    STEP_DATASET_INITIALIZER,
    STEP_MODEL_INITIALIZER,
    STEP_TRAINER,
)
from trainwright.plugins.contract import (
    TRAIN_JOB,
    Component,
    ContainerModel,
    Info,
    PodSet,
    Stage,
    Warned,
    carried,
    step_of,
)


def jobset_component(info: Info, job: TrainJob) -> Component:
    """The JobSet. It changes `info.template`, which no other plugin reads afterwards."""
    for pod_set in info.pod_sets:
        _fill_initializer(info, pod_set)
        _fill_trainer(info, pod_set)
    for replicated in info.template.replicated_jobs or ():
        assert replicated.template.spec is not None
        pod = replicated.template.spec.template
        pod.metadata = _marked(pod.metadata, info)
        if step_of(replicated) in STEP_CONTAINERS:
            replicated.replicas = 1
    info.template.suspend = True if info.held else job.spec_or_empty.suspend
    return Component.owned_by(
        job,
        JobSet.RESOURCE,
        job.name,
        {"spec": _without_empty_pods(msgspec.to_builtins(info.template))},
        labels=info.labels,
        annotations=info.annotations,
        stage=Stage.WORKLOAD,
    )


def _without_empty_pods(spec: Document) -> Document:
    """Leave out empty lists of containers, so that the API server refuses the JobSet; its pods could not be created."""
    for replicated in spec.get("replicatedJobs", ()):
        pod = replicated["template"]["spec"]["template"]["spec"]
        if not pod["containers"]:
            del pod["containers"]
    return spec


def _marked(metadata: ObjectMeta | None, info: Info) -> ObjectMeta | None:
    if not info.pod_labels and not info.pod_annotations:
        return metadata
    marked = metadata if metadata is not None else ObjectMeta()
    if info.pod_labels:
        marked.labels = {**(marked.labels or {}), **info.pod_labels}
    if info.pod_annotations:
        marked.annotations = {**(marked.annotations or {}), **info.pod_annotations}
    return marked


def _fill_initializer(info: Info, pod_set: PodSet) -> None:
    spec = info.job.spec_or_empty.initializer
    if spec is None or pod_set.step not in (STEP_DATASET_INITIALIZER, STEP_MODEL_INITIALIZER):
        return
    wanted = spec.dataset if pod_set.step == STEP_DATASET_INITIALIZER else spec.model
    if wanted is None:
        return
    for container in pod_set.containers:
        if container.name == STEP_CONTAINERS[pod_set.step]:
            _initialize(container, wanted, "dataset" if pod_set.step == STEP_DATASET_INITIALIZER else "model")


def _initialize(container: ContainerModel, wanted: DatasetInitializer | ModelInitializer, what: str) -> None:
    where = f"spec.initializer.{what}"
    if wanted.storage_uri is not None:
        address = EnvVar(name=ENV_STORAGE_URI, value=wanted.storage_uri)
        container.set_variable(address, why=f"{where}.storageUri", source=TRAIN_JOB)
    for variable in wanted.env or ():
        container.set_variable(carried(variable), why=f"{where}.env", source=TRAIN_JOB)
    if wanted.secret_ref is not None:
        source = EnvFromSource(secret_ref=SecretEnvSource(name=wanted.secret_ref.name))
        container.add_env_from(source, why=f"{where}.secretRef", source=TRAIN_JOB)


def _fill_trainer(info: Info, pod_set: PodSet) -> None:
    """Set image, command, arguments and variables of the trainer. Where the launcher is one of the nodes, the job
    `node` gets the variables too.
    """
    is_trainer = pod_set.step == STEP_TRAINER
    launcher_is_node = bool(info.ml_policy_or_empty.mpi_or_empty.run_launcher_as_node)
    if not is_trainer and not (pod_set.name == NODE and launcher_is_node):
        return
    for container in pod_set.containers:
        if container.name != NODE:
            continue
        if is_trainer:
            _fill_settings(info, container)
        for variable in info.trainer_env:
            container.set_variable(variable, why="spec.trainer.env", source=TRAIN_JOB)


def _fill_settings(info: Info, container: ContainerModel) -> None:
    settings = info.trainer
    if settings.image is not None:
        container.set_image(settings.image, why="spec.trainer.image", source=TRAIN_JOB)
    if settings.command is not None:
        source, why = settings.origin("command") or (TRAIN_JOB, "spec.trainer.command")
        container.set_command(list(settings.command), why=why, source=source)
    if settings.args is not None:
        source, why = settings.origin("args") or (TRAIN_JOB, "spec.trainer.args")
        container.set_args(list(settings.args), why=why, source=source)


LIMIT = 63
"""Characters of a name, because it is also the value of a label."""
_GENERATED_SUFFIX = "-abcde"
"""As long as what Kubernetes appends to the name of a pod."""


def name_findings(info: Info, job: TrainJob) -> Iterator[Warned]:
    """A warning about the longest name, if it is too long."""
    replicated_jobs = info.template.replicated_jobs or ()
    made = {f"{job.name}-{replicated.name}{_indices(replicated)}": replicated.name for replicated in replicated_jobs}
    name = max(made, key=len, default="")
    if len(name) > LIMIT:
        yield Warned(
            f"metadata.name is too long by {len(name) - LIMIT} characters: with replicated job {made[name]} of its "
            f"runtime it makes names of more than {LIMIT}, which JobSet refuses"
        )


def _indices(replicated: ReplicatedJob) -> str:
    """What JobSet appends for a Job and, where the number of pods is known, for a pod."""
    job = f"-{max((replicated.replicas or 1) - 1, 0)}"
    spec = replicated.template.spec
    if spec is None or spec.completions is None or spec.completion_mode not in {None, "Indexed"}:
        return job
    return f"{job}-{max(spec.completions - 1, 0)}{_GENERATED_SUFFIX}"


_MUTABLE = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
_MUTABLE_METADATA = frozenset({"labels", "annotations"})
_PATCHED = frozenset({"replicatedJobs", "suspend"})
"""Fields of the spec that can change after creation; all others come from the snapshot of the runtime."""


def may_apply(job: TrainJob, live: JobSet, *, held: bool = False) -> bool:
    """Whether the JobSet may be written: it is to be suspended or held back, or it is suspended and is to be resumed.

    A running JobSet is left alone: Kubernetes allows hardly any change, and each would restart pods.
    """
    return held or bool(job.spec_or_empty.suspend) or bool(live.spec_or_empty.suspend)


def as_stored(component: Component, live: JobSet) -> Component:
    """The component with the stored value of each immutable field that differs from ours by server defaults only.

    `volumeClaimPolicies` is owned as a whole and must equal its stored value, which has defaults that ours lacks.
    """
    wanted = component.document["spec"]
    stored = msgspec.to_builtins(live.spec) if live.spec is not None else {}
    kept = {
        name: stored[name]
        for name, value in wanted.items()
        if name not in _PATCHED and name in stored and _is_completed(value, stored[name])
    }
    return replace(component, document={**component.document, "spec": {**wanted, **kept}})


def with_selectors_of_jobs(component: Component, live: JobSet) -> Component:
    """The component, where a node selector of the stored JobSet goes away, such as that of a queue's former flavor.

    The Jobs of the JobSet keep it: on a resume, JobSet adds the selectors of its template to those of its Jobs
    (https://github.com/kubernetes-sigs/jobset/issues/1294), and no node may have both. So the template keeps it too
    while the JobSet stays suspended, since it may come back. Where it does not, a new JobSet takes the place of this
    one, which has no pods then.
    """
    owned = managed_fields_of(live, FIELD_MANAGER)
    if owned is None or "f:spec" not in owned or live.spec is None:
        return component
    stored = extract(msgspec.to_builtins(live.spec), owned["f:spec"]).get("replicatedJobs", ())
    before = {job["name"]: _selector(job) for job in stored}
    spec = component.document["spec"]
    wanted = {job["name"]: _selector(job) for job in spec["replicatedJobs"]}
    kept = {
        name: left
        for name, selector in wanted.items()
        if (left := {key: value for key, value in before.get(name, {}).items() if key not in selector})
    }
    if not kept:
        return component
    if not spec.get("suspend"):
        return component if makes_claims(live) else replace(component, replaces=True)
    jobs = [_with_selector(job, kept[job["name"]]) if job["name"] in kept else job for job in spec["replicatedJobs"]]
    return replace(component, document={**component.document, "spec": {**spec, "replicatedJobs": jobs}})


def _selector(job: Document) -> Document:
    found: Document = job["template"]["spec"]["template"].get("spec", {}).get("nodeSelector") or {}
    return found


def _with_selector(job: Document, kept: Document) -> Document:
    template = job["template"]["spec"]["template"]
    pod = {**template["spec"], "nodeSelector": {**_selector(job), **kept}}
    spec = {**job["template"]["spec"], "template": {**template, "spec": pod}}
    return {**job, "template": {**job["template"], "spec": spec}}


def with_fallback(component: Component, live: JobSet) -> Component:
    """The component, and what JobSet lets one change of the stored JobSet, for the case that it refuses the whole.

    It refuses when anything else differs: a patch that came too late, or a template that another version of Trainwright
    or Kubeflow Trainer wrote in another order. Such a job must be resumed nonetheless.
    """
    owned = managed_fields_of(live, FIELD_MANAGER)
    if owned is None or "f:spec" not in owned or live.spec is None:
        return component
    wanted = component.document["spec"]
    kept = extract(msgspec.to_builtins(live.spec), owned["f:spec"])
    jobs = {job["name"]: job for job in wanted.get("replicatedJobs", ())}
    changed = [_changed(job, jobs[job["name"]]) if job["name"] in jobs else job for job in kept["replicatedJobs"]]
    fallback = {**kept, "replicatedJobs": changed, "suspend": wanted.get("suspend", False)}
    return replace(component, fallback={**component.document, "spec": fallback}) if fallback != wanted else component


def _is_completed(ours: Any, stored: Any) -> bool:
    """Whether the stored value is ours, with more in its mappings at most."""
    if isinstance(ours, dict) and isinstance(stored, dict):
        return all(name in stored and _is_completed(value, stored[name]) for name, value in ours.items())
    if isinstance(ours, list) and isinstance(stored, list):
        return len(ours) == len(stored) and all(map(_is_completed, ours, stored))
    return bool(ours == stored)


def _changed(kept: Document, wanted: Document) -> Document:
    """The stored replicated job, with the mutable fields of the wanted one."""
    template = kept["template"]["spec"]["template"]
    other = wanted["template"]["spec"]["template"]
    pod = {
        **template,
        "metadata": _picked(template.get("metadata") or {}, other.get("metadata") or {}, _MUTABLE_METADATA),
        "spec": _picked(template["spec"], other["spec"], _MUTABLE),
    }
    # Without metadata there is none to own: an empty one would be refused where labels were owned before.
    written = {name: value for name, value in pod.items() if value or name != "metadata"}
    job = {**kept["template"], "spec": {**kept["template"]["spec"], "template": written}}
    return {**kept, "template": job}


def _picked(kept: Document, wanted: Mapping[str, Any], names: frozenset[str]) -> Document:
    """The stored mapping with the named fields of the wanted one, or without those that are empty there."""
    rest = {name: value for name, value in kept.items() if name not in names}
    return {**rest, **{name: value for name, value in wanted.items() if name in names and value}}
