# SPDX-License-Identifier: Apache-2.0
"""Lets training report its progress in a file, which the manager reads in the pod of rank 0.

The feature gate `ProgressPull` loads it. A job or its runtime asks for it: `trainwright.dev/progress: file`.
A torchtune job needs no change: it gets the writer as its metric logger.
"""

from collections.abc import Iterable, Sequence
from importlib import resources

from trainwright.api.kubernetes.core import v1 as core
from trainwright.api.objects import annotations_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    STEP_DATASET_INITIALIZER,
    STEP_MODEL_INITIALIZER,
)
from trainwright.api.trainer.v1alpha1.progress import DEFAULT_FILE, Declaration, declared
from trainwright.plugins.contract import (
    Component,
    ContainerModel,
    Finding,
    Info,
    PodSet,
    Stage,
    Warned,
    Watch,
    invalid,
)

VARIABLE_FILE = "TRAINWRIGHT_PROGRESS_FILE"
VARIABLE_FINAL = "TRAINWRIGHT_PROGRESS_FINAL"
"""The container's termination message, where the writer leaves its last document."""
VOLUME = "trainwright-progress"
VOLUME_SIZE = "1Mi"
WRITER_VOLUME = "trainwright-progress-writer"
WRITER_FOLDER = "/etc/trainwright/python"
WRITER_MODULE = "trainwright_progress"
_TUNE = ("tune", "run")
_PYTHONPATH = "PYTHONPATH"
_WHY = "where training reports its progress"
_WHY_LOADING = "where an initializer reports its progress"


class ProgressFilePlugin:
    """Tells the training where its progress file is, and gives it a place for the default one.

    It sets two variables in the containers that train, and mounts a small volume for the default path.
    """

    name = "ProgressFile"
    off_by_default = True  # the feature gate enables it

    def watches(self) -> Sequence[Watch]:
        return (Watch(core.ConfigMap.RESOURCE, metadata_only=True, makes=True),)

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Refuse annotations of the job that cannot work; warn of those of the runtime, and of old ones."""
        before = annotations_of(old) if old is not None else {}
        for problem in declared(annotations_of(job), annotations_of(info.runtime))[1]:
            if problem.of_job and before.get(problem.annotation) != problem.value:
                yield invalid(f"metadata.annotations[{problem.annotation}]", problem.value, problem.message)
            else:
                yield Warned(problem.warning)

    def validate_shaped(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Warn where the container that trains does not exist."""
        wanted = _declaration(info, job)
        if not wanted.reads_file:
            return
        pods, container = _reporting(info)
        if pods is None:
            yield Warned("the runtime has no trainer pods, so no progress file is read")
        elif container is None:
            name = _container_name(info)
            yield Warned(f"no progress file is read: replicated job {pods.name} has no container {name}")

    def enforce_pod_spec(self, info: Info, job: TrainJob) -> None:
        """Set the variables, mount the volume, and make the writer the metric logger of torchtune."""
        wanted = _declaration(info, job)
        pods, container = _reporting(info)
        if not wanted.reads_file or pods is None or container is None:
            return
        _report(pods, container, wanted.file, why=_WHY)
        for step in (pods for pods in info.pod_sets if pods.step in (STEP_DATASET_INITIALIZER, STEP_MODEL_INITIALIZER)):
            if (initializer := step.container(step.step or "")) is not None:
                _report(step, initializer, DEFAULT_FILE, why=_WHY_LOADING)
        if _is_tuned(job):
            _log_metrics(info, job, pods, container)

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The writer, for a torchtune job."""
        if _declaration(info, job).reads_file and _is_tuned(job):
            # It needs nothing but Python's standard library.
            source = resources.files("trainwright").joinpath("progress.py").read_text(encoding="utf-8")
            data = {"data": {f"{WRITER_MODULE}.py": source}}
            yield Component.owned_by(job, core.ConfigMap.RESOURCE, _writer_name(job), data, stage=Stage.POD_INPUT)


def _report(pods: PodSet, container: ContainerModel, file: str, *, why: str) -> None:
    container.set_env(VARIABLE_FILE, file, why=why)
    container.set_env(VARIABLE_FINAL, container.termination_message_path, why="where its last report is left")
    if file == DEFAULT_FILE:
        pods.set_volume(core.Volume(name=VOLUME, empty_dir=core.EmptyDirVolumeSource(size_limit=VOLUME_SIZE)), why=why)
        container.set_mount(core.VolumeMount(name=VOLUME, mount_path=DEFAULT_FILE.rpartition("/")[0]), why=why)


def _declaration(info: Info, job: TrainJob) -> Declaration:
    return declared(annotations_of(job), annotations_of(info.runtime))[0]


def _container_name(info: Info) -> str:
    return info.reporter.container if info.reporter is not None else ""


def _reporting(info: Info) -> tuple[PodSet | None, ContainerModel | None]:
    """The pods with rank 0, and the container that writes the file."""
    pods = info.pod_set(info.reporter.job) if info.reporter is not None else None
    return pods, pods.container(_container_name(info)) if pods is not None else None


def _is_tuned(job: TrainJob) -> bool:
    """Whether the Torch plugin makes the command of torchtune. A longer command is the user's own."""
    trainer = job.spec_or_empty.trainer
    return trainer is not None and tuple(trainer.command or ()) == _TUNE


def _log_metrics(info: Info, job: TrainJob, pods: PodSet, container: ContainerModel) -> None:
    """Mount the writer and name it as the metric logger. Overrides of the user come later, and so take precedence."""
    source = core.ConfigMapVolumeSource(name=_writer_name(job))
    pods.set_volume(core.Volume(name=WRITER_VOLUME, config_map=source), why="the writer of progress")
    mount = core.VolumeMount(name=WRITER_VOLUME, mount_path=WRITER_FOLDER, read_only=True)
    container.set_mount(mount, why="the writer of progress")
    present = container.variable(_PYTHONPATH)
    if present is None or present.value_from is None:
        paths = [WRITER_FOLDER, *([present.value] if present is not None and present.value else [])]
        container.set_env(_PYTHONPATH, ":".join(paths), why="the writer of progress")
    logger = f"metric_logger._component_={WRITER_MODULE}.TorchtuneLogger"
    info.trainer.set_command([*(info.trainer.command or ()), logger], why="the metric logger reports the progress")


def _writer_name(job: TrainJob) -> str:
    return f"{job.name}-progress-writer"
