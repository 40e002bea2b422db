# SPDX-License-Identifier: Apache-2.0
"""What a local cluster refuses before it creates anything, and what starts a script."""

from pathlib import Path

import pytest

from tests.builders import train_job
from tests.repository import ROOT
from trainwright.api.objects import Document, wire
from trainwright.controller.cli.local import daemon, feasibility
from trainwright.controller.cli.local.options import LocalOptions
from trainwright.controller.local.node.images import Images


def job_of(runtime: str, command: tuple[str, ...] = ("python", "train.py")) -> Document:
    trainer = {"command": list(command)} if command else {}
    return wire(train_job("job", "default", runtimeRef={"name": runtime}, trainer=trainer))


def objects_of(job: Document) -> list[Document]:
    runtime = feasibility.shipped_runtime_of(job)
    assert runtime is not None
    made = feasibility.objects_of(job, runtime)
    assert made
    return made


def images_of(folder: Path, text: str = "") -> Images:
    if text:
        (folder / daemon.IMAGES).write_text(text)
    return daemon.images_of(LocalOptions(name="default", folder=folder))


REFUSED = {
    "deepspeed-distributed": "container node of node: it starts sshd",
    "mlx-distributed": "container node of node: it starts sshd",
    "flux-distributed": "container flux-installer of node: Flux needs fixed paths",
}
RUNS = (
    "torch-distributed",
    "jax-distributed",
    "xgboost-distributed",
    "torchtune-llama3.2-1b",
    "torchtune-llama3.2-3b",
    "torchtune-qwen2.5-1.5b",
)


def test_each_shipped_runtime_is_known_to_run_or_not() -> None:
    shipped = {path.stem for path in (ROOT / "config" / "runtimes").glob("*-*.yaml")}
    assert shipped == {*REFUSED, *RUNS}


@pytest.mark.parametrize("runtime", REFUSED)
def test_what_needs_its_image_is_refused_with_the_container_and_the_reason(tmp_path: Path, runtime: str) -> None:
    assert REFUSED[runtime] in feasibility.obstacle(objects_of(job_of(runtime)), images_of(tmp_path))


@pytest.mark.parametrize("runtime", RUNS)
def test_python_runs(tmp_path: Path, runtime: str) -> None:
    assert feasibility.obstacle(objects_of(job_of(runtime)), images_of(tmp_path)) == ""


def test_a_container_without_a_command_is_refused_until_its_image_has_one(tmp_path: Path) -> None:
    objects = objects_of(job_of("xgboost-distributed", ()))
    images = images_of(tmp_path)
    assert "add to " in feasibility.obstacle(objects, images)
    images = images_of(tmp_path, 'images: [{image: "*/xgboost-runtime*", command: [python, train.py]}]')
    assert feasibility.obstacle(objects, images) == ""


def test_a_mapped_image_is_taken_to_run(tmp_path: Path) -> None:
    images = images_of(tmp_path, 'images: [{image: "*/mlx-runtime*", command: ["true"]}]')
    assert feasibility.obstacle(objects_of(job_of("mlx-distributed")), images) == ""


@pytest.mark.parametrize("image", ["ghcr.io/a/model-initializer:v1", "ghcr.io/a/model-initializer@sha256:ab"])
def test_initializers_are_our_command_however_they_are_named(tmp_path: Path, image: str) -> None:
    command = images_of(tmp_path).environment_of(image).command
    assert command[-4:] == ("initialize", "model", "--output", "/workspace/model")
    own = 'images: [{image: "*/model-initializer*", command: ["true"]}]'
    assert images_of(tmp_path, own).environment_of(image).command == ("true",)


def environment(folder: Path, *programs: str) -> str:
    (folder / "bin").mkdir()
    for program in programs:
        (folder / "bin" / program).write_text("#!/bin/sh\n")
        (folder / "bin" / program).chmod(0o755)
    return f'images: [{{image: "*", environment: "{folder}"}}]'


@pytest.mark.parametrize(
    ("runtime", "programs", "command"),
    [
        ("torch-distributed", ("torchrun",), ("torchrun",)),
        ("torch-distributed", (), ("python",)),
        ("jax-distributed", ("torchrun",), ("python",)),
    ],
)
def test_torchrun_starts_the_scripts_of_torch_where_the_environment_has_it(
    tmp_path: Path, runtime: str, programs: tuple[str, ...], command: tuple[str, ...]
) -> None:
    job = job_of(runtime)
    found = feasibility.shipped_runtime_of(job)
    assert found is not None
    starter = feasibility.starter_of(objects_of(job), found, images_of(tmp_path, environment(tmp_path, *programs)))
    assert starter.command == command
    assert ("has no torchrun" in starter.missing) == (runtime == "torch-distributed" and not programs)


def test_a_job_that_admission_refuses_is_left_to_admission() -> None:
    job = job_of("xgboost-distributed")
    runtime = feasibility.shipped_runtime_of(job)
    assert runtime is not None
    job["spec"]["trainer"]["env"] = [{"name": "DMLC_TRACKER_URI", "value": "mine"}]
    assert feasibility.objects_of(job, runtime) == []
    job["spec"]["trainer"]["numNodes"] = "two"
    assert feasibility.objects_of(job, runtime) == []
    assert feasibility.shipped_runtime_of(job_of("mine")) is None


def annotations_of(job: Document) -> dict[str, str]:
    """Those of the pods that the job trains in."""
    (jobset,) = (one for one in objects_of(job) if one["kind"] == "JobSet")
    (part,) = (one for one in jobset["spec"]["replicatedJobs"] if one["name"] == "node")
    found: dict[str, str] = part["template"]["spec"]["template"]["metadata"].get("annotations") or {}
    return {name: value for name, value in found.items() if "trainwright.dev/" in name}


@pytest.mark.parametrize("runtime", RUNS)
def test_what_is_asked_of_the_local_node_reaches_the_pods(runtime: str) -> None:
    job = job_of(runtime)
    mine = {"manager": "example.com/me", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    job["spec"]["runtimePatches"] = [mine]
    assert not feasibility.has_output(objects_of(job))
    feasibility.ask(
        job, objects_of(job), {"workdir.trainwright.dev/": "/here", "runs.trainwright.dev/": "/runs"}, "example.com/us"
    )
    assert annotations_of(job) == {"workdir.trainwright.dev/node": "/here", "runs.trainwright.dev/node": "/runs"}
    assert feasibility.has_output(objects_of(job))
    # Asked again, what was asked before is forgotten, and what others have patched stays.
    feasibility.ask(job, objects_of(job), {"output.trainwright.dev/": "/out"}, "example.com/us")
    assert annotations_of(job) == {"output.trainwright.dev/node": "/out"}
    assert job["spec"]["runtimePatches"][0] == mine


def test_a_job_whose_name_is_generated_is_known_before_it_is_created() -> None:
    job = job_of("torch-distributed")
    job["metadata"] = {"generateName": "train-", "namespace": "default"}
    assert objects_of(job)
    assert job["metadata"] == {"generateName": "train-", "namespace": "default"}
