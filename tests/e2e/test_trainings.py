# SPDX-License-Identifier: Apache-2.0
"""PyTorch and JAX train on a local cluster. XGBoost does in `test_run`, whose environment has it.

The project does not install these frameworks. A test runs where an environment variable names a virtual environment
with the framework; CI has none, so there they are left out.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.repository import ROOT


@dataclass(frozen=True)
class Framework:
    """A sample that trains with a framework."""

    sample: str
    environment: str
    """Variable that names a virtual environment with the framework."""
    variable: str
    """One that the plugin sets and the training needs."""


FRAMEWORKS = {
    "torch": Framework("10-torch-training", "TRAINWRIGHT_TORCH", "PET_NNODES"),
    "jax": Framework("11-jax-training", "TRAINWRIGHT_JAX", "JAX_PROCESS_ID"),
}


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.needs_environment(framework.environment))
        for name, framework in FRAMEWORKS.items()
    ]
)
def framework(request: pytest.FixtureRequest, tmp_path: Path) -> Framework:
    """A framework, whose environment every image stands for."""
    found = FRAMEWORKS[request.param]
    environment = os.environ[found.environment]
    (tmp_path / "images.yaml").write_text(f'images: [{{image: "*", environment: "{environment}"}}]\n')
    return found


def trained(framework: Framework, folder: Path, *, nodes: int, isolation: str = "auto", without: str = "") -> list[str]:
    """The lines of the sample on that many nodes, each without its node. `without` is a variable that they lack."""
    job = yaml.safe_load((ROOT / "config" / "samples" / f"{framework.sample}.yaml").read_text())
    trainer = job["spec"]["trainer"]
    trainer["numNodes"] = nodes
    if without:
        trainer["command"] = ["env", "-u", without, *trainer["command"]]
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    command = (sys.executable, "-m", "trainwright.controller.cli.main", "local", "run", f"--dir={folder}")
    how = ("--capacity=cpu=8,memory=8Gi", f"--isolation={isolation}", "--timeout=200", f"--file={file}")
    done = subprocess.run([*command, *how], capture_output=True, text=True, timeout=280, check=False)
    assert bool(without) or done.returncode == 0, done.stdout + done.stderr
    return [line.partition("] ")[2] for line in done.stdout.splitlines() if "] worker " in line]


def weights_of(lines: list[str]) -> list[str]:
    """The weights that the processes print."""
    return [line.partition(": weights ")[2] for line in lines if ": weights " in line]


@pytest.mark.parametrize("isolation", ["namespaces", "rewrite"])
@pytest.mark.parametrize("nodes", [2, 4])
def test_all_processes_train_the_model_of_all_examples(
    framework: Framework, tmp_path: Path, nodes: int, isolation: str
) -> None:
    lines = trained(framework, tmp_path, nodes=nodes, isolation=isolation)
    assert {f"worker {rank} of {nodes}: {480 // nodes} examples" for rank in range(nodes)} <= set(lines)
    assert weights_of(lines) == nodes * weights_of(trained(framework, tmp_path, nodes=1))


def test_without_a_variable_of_the_plugin_they_do_not_find_each_other(framework: Framework, tmp_path: Path) -> None:
    lines = trained(framework, tmp_path, nodes=2, without=framework.variable)
    assert not [line for line in lines if "of 2" in line]
