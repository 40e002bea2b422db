# SPDX-License-Identifier: Apache-2.0
"""Whether a TrainJob can run on this machine, and how its script is started: known before anything is created.

The objects that the job would become are made here as the manager makes them. What is wrong with the job itself is left
to admission, which says it in its own words.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, labels_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP, NODE, STEP_TRAINER
from trainwright.controller.cli.rendering.sources import Inputs
from trainwright.controller.local.node.asked import WORKDIR
from trainwright.controller.local.node.images import Environment, Images
from trainwright.controller.local.node.pods import RESTARTS
from trainwright.controller.local.node.refusals import unrunnable
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.trainer.build.runtimes import RuntimeUnsupported, target_of
from trainwright.plugins.contract import OFFLINE, FactUnavailable, PipelineError, Runtime
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

_FRAMEWORK = "trainer.kubeflow.org/framework"
_PYTHON = "python"
_TORCHRUN = "torchrun"
_PATCHER = "trainwright.dev/local-run"
_RESTARTER = "trainwright.dev/local-run-restarts"
"""Who the patch of a job's runtime is from."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container that a job would have."""

    part: str
    """Name of its replicated Job."""
    document: Document
    init: bool


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
        if document.get("kind") == kind.RESOURCE.kind and (document.get("metadata") or {}).get("name") == key.name:
            found: Runtime | None = _decoded(document, kind)
            return found
    try:
        return await client.get(kind, key.name, key.namespace)
    except NotFound:
        return None


def shipped_runtime_of(job: Document) -> Runtime | None:
    """The runtime that the job names, if it is one of the shipped ones."""
    decoded = _decoded(job, TrainJob)
    if decoded is None:
        return None
    inputs = Inputs(jobs=[decoded])
    inputs.use_shipped()
    return inputs.runtimes[0] if inputs.runtimes else None


def objects_of(job: Document, runtime: Runtime) -> list[Document]:
    """The objects that the job becomes; none if that is refused, which admission says."""
    decoded = _decoded(job, TrainJob)
    if decoded is None:
        return []
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
    for one in containers_of(objects):
        if why := unrunnable(one.document, images):
            found[f"container {one.document['name']} of {one.part}: {why}"] = None
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
    """What starts the script of a job."""

    command: tuple[str, ...]
    missing: str = ""
    """What the environment lacks; the script runs without it."""


def starter_of(objects: Sequence[Document], runtime: Runtime, images: Images) -> Starter:
    """torchrun for runtimes of torch whose environment has it, as the Kubeflow SDK does; else python."""
    if labels_of(runtime).get(_FRAMEWORK) != "torch":
        return Starter((_PYTHON,))
    found = [images.environment_of(one.document.get("image") or "") for one in containers_of(objects) if not one.init]
    if not found or any(_has(environment, _TORCHRUN) for environment in found):
        return Starter((_TORCHRUN,))
    where = f"/{found[0].name.lstrip('/')}"
    lacking = f"{where} has no torchrun: python starts the script, which has to join the other nodes by itself"
    return Starter((_PYTHON,), lacking)


def start_in(folder: Path, job: Document, objects: Sequence[Document]) -> None:
    """Let the containers of the trainer start in a folder of this machine.

    A TrainJob has no field for it. The annotation means something to the node of a local cluster only.
    """
    parts = [
        part["name"]
        for document in objects
        if document["kind"] == JobSet.RESOURCE.kind
        for part in document["spec"]["replicatedJobs"]
        if ((part["template"].get("metadata") or {}).get("labels") or {}).get(LABEL_ANCESTOR_STEP) == STEP_TRAINER
    ]
    annotations = {f"{WORKDIR}{NODE}": str(folder)}
    if parts:
        patched = [
            {"name": part, "template": {"spec": {"template": {"metadata": {"annotations": annotations}}}}}
            for part in parts
        ]
        job["spec"]["runtimePatches"] = [
            {"manager": _PATCHER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": patched}}}}
        ]


def never_restart(job: Document, objects: Sequence[Document]) -> None:
    """Let the local node start no container of the job again.

    A TrainJob has no field for it: the first failure of a script would be followed by its next run at once.
    """
    pod = {"template": {"spec": {"template": {"metadata": {"annotations": {RESTARTS: "none"}}}}}}
    parts = [
        {"name": part["name"], **pod}
        for document in objects
        if document["kind"] == JobSet.RESOURCE.kind
        for part in document["spec"]["replicatedJobs"]
    ]
    patches = job["spec"].setdefault("runtimePatches", [])
    if parts and not any(one.get("manager") == _RESTARTER for one in patches):
        spec = {"template": {"spec": {"replicatedJobs": parts}}}
        patches.append({"manager": _RESTARTER, "trainingRuntimeSpec": spec})


def containers_of(objects: Sequence[Document]) -> Iterator[Container]:
    """All containers of the JobSets."""
    for document in objects:
        if document["kind"] != JobSet.RESOURCE.kind:
            continue
        for part in document["spec"]["replicatedJobs"]:
            pod = part["template"]["spec"]["template"]["spec"]
            for kind in ("initContainers", "containers"):
                for one in pod.get(kind) or ():
                    yield Container(str(part["name"]), one, kind == "initContainers")


def _has(environment: Environment, program: str) -> bool:
    return shutil.which(program, path=os.pathsep.join(environment.folders)) is not None


def _decoded(document: Document, model: Any) -> Any:
    """The document as a model with its defaults; None if it is not one."""
    try:
        found = msgspec.convert(document, model)
    except msgspec.ValidationError:
        return None
    found.set_defaults()
    return found
