# SPDX-License-Identifier: Apache-2.0
"""The extension points of the Torch plugin: the variables PET_*, from which torchrun reads its settings."""

from collections.abc import Iterable

from trainwright.api.trainer.v1alpha1 import TorchMLPolicySource, TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.plugins.contract import (
    PORT,
    TRAIN_JOB,
    ContainerModel,
    Finding,
    Info,
    PodRef,
    PodSet,
    Refusal,
    cpu_count,
    gpu_count,
    open_trainer_port,
    takes_part,
)
from trainwright.plugins.torch.tune import tuned_command, wants_tune
from trainwright.plugins.torch.validation import findings, process_findings

AUTO = "auto"
"""torchrun starts one process for each accelerator."""


class TorchPlugin:
    """Sets the number of nodes and the variables of torchrun, in the trainer and in the targets of `envInjection`.

    For runtimes with `mlPolicy.torch`. For a torchtune command it adds the recipe and the configuration instead of the
    address of the first node.
    """

    name = "Torch"

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:  # noqa: ARG002 - the contract's
        """Check for reserved variables, targets of envInjection that do not exist, and limits of torchtune."""
        policy = info.ml_policy_or_empty.torch
        return findings(info, policy, job) if policy is not None else ()

    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:  # noqa: ARG002 - the contract's
        """Warn of numbers of processes that do not fit the GPUs."""
        if info.ml_policy_or_empty.torch is None:
            return ()
        return process_findings(info, job, processes_per_node(info, job)[0])

    def reporter(self, info: Info, job: TrainJob) -> PodRef | None:  # noqa: ARG002 - the contract's
        return PodRef.first_of(info.trainer_pods) if info.ml_policy_or_empty.torch is not None else None

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set the number of pods, and the variables of the main container and of the targets of envInjection."""
        policy = info.ml_policy_or_empty.torch
        if policy is None:
            return
        pods = info.trainer_pods
        if pods is not None:
            pods.set_nodes(job)
        processes, why = processes_per_node(info, job)
        container = info.trainer_container
        if pods is not None and container is not None and takes_part(info, pods):
            self._set_up(info, job, pods, container, (processes, why))
        _inject(info, policy, pods, (processes, why))

    def _set_up(
        self, info: Info, job: TrainJob, pods: PodSet, container: ContainerModel, processes: tuple[str, str]
    ) -> None:
        for variable in info.trainer_env:
            container.set_variable(variable, why="spec.trainer.env", source=TRAIN_JOB)
        _set_shape(container, pods, processes)
        if wants_tune(info):
            command = tuned_command(info, job, pods, processes[0])
            info.trainer.set_command(command, why="torchtune recipe and configuration for these nodes and devices")
        else:
            _set_master(container, pods.host())
        open_trainer_port(container, why="torchrun's rendezvous listens here")


def processes_per_node(info: Info, job: TrainJob) -> tuple[str, str]:
    """The value of PET_NPROC_PER_NODE, and why.

    It is the TrainJob's number; else `auto` if there are accelerators, which torchrun counts; else the number of CPUs.
    """
    trainer = job.spec_or_empty.trainer
    if trainer is not None and trainer.num_proc_per_node is not None:
        return str(trainer.num_proc_per_node), "spec.trainer.numProcPerNode"
    resources = info.resources_per_node()
    gpus = gpu_count(resources)
    if gpus > 0:
        return AUTO, f"torchrun counts the accelerators ({gpus} in the resources)"
    cpus = cpu_count(resources)
    return str(max(1, cpus)), f"one per CPU ({cpus} in the resources), without accelerators"


def _set_shape(container: ContainerModel, pods: PodSet | None, processes: tuple[str, str]) -> None:
    container.set_env("PET_NNODES", str(pods.count if pods is not None else 1), why="number of nodes")
    container.set_env("PET_NPROC_PER_NODE", processes[0], why=processes[1])
    container.set_completion_index("PET_NODE_RANK", why="index of the pod")


def _set_master(container: ContainerModel, host: str) -> None:
    container.set_env("PET_MASTER_ADDR", host, why="the first pod hosts the rendezvous")
    container.set_env("PET_MASTER_PORT", PORT, why="port of the rendezvous")


def _inject(info: Info, policy: TorchMLPolicySource, pods: PodSet | None, processes: tuple[str, str]) -> None:
    for target in policy.env_injection_or_empty.targets or ():
        pod_set = info.pod_set(target.job_name)
        for name in target.container_names:
            container = pod_set.any_container(name) if pod_set is not None else None
            if container is None:
                where = f"container {name} of replicated job {target.job_name}"
                raise Refusal(f"envInjection names {where}, which the runtime does not have; correct the runtime")
            _set_shape(container, pods, processes)
            _set_master(container, _first_host(info, pods))


def _first_host(info: Info, pods: PodSet | None) -> str:
    """Host name of the first node; where no job has the trainer label, that of the first pod of the job `node`."""
    return pods.host() if pods is not None else f"{info.job.name}-{NODE}-0-0.{info.subdomain}"
