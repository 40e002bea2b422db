# SPDX-License-Identifier: Apache-2.0
"""torchtune: recipe and configuration that fit the model, the nodes, the devices and the arguments.

Validation and build ask the same questions here. Models are known by the name of the runtime, torchtune-<name>-<size>.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE, STEP_TRAINER
from trainwright.plugins.contract import PORT, Info, PodSet, gpu_count

ENTRY_POINT = ("tune", "run")
MANAGED = ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file")
"""Settings that belong to the runtime, since they name its volumes."""
QLORA = "_qlora"
QLORA_SINGLE_DEVICE = "_qlora_single_device"

_QUANTISED = "model.quantize_base"
_LORA = "model.lora_attn_modules"
_DORA = "model.use_dora"


@dataclass(frozen=True, slots=True)
class Method:
    """How the model is tuned, read from the arguments."""

    lora: bool
    quantised: bool


def wants_tune(info: Info) -> bool:
    """Whether the TrainJob runs torchtune: its command is exactly this."""
    return info.trainer.command == ENTRY_POINT


def method_of(args: Iterable[str]) -> Method:
    """Low-rank and quantised tuning; DoRA cannot be quantised, so it turns the latter off."""
    args = tuple(args)
    quantised = _is_on(args, _QUANTISED) and not _is_on(args, _DORA)
    return Method(lora=any(_LORA in arg for arg in args), quantised=quantised)


def model_of(runtime_name: str) -> str:
    """Directory of the model's configurations, empty for a name that does not tell: llama3_2/1B."""
    parts = runtime_name.split("-")
    if len(parts) != 3:
        return ""
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}"


def choose(nodes: int, processes: str, gpus: int, method: Method) -> tuple[str, str]:
    """Recipe, and suffix of its configuration."""
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
    """The whole command: entry point, rendezvous if there are several processes, recipe, configuration, overrides."""
    assert job.spec is not None
    gpus = gpu_count(info.resources_per_node())
    command: list[str] = list(ENTRY_POINT)
    if pods.count > 1 or (gpus > 1 if processes == "auto" else int(processes) > 1):
        command.append(f"--rdzv_endpoint={pods.host()}:{PORT}")
    recipe, suffix = choose(pods.count, processes, gpus, method_of(info.trainer.args or ()))
    command += [recipe, "--config", f"{model_of(job.spec.runtime_ref.name)}{suffix}"]
    return [*command, *_overrides(info)]


def _overrides(info: Info) -> list[str]:
    """The runtime's own settings, from the commands of its trainer containers."""
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
