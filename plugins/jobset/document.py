# SPDX-License-Identifier: Apache-2.0
"""The JobSet of a TrainJob: the template with the values of the TrainJob, as an apply document."""

from collections.abc import Iterator

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet, ReplicatedJob
from trainwright.api.kubernetes.core.v1 import EnvFromSource, EnvVar, SecretEnvSource
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import DatasetInitializer, ModelInitializer, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    ENV_STORAGE_URI,
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
    """The metadata of the pod template with the labels and annotations for all pods."""
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
