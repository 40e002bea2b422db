# SPDX-License-Identifier: Apache-2.0
"""The values that the scripts of a Flux job depend on."""

from dataclasses import dataclass

from trainwright.api.kubernetes.core.v1 import EnvVar
from trainwright.api.trainer.v1alpha1 import FluxMLPolicySource, TrainJob
from trainwright.plugins.contract import Info, PodSet, gpu_count

VIEW_IMAGE = "FLUX_VIEW_IMAGE"
NETWORK_DEVICE = "FLUX_NETWORK_DEVICE"
QUEUE_POLICY = "FLUX_QUEUE_POLICY"
_DEFAULTS = {
    VIEW_IMAGE: "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    NETWORK_DEVICE: "eth0",
    QUEUE_POLICY: "fcfs",
}


@dataclass(frozen=True, slots=True)
class FluxShape:
    """Nodes, processes and devices of the instance."""

    nodes: int
    tasks: int
    """Processes on each node."""
    gpus: int
    """Accelerators of each node."""

    @property
    def run_flags(self) -> str:
        """Options of flux run."""
        flags = f"-N {self.nodes} -n {self.nodes * self.tasks}"
        return f"{flags} -g {self.gpus}" if self.gpus > 0 else flags

    @property
    def resource_flags(self) -> str:
        """Options of flux R encode."""
        flags = f"--cores={index_range(self.tasks)}"
        return f"{flags} --gpu={index_range(self.gpus)}" if self.gpus > 0 else flags


def settings_of(info: Info) -> dict[str, str]:
    """Image, device and queue policy: from the TrainJob's variables, else from those of the container, else defaults.

    Only literal values are used; a variable with a source has no value before the pod runs.
    """
    container = info.trainer_container
    variables: tuple[EnvVar, ...] = (*(container.env if container is not None else ()), *info.trainer_env)
    given = {v.name: v.value for v in variables if v.name in _DEFAULTS and v.value is not None}
    return {**_DEFAULTS, **given}


def shape_of(info: Info, job: TrainJob, policy: FluxMLPolicySource, nodes: PodSet | None) -> FluxShape:
    """The numbers of the TrainJob, else those of the runtime."""
    trainer = job.spec_or_empty.trainer_or_empty
    count, tasks = trainer.num_nodes, trainer.num_proc_per_node
    return FluxShape(
        nodes=count if count is not None else nodes.count if nodes is not None else 1,
        tasks=tasks if tasks is not None else policy.num_proc_per_node or 1,
        gpus=gpu_count(info.resources_per_node()),
    )


def command_of(info: Info) -> str:
    """The command to run, as one line: command and arguments of the TrainJob, or the command of the container.

    Arguments of the container are not part of it: they stay in the container, which passes them to the script.
    """
    container = info.trainer_container
    own = container.command if container is not None else ()
    command = info.trainer.command if info.trainer.command is not None else own
    return " ".join((*command, *(info.trainer.args or ()))).strip()


def index_range(count: int) -> str:
    """The range of that many indices: 0, or 0-3."""
    return "0" if count == 1 else f"0-{count - 1}"
