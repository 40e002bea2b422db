# SPDX-License-Identifier: Apache-2.0
"""The torchtune recipe and configuration for the model, the nodes, the devices and the arguments of a job.

Validation and build both use this module. The name of the runtime, torchtune-<name>-<size>, says which model it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE, STEP_TRAINER
from trainwright.plugins.contract import PORT, Info, PodSet, gpu_count

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
    """The settings of the runtime, from the commands of its trainer containers."""
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
