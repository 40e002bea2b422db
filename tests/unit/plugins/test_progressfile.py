# SPDX-License-Identifier: Apache-2.0
"""The writer of torchtune, and which plugin says who reports; tests/conformance/renderings has the rest."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plugins.blueprints import blueprint, job_template
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import OFFLINE, PodRef, Stage
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import Result, train_job

PIPELINE = Pipeline(Registry.load(Selection(enabled=frozenset({"ProgressFile"})), candidates=built_in()))
ONE = {"numNodes": 1}


def test_the_writer_of_torchtune_can_be_imported(tmp_path: Path) -> None:
    made = blueprint({"numNodes": 1, "torch": {}}, name="torchtune-llama3.2-1b")
    reference = {"name": "torchtune-llama3.2-1b", "kind": "TrainingRuntime"}
    marks = {"annotations": {"trainwright.dev/progress": "file"}}
    run = PIPELINE.begin(train_job(metadata=marks, trainer={"command": ["tune", "run"]}, runtimeRef=reference), made)
    writer = Result(run.validate(OFFLINE), run.render(OFFLINE)).component("ConfigMap", "job-progress-writer")
    assert writer.stage is Stage.POD_INPUT
    for name, text in writer.document["data"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    code = "import trainwright_progress as p; print(p.TorchtuneLogger.__name__)"
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout == b"TorchtuneLogger\n"


MPI: dict[str, Any] = {"numNodes": 2, "mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"}}
MPI_JOBS = (job_template("launcher"), job_template("node", None))


@dataclass
class Answers:
    """A plugin of somebody else. Every built-in plugin is loaded beside it."""

    name: str
    answer: PodRef | None
    after: tuple[str, ...] = ()

    def reporter(self, info: object, job: object) -> PodRef | None:  # noqa: ARG002 - the contract's
        return self.answer


FOURTH = PodRef("node", 0, 3, "other")


@pytest.mark.parametrize(
    ("made", "plugins"),
    [
        (blueprint(ONE), [Answers("Acme", FOURTH)]),
        (blueprint(ONE), [Answers("Acme", FOURTH, after=("PlainML",))]),
        (blueprint({**ONE, "torch": {}}), [Answers("Acme", FOURTH)]),
        (blueprint(MPI, *MPI_JOBS), [Answers("Acme", FOURTH, after=("MPI",))]),
        (blueprint(ONE), [Answers("A", PodRef("node")), Answers("B", FOURTH), Answers("C", None)]),
    ],
)
def test_the_last_answer_of_a_plugin_counts_and_none_is_no_answer(
    made: TrainingRuntime, plugins: list[Answers]
) -> None:
    registry = Registry.of(*(entry.plugin for entry in PIPELINE.registry), *plugins)
    job = train_job("trainer: {numNodes: 4}")
    assert Pipeline(registry).begin(job, made).enforced(OFFLINE).reporter == FOURTH


def test_nobody_reports_without_pods_of_the_trainer() -> None:
    no_trainer = blueprint(ONE, job_template("helper", None))
    assert PIPELINE.begin(train_job(), no_trainer).enforced(OFFLINE).reporter is None
