# SPDX-License-Identifier: Apache-2.0
"""The samples that train, the environments that they train in, and what their lines say when they have."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.repository import ROOT

TORCH = "TRAINWRIGHT_TORCH"
"""Variable that names an environment, or an interpreter, with PyTorch."""


@functools.cache
def installed(option: str, folder: str) -> str:
    """An environment that hack/install.py sets up once."""
    done = subprocess.run(
        [sys.executable, "hack/install.py", option], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(ROOT / ".run" / folder)


@dataclass(frozen=True)
class Framework:
    """A sample that trains with a framework."""

    sample: str
    examples: int
    """That all processes train on together."""
    environment: Callable[[], str]
    """A virtual environment with the framework, or an interpreter."""
    variable: str
    """One that the plugin sets and the training needs."""
    without: str
    """What a process says that lacks the variable."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment."""


FRAMEWORKS = {
    "xgboost": Framework(
        "09-xgboost", 1500, lambda: installed("--for-run", "venv"), "DMLC_TASK_ID", "KeyError: 'DMLC_TASK_ID'"
    ),
    # Without PET_NNODES, torchrun assumes one node, in which the second has no place. The first trains alone, until the
    # failure of the second ends the job. The settings work around
    # torchrun 1.13, which fails under Python 3.11 with its defaults of both; they concern a second process of a node,
    # and no node has one.
    "torch": Framework(
        "10-torch-training",
        480,
        lambda: os.environ[TORCH],
        "PET_NNODES",
        "IndexError: list index out of range",
        settings={"PET_REDIRECTS": "1:1", "PET_TEE": "1:1"},
    ),
    "jax": Framework(
        "11-jax-training",
        480,
        lambda: installed("--for-trainings", "trainings"),
        "JAX_PROCESS_ID",
        "KeyError: 'JAX_PROCESS_ID'",
    ),
}


def write_images(name: str, folder: Path) -> Path:
    """An `images.yaml` that maps every image to the environment of the framework."""
    framework = FRAMEWORKS[name]
    image = {"image": "*", "environment": framework.environment(), "env": dict(framework.settings)}
    file = folder / "images.yaml"
    file.write_text(yaml.safe_dump({"images": [image]}))
    return file


def job_of(name: str, nodes: int) -> dict[str, Any]:
    """The TrainJob of the sample, on that many nodes."""
    job: dict[str, Any] = yaml.safe_load((ROOT / "config" / "samples" / f"{FRAMEWORKS[name].sample}.yaml").read_text())
    job["spec"]["trainer"]["numNodes"] = nodes
    return job


def trained(name: str, folder: Path, *, nodes: int, isolation: str = "auto", without: str = "NOTHING") -> list[str]:
    """The lines of the sample on that many nodes, each without its node. `without` is a variable that they lack."""
    framework = FRAMEWORKS[name]
    cluster = folder / "cluster"
    cluster.mkdir(exist_ok=True)
    write_images(name, cluster)
    job = job_of(name, nodes)
    trainer = job["spec"]["trainer"]
    trainer["command"] = ["env", "-u", without, *trainer["command"]]
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    command = (sys.executable, "-m", "trainwright.controller.cli.main", "local", "run", f"--dir={cluster}")
    how = ("--capacity=cpu=8,memory=8Gi", f"--isolation={isolation}", "--timeout=400", f"--file={file}")
    done = subprocess.run([*command, *how], capture_output=True, text=True, timeout=440, check=False)
    assert without == framework.variable or done.returncode == 0, done.stdout + done.stderr
    return [line.partition("] ")[2] for line in done.stdout.splitlines() if line.startswith(("[rank ", "[node "))]


@functools.cache
def alone(name: str, parent: Path) -> str:
    """The figures of one process that trains on all examples."""
    folder = parent / f"{name}-alone"
    folder.mkdir(parents=True)
    ((_, _, figures),) = models(trained(name, folder, nodes=1))
    return figures


def models(lines: list[str]) -> list[tuple[str, str, str]]:
    """Rank, digest and figures of the model that each process has in the end."""
    return re.findall(r"worker (\d): model ([0-9a-f]{12}), (.*)", "\n".join(lines))


def check(name: str, lines: list[str], nodes: int, figures: str) -> None:
    """Fail unless that many processes trained one model, each on its part, that is the model of all examples."""
    shares = re.findall(r"worker (\d) of (\d): (\d+) \w+", "\n".join(lines))
    part = FRAMEWORKS[name].examples // nodes
    assert sorted(shares) == [(str(rank), str(nodes), str(part)) for rank in range(nodes)]
    found = models(lines)
    assert sorted(rank for rank, _, _ in found) == [str(rank) for rank in range(nodes)]
    assert len({digest for _, digest, _ in found}) == 1
    assert {text for _, _, text in found} == {figures}
