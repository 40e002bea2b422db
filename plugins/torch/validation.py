# SPDX-License-Identifier: Apache-2.0
"""The validation of the Torch plugin."""

from collections.abc import Iterator

from trainwright.api.trainer.v1alpha1 import TorchMLPolicySource, Trainer, TrainJob
from trainwright.plugins.contract import Finding, Info, Warned, gpu_count, invalid
from trainwright.plugins.torch.tune import MANAGED, QLORA, QLORA_SINGLE_DEVICE, choose, method_of, model_of, wants_tune

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
