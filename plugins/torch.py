# SPDX-License-Identifier: Apache-2.0
"""The Torch plugin: the variables PET_*, from which torchrun reads its settings, and torchtune commands.

A torchtune command gets the recipe and the configuration for the model, the nodes, the devices and the arguments of the
job. The name of the runtime, torchtune-<name>-<size>, says which model it is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trainwright.api.trainer.v1alpha1 import TorchMLPolicySource, Trainer, TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE, STEP_TRAINER
from trainwright.plugins.contract import (
    PORT,
    TRAIN_JOB,
    ContainerModel,
    Finding,
    Info,
    PodSet,
    Refusal,
    Warned,
    cpu_count,
    gpu_count,
    invalid,
    open_trainer_port,
    takes_part,
)

AUTO = "auto"
"""torchrun starts one process for each accelerator."""


class TorchPlugin:
    """Sets the number of nodes and the variables of torchrun, in the trainer and in the targets of `envInjection`.

    For runtimes with `mlPolicy.torch`. For a torchtune command it adds the recipe and the configuration instead of the
    address of the first node.
    """

    name = "Torch"

    def validate(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Check for reserved variables, targets of envInjection that do not exist, and limits of torchtune."""
        policy = info.ml_policy_or_empty.torch
        return findings(info, policy, job) if policy is not None else ()

    def validate_shaped(self, info: Info, job: TrainJob) -> Iterable[Finding]:
        """Warn of numbers of processes that do not fit the GPUs."""
        if info.ml_policy_or_empty.torch is None:
            return ()
        return process_findings(info, job, processes_per_node(info, job)[0])

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
            # Where no job has the trainer label, the first pod of the job `node` counts.
            host = pods.host() if pods is not None else f"{info.job.name}-{NODE}-0-0.{info.subdomain}"
            _set_master(container, host)


ENTRY_POINT = ("tune", "run")
MANAGED = ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file")
"""Settings that only the runtime sets, because they name its volumes."""
QLORA = "_qlora"
QLORA_SINGLE_DEVICE = "_qlora_single_device"

_QUANTISED = "model.quantize_base"
_LORA = "model.lora_attn_modules"
_DORA = "model.use_dora"


@dataclass(frozen=True, slots=True)
class Method:
    """The tuning method that the arguments select."""

    lora: bool
    quantised: bool


def wants_tune(info: Info) -> bool:
    """Whether the command of the TrainJob is `tune run`."""
    return info.trainer.command == ENTRY_POINT


def method_of(args: Iterable[str]) -> Method:
    """The method of these arguments. DoRA cannot be quantised."""
    args = tuple(args)
    quantised = _is_on(args, _QUANTISED) and not _is_on(args, _DORA)
    return Method(lora=any(_LORA in arg for arg in args), quantised=quantised)


def model_of(runtime_name: str) -> str:
    """The directory of the model's configurations, such as llama3_2/1B; empty for names of another form."""
    parts = runtime_name.split("-")
    if len(parts) != 3:
        return ""
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}"


def choose(nodes: int, processes: str, gpus: int, method: Method) -> tuple[str, str]:
    """The recipe and the suffix of its configuration."""
    if nodes != 1:
        return "full_finetune_distributed", "_full_multinode" if nodes > 1 else "_full"
    single = processes == "1" or gpus == 1
    where = "single_device" if single else "distributed"
    suffix = "_single_device" if single else ""
    if method.quantised:
        return f"lora_finetune_{where}", f"{QLORA}{suffix}"
    if method.lora:
        return f"lora_finetune_{where}", f"_lora{suffix}"
    return f"full_finetune_{where}", f"_full{suffix}"


def tuned_command(info: Info, job: TrainJob, pods: PodSet, processes: str) -> list[str]:
    """The whole command: entry point, rendezvous (for several processes), recipe, configuration, overrides."""
    assert job.spec is not None
    gpus = gpu_count(info.resources_per_node())
    command: list[str] = list(ENTRY_POINT)
    if pods.count > 1 or (gpus > 1 if processes == "auto" else int(processes) > 1):
        command.append(f"--rdzv_endpoint={pods.host()}:{PORT}")
    recipe, suffix = choose(pods.count, processes, gpus, method_of(info.trainer.args or ()))
    command += [recipe, "--config", f"{model_of(job.spec.runtime_ref.name)}{suffix}"]
    return [*command, *_overrides(info)]


def _overrides(info: Info) -> list[str]:
    return [
        part
        for pod_set in info.pod_sets
        if pod_set.step == STEP_TRAINER
        for container in pod_set.containers
        if container.name == NODE
        for part in container.command
        if part.partition("=")[0] in MANAGED
    ]


def _is_on(args: Iterable[str], key: str) -> bool:
    for arg in args:
        name, equals, value = arg.partition("=")
        if equals and key in name and value.strip().lower() == "true":
            return True
    return False


_RESERVED = frozenset({"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"})
_LLAMA_1B, _LLAMA_3B, _LLAMA_70B, _QWEN = "llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B"
_MODELS = (_LLAMA_1B, _LLAMA_3B, _LLAMA_70B, _QWEN)
_ON_SEVERAL_NODES = (_LLAMA_70B,)
_NEVER_QUANTISED = (_QWEN,)
_QUANTISED_ON_ONE_DEVICE = (_LLAMA_1B, _LLAMA_3B)


def findings(info: Info, policy: TorchMLPolicySource, job: TrainJob) -> Iterator[Finding]:
    yield from _injection_findings(info, policy, job)
    trainer = job.spec_or_empty.trainer
    if trainer is None:
        return
    reserved = sorted({variable.name for variable in trainer.env or ()} & _RESERVED)
    if reserved:
        yield invalid("spec.trainer.env", trainer.env, f"{', '.join(reserved)}: set by the Torch plugin; remove them")
    if wants_tune(info):
        yield from _tune_findings(info, job, trainer)


def process_findings(info: Info, job: TrainJob, processes: str) -> Iterator[Finding]:
    """Warnings about a number of processes per node that does not fit the GPUs of the node's container."""
    trainer = job.spec_or_empty.trainer
    container = info.trainer_container
    gpus = gpu_count(container.resources) if container is not None else 0
    if trainer is None or not gpus:
        return
    given = trainer.num_proc_per_node
    if given is not None:
        if given > gpus:
            yield Warned(
                f"spec.trainer.numProcPerNode is {given}, and a node has {gpus} {'GPU' if gpus == 1 else 'GPUs'}: "
                f"processes that share a GPU fail in NCCL or run out of memory. Use {gpus}, or ask for more GPUs in "
                "spec.trainer.resourcesPerNode"
            )
    elif not gpu_count(info.resources_per_node()):
        yield Warned(
            f"spec.trainer.resourcesPerNode names no GPU, so the number of processes per node comes from its CPUs: "
            f"{processes}. The runtime's {gpus} GPUs are requested all the same. Name them in resourcesPerNode, or set "
            "spec.trainer.numProcPerNode"
        )


def _injection_findings(info: Info, policy: TorchMLPolicySource, job: TrainJob) -> Iterator[Finding]:
    assert job.spec is not None
    for target in policy.env_injection_or_empty.targets or ():
        pod_set = info.pod_set(target.job_name)
        for name in target.container_names:
            if pod_set is None or pod_set.any_container(name) is None:
                where = f"container {name} of replicated job {target.job_name}"
                yield invalid(
                    "spec.runtimeRef", target, f"the envInjection of the runtime names {where}, which does not exist"
                )


def _tune_findings(info: Info, job: TrainJob, trainer: Trainer) -> Iterator[Finding]:
    assert job.spec is not None
    name = job.spec.runtime_ref.name
    model, method = model_of(name), method_of(trainer.args or ())
    nodes = 1 if trainer.num_nodes is None else trainer.num_nodes
    processes = "auto" if trainer.num_proc_per_node is None else str(trainer.num_proc_per_node)
    _, suffix = choose(nodes, processes, gpu_count(info.resources_per_node()), method)
    if model not in _MODELS:
        yield invalid(
            "spec.runtimeRef.name",
            name,
            f"this runtime is for no known torchtune model; known are {', '.join(_MODELS)}",
        )
    if nodes > 1 and model not in _ON_SEVERAL_NODES:
        yield invalid("spec.trainer.numNodes", nodes, f"must be 1 for {model or 'this runtime'}")
    if QLORA in suffix and model in _NEVER_QUANTISED:
        yield invalid("spec.runtimeRef.name", name, f"{model} cannot be quantised; remove model.quantize_base")
    if QLORA in suffix and suffix != QLORA_SINGLE_DEVICE and model in _QUANTISED_ON_ONE_DEVICE:
        given = trainer.num_proc_per_node if trainer.num_proc_per_node is not None else processes
        problem = f"{model} can be quantised on a single device only"
        yield invalid("spec.trainer.numProcPerNode", given, problem)
        yield invalid("spec.trainer.resourcesPerNode", trainer.resources_per_node, problem)
    if nodes > 1 and (method.lora or method.quantised):
        yield invalid("spec.trainer.numNodes", nodes, "LoRA runs on one node only")
    yield from _managed_findings(trainer)


def _managed_findings(trainer: Trainer) -> Iterator[Finding]:
    for index, arg in enumerate(trainer.args or ()):
        if arg.partition("=")[0] in MANAGED:
            yield invalid(f"spec.trainer.args[{index}]", arg, "the runtime sets this for its volumes; remove it")
