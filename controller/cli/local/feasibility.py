# SPDX-License-Identifier: Apache-2.0
"""Whether a TrainJob can run on this machine, and how its script is started: known before anything is created.

The objects that the job would become are made here as the manager makes them. What is wrong with the job itself is left
to admission, which says it in its own words.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, dig, labels_of
from trainwright.api.quantity import Quantity
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.controller.cli.local.local_jobs import GPU
from trainwright.controller.local.node.document import RESTARTS
from trainwright.controller.local.node.images import Environment, Images, NodeAnnotations, unrunnable
from trainwright.controller.runtime import Client, Discovery, NotFound
from trainwright.controller.trainer.build.runtimes import RuntimeUnsupported, target_of
from trainwright.controller.views.cluster import if_there
from trainwright.plugins.contract import OFFLINE, FactUnavailable, Runtime
from trainwright.plugins.contract.errors import PipelineError
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

_FRAMEWORK = "trainer.kubeflow.org/framework"
_PYTHON = "python"
_TORCHRUN = "torchrun"
SCRIPT, OUTPUT_OF_MANIFEST = "trainwright.dev/local-run", "trainwright.dev/local-output"
"""Managers of the patches of a job's runtime: for a script, and for a job of a manifest."""
_RESTARTER = "trainwright.dev/local-run-restarts"

_GENERATED = "xxxxx"
"""In place of what the API server adds to `generateName`."""


async def runtime_of(job: Document, documents: Sequence[Document], client: Client) -> Runtime | None:
    """The runtime that the job names, among the documents or in the cluster; None leaves the rest to admission."""
    decoded = _decoded(job, TrainJob)
    if decoded is None:
        return None
    try:
        kind, key = target_of(decoded)
    except RuntimeUnsupported:
        return None
    for document in documents:
        if document.get("kind") == kind.RESOURCE.kind and dig(document, "metadata.name") == key.name:
            found: Runtime | None = _decoded(document, kind)
            return found
    return await if_there(client.get(kind, key.name, key.namespace))


def shipped_runtime_of(job: Document) -> Runtime | None:
    decoded = _decoded(job, TrainJob)
    if decoded is None:
        return None
    from trainwright.controller.cli.rendering.sources import RenderInputs  # noqa: PLC0415 - a cluster that runs has runtimes

    inputs = RenderInputs(jobs=[decoded])
    inputs.use_shipped()
    return inputs.runtimes[0] if inputs.runtimes else None


def objects_of(job: Document, runtime: Runtime) -> list[Document]:
    """The objects that the job becomes; none if that is refused, which admission says."""
    decoded = _decoded(job, TrainJob)
    if decoded is None:
        return []
    if not decoded.metadata.name:
        decoded.metadata.name = f"{decoded.metadata.generate_name or ''}{_GENERATED}"
    runtime.set_defaults()
    run = Pipeline(Registry.load(Selection.of(Configuration().plugins))).begin(decoded, runtime, None)
    try:
        if not run.validate(OFFLINE).allowed:
            return []
        return [component.document for component in run.render(OFFLINE).components]
    except (PipelineError, FactUnavailable):
        return []


def obstacle(objects: Sequence[Document], images: Images) -> str:
    """Why the containers of a job cannot run here; empty if they can."""
    found: dict[str, None] = {}
    for part, container, _ in _containers_of(objects):
        if why := unrunnable(container, images):
            found[f"container {container['name']} of {part}: {why}"] = None
    return "; ".join(found)


async def unserved(objects: Sequence[Document], client: Client) -> str:
    """Which object of a job the cluster does not serve; empty if it serves all."""
    discovery = Discovery(client)
    for document in objects:
        try:
            await discovery.resource_of(document)
        except NotFound:
            return f"it needs {document['kind']} of {document['apiVersion']}, which is not served"
    return ""


@dataclass(frozen=True, slots=True)
class Starter:
    command: tuple[str, ...]
    missing: str = ""
    """What the environment lacks; the script runs without it."""


def starter_in_image(runtime: Runtime | None) -> Starter:
    """As the Kubeflow SDK: torchrun for runtimes of torch; else python."""
    is_torch = runtime is not None and labels_of(runtime).get(_FRAMEWORK) == "torch"
    return Starter((_TORCHRUN if is_torch else _PYTHON,))


def starter_of(objects: Sequence[Document], runtime: Runtime, images: Images, python: str = "") -> Starter:
    """torchrun for runtimes of torch whose environment has it, as the Kubeflow SDK does; else python.

    `python` is the environment that is asked for; empty: that of the image.
    """
    starter = starter_in_image(runtime)
    if starter.command == (_PYTHON,):
        return starter
    found = [NodeAnnotations(python=python).environment(one) for one in environments_of(objects, images)]
    if not found or any(shutil.which(_TORCHRUN, path=os.pathsep.join(one.folders)) for one in found):
        return Starter((_TORCHRUN,))
    where = f"/{found[0].name.lstrip('/')}"
    lacking = (
        f"{where} has no torchrun: python starts the script, which has to join the other nodes by itself; "
        "for torchrun, install PyTorch there, or name an environment that has it with --python"
    )
    return Starter((_PYTHON,), lacking)


def environments_of(objects: Sequence[Document], images: Images) -> list[Environment]:
    return [images.environment_of(one.get("image") or "") for _, one, is_init in _containers_of(objects) if not is_init]


def ask(job: Document, objects: Sequence[Document], asked: Mapping[str, str], manager: str) -> None:
    """Ask the local node for something for the containers of the trainer; see `NodeAnnotations`.

    `asked` has values by the prefix of the annotation. What this manager of patches has asked for before is forgotten.
    """
    _annotate(job, _trainers(objects), {f"{prefix}{NODE}": value for prefix, value in asked.items()}, manager)


def _annotate(job: Document, parts: Sequence[Document], annotations: Mapping[str, str], manager: str) -> None:
    """Add a patch that gives the pods of these replicated Jobs annotations, in place of that manager's last one."""
    pods = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    if parts and annotations:
        others = [patch for patch in job["spec"].get("runtimePatches") or () if patch.get("manager") != manager]
        specification = {
            "template": {"spec": {"replicatedJobs": [{"name": one["name"], "template": pods} for one in parts]}}
        }
        job["spec"]["runtimePatches"] = [*others, {"manager": manager, "trainingRuntimeSpec": specification}]


def has_output(objects: Sequence[Document]) -> bool:
    pods = [part["template"]["spec"]["template"] for part in _trainers(objects)]
    asked = [NodeAnnotations.of({"metadata": pod.get("metadata") or {}}, NODE) for pod in pods]
    return any(one.output or one.runs for one in asked)


def _parts(objects: Sequence[Document]) -> list[Document]:
    found = (document for document in objects if document["kind"] == JobSet.RESOURCE.kind)
    return [part for document in found for part in document["spec"]["replicatedJobs"]]


def _trainers(objects: Sequence[Document]) -> list[Document]:
    return [
        part
        for part in _parts(objects)
        if (dig(part["template"], "metadata.labels") or {}).get(LABEL_ANCESTOR_STEP) == STEP_TRAINER
    ]


def ask_for_share(job: Document, nodes: Sequence[Document], parts: int, *, is_torch: bool = False) -> None:
    """Let each node of the job ask for one of so many parts of the machine: of its GPUs, or CPUs where it has none.

    So the scheduler keeps a job waiting while as many run as fit. What a manifest asks for stays.
    """
    trainer = job["spec"]["trainer"] = job["spec"].get("trainer") or {}
    if trainer.get("resourcesPerNode"):
        return
    amounts = [dig(node, "status.allocatable") or {} for node in nodes]
    gpus = sum(Quantity.parse(one.get(GPU, "0")).rounded_up() for one in amounts)
    if gpus:
        share = {GPU: str(max(1, gpus // parts))}
        trainer["resourcesPerNode"] = {"requests": share, "limits": share}
        return
    milli = sum(Quantity.parse(one.get("cpu", "0")).milli() for one in amounts)
    trainer["resourcesPerNode"] = {"requests": {"cpu": f"{max(1, milli // parts)}m"}}
    if is_torch and trainer.get("numProcPerNode") is None:
        trainer["numProcPerNode"] = 1  # as without the request, not one for each CPU


def never_restart(job: Document, objects: Sequence[Document]) -> None:
    """Let the local node start no container of the job again.

    A TrainJob has no field for it: the first failure of a script would be followed by its next run at once.
    """
    _annotate(job, _parts(objects), {RESTARTS: "none"}, _RESTARTER)


def _containers_of(objects: Sequence[Document]) -> Iterator[tuple[str, Document, bool]]:
    """All containers of the JobSets: the name of the replicated Job, the container, and whether it is an init one."""
    for part in _parts(objects):
        pod = part["template"]["spec"]["template"]["spec"]
        for kind in ("initContainers", "containers"):
            for one in pod.get(kind) or ():
                yield str(part["name"]), one, kind == "initContainers"


def _decoded(document: Document, model: Any) -> Any:
    try:
        found = msgspec.convert(document, model)
    except msgspec.ValidationError:
        return None
    found.set_defaults()
    return found
