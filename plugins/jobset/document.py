# SPDX-License-Identifier: Apache-2.0
"""The JobSet of a TrainJob: the template with the TrainJob's values in it, as an apply document."""

from dataclasses import replace

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import EnvFromSource, EnvVar, SecretEnvSource
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
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
from trainwright.controller.runtime.apply.extract import extract
from trainwright.controller.runtime.objects import Document, managed_fields_of
from trainwright.plugins.contract import TRAIN_JOB, Component, ContainerModel, Info, PodSet, owned_metadata
from trainwright.plugins.contract.info import carried

_MUTABLE = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
_MUTABLE_METADATA = frozenset({"labels", "annotations"})
"""What JobSet's webhook lets one change of the pods of a suspended JobSet."""


def may_apply(job: TrainJob, live: JobSet | None) -> bool:
    """Whether the JobSet may be written: it is new, it is to be suspended, or it is to be resumed.

    A running JobSet is left alone: Kubernetes allows hardly any change, and each would restart pods.
    """
    suspend = job.spec is not None and bool(job.spec.suspend)
    return live is None or suspend or (live.spec is not None and bool(live.spec.suspend))


def jobset_component(info: Info, job: TrainJob) -> Component:
    """The document. Changes `info.template` on the way, which nobody reads afterwards."""
    for pod_set in info.pod_sets:
        _fill_initializer(info, pod_set)
        _fill_trainer(info, pod_set)
    for replicated in info.template.replicated_jobs or ():
        assert replicated.template.spec is not None
        pod = replicated.template.spec.template
        pod.metadata = _marked(pod.metadata, info)
        if _step(info, replicated.name) in STEP_CONTAINERS:
            replicated.replicas = 1
    info.template.suspend = job.spec.suspend if job.spec is not None else None
    metadata = owned_metadata(job, job.name)
    if info.labels:
        metadata["labels"] = dict(info.labels)
    if info.annotations:
        metadata["annotations"] = dict(info.annotations)
    return Component(
        {
            "apiVersion": JobSet.RESOURCE.api_version,
            "kind": JobSet.RESOURCE.kind,
            "metadata": metadata,
            "spec": _without_empty_pods(msgspec.to_builtins(info.template)),
        }
    )


def with_fallback(component: Component, live: JobSet) -> Component:
    """The component, and what JobSet lets one change of the JobSet that is there, should it refuse the whole.

    It refuses when anything else differs: a patch that came too late, or a template that was made by another version
    or by the original, in another order. Such a job must be resumed nonetheless.
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


def _changed(kept: Document, wanted: Document) -> Document:
    """The replicated job that is there, with what may change of its pods."""
    template = kept["template"]["spec"]["template"]
    other = wanted["template"]["spec"]["template"]
    pod = {
        "metadata": _picked(template.get("metadata") or {}, other.get("metadata") or {}, _MUTABLE_METADATA),
        "spec": _picked(template["spec"], other["spec"], _MUTABLE),
    }
    job = {**kept["template"], "spec": {**kept["template"]["spec"], "template": {**template, **pod}}}
    return {**kept, "template": job}


def _picked(kept: Document, wanted: Document, names: frozenset[str]) -> Document:
    """One mapping with the named fields of another one, or without them where that has none."""
    rest = {name: value for name, value in kept.items() if name not in names}
    return {**rest, **{name: value for name, value in wanted.items() if name in names}}


def _without_empty_pods(spec: Document) -> Document:
    """No containers at all are left out, which the API server refuses; an empty list would give pods nobody can run."""
    for replicated in spec.get("replicatedJobs", ()):
        pod = replicated["template"]["spec"]["template"]["spec"]
        if not pod["containers"]:
            del pod["containers"]
    return spec


def _step(info: Info, name: str) -> str | None:
    pod_set = info.pod_set(name)
    return pod_set.step if pod_set is not None else None


def _marked(metadata: ObjectMeta | None, info: Info) -> ObjectMeta | None:
    """The pod template's metadata with the marks of the gang scheduler."""
    if not info.pod_labels and not info.pod_annotations:
        return metadata
    marked = metadata if metadata is not None else ObjectMeta()
    if info.pod_labels:
        marked.labels = {**(marked.labels or {}), **info.pod_labels}
    if info.pod_annotations:
        marked.annotations = {**(marked.annotations or {}), **info.pod_annotations}
    return marked


def _fill_initializer(info: Info, pod_set: PodSet) -> None:
    spec = info.job.spec.initializer if info.job.spec is not None else None
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
    """Image, command and arguments for the trainer; its variables also for nodes beside a launcher that is a node."""
    is_trainer = pod_set.step == STEP_TRAINER
    if not is_trainer and not (pod_set.name == NODE and _launcher_is_node(info)):
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


def _launcher_is_node(info: Info) -> bool:
    policy = info.ml_policy
    return policy is not None and policy.mpi is not None and bool(policy.mpi.run_launcher_as_node)
