# SPDX-License-Identifier: Apache-2.0
"""The plugin ProgressFile, and which pod of each framework reports."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.plugins.blueprints import blueprint, container, job_template
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.plugins.contract import OFFLINE, PodRef, Stage
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import Result, train_job

PIPELINE = Pipeline(Registry.load(Selection(enabled=frozenset({"ProgressFile"})), candidates=built_in()))
P = "trainwright.dev/progress"
DEFAULT = "/var/run/trainwright/progress.json"
FINAL = "/dev/termination-log"
VARIABLES = {"TRAINWRIGHT_PROGRESS_FILE": DEFAULT, "TRAINWRIGHT_PROGRESS_FINAL": FINAL}
ONE = {"numNodes": 1}


def outcome(made: TrainingRuntime, spec: str = "", *, old: dict[str, str] | None = None, **annotations: str) -> Result:
    """The result for a job with these annotations: `_file` stands for the one that ends so, `way` for the first."""
    marks = {P + ("" if name == "way" else name.replace("_", "-")): value for name, value in annotations.items()}
    before = train_job(spec, metadata={"annotations": old}) if old is not None else None
    run = PIPELINE.begin(train_job(spec, metadata={"annotations": marks}), made, before)
    return Result(run.validate(OFFLINE), run.render(OFFLINE))


def test_a_job_that_asks_for_it() -> None:
    pods = job_template("node", "trainer", container(), container("side"))
    result = outcome(blueprint(ONE, job_template("helper", None), pods), way="file")
    assert dict(result.env()) == VARIABLES
    assert result.container()["volumeMounts"] == [{"name": "trainwright-progress", "mountPath": "/var/run/trainwright"}]
    assert result.pod()["volumes"] == [{"name": "trainwright-progress", "emptyDir": {"sizeLimit": "1Mi"}}]
    for other in (result.container("node", "side"), result.container("helper")):
        assert "env" not in other
        assert "volumeMounts" not in other
    assert not result.verdict.errors
    assert not result.verdict.warnings


@pytest.mark.parametrize("way", ["push", "none"])
def test_other_jobs_are_as_without_the_plugin(way: str) -> None:
    result = outcome(blueprint(ONE), way=way)
    plain = Pipeline(Registry.load(candidates=built_in())).begin(train_job(), blueprint(ONE)).render(OFFLINE)
    assert result.rendering.components == plain.components


def test_a_path_of_the_users_gets_no_volume() -> None:
    made = blueprint(ONE, job_template("node", "trainer", container(terminationMessagePath="/tmp/end")))
    result = outcome(made, way="file:/data/progress.jsonl")
    assert result.env()["TRAINWRIGHT_PROGRESS_FILE"] == "/data/progress.jsonl"
    assert result.env()["TRAINWRIGHT_PROGRESS_FINAL"] == "/tmp/end"
    assert "volumes" not in result.pod()
    assert "volumeMounts" not in result.container()


def test_the_runtime_may_ask_for_all_its_jobs() -> None:
    made = blueprint(ONE)
    assert made.metadata is not None
    made.metadata.annotations = {P: "file:relative"}
    result = outcome(made)
    assert "env" not in result.container()
    assert [str(warning) for warning in result.verdict.warnings] == [
        f"the runtime's annotation {P} is ignored: 'file:relative' must be an absolute path"
    ]
    made.metadata.annotations = {P: "file"}
    assert dict(outcome(made).env()) == VARIABLES
    assert "env" not in outcome(made, way="none").container()


def test_a_wrong_value_is_refused_unless_it_was_there_before() -> None:
    (error,) = outcome(blueprint(ONE), way="files").verdict.errors
    assert str(error) == f'metadata.annotations[{P}]: Invalid value: "files": must be push, none, file or file:/PATH'
    kept = outcome(blueprint(ONE), way="files", old={P: "files"}).verdict
    assert not kept.errors
    assert [str(one) for one in kept.warnings] == [
        f"annotation {P} is ignored: 'files' must be push, none, file or file:/PATH"
    ]
    assert outcome(blueprint(ONE), way="files", old={P: "fil"}).verdict.errors


def test_torchtune_gets_the_writer_as_its_metric_logger(tmp_path: Path) -> None:
    made = blueprint({"numNodes": 1, "torch": {}}, name="torchtune-llama3.2-1b")
    reference = {"runtimeRef": {"name": "torchtune-llama3.2-1b", "kind": "TrainingRuntime"}}
    wanted = {"trainer": {"command": ["tune", "run"], "args": ["epochs=1"]}, **reference}
    result = outcome(made, json.dumps(wanted), way="file")
    logger = "metric_logger._component_=trainwright_progress.TorchtuneLogger"
    plain = outcome(made, json.dumps(wanted))
    assert result.container()["command"] == [*plain.container()["command"], logger]
    assert result.container()["args"] == ["epochs=1"]
    assert result.env()["PYTHONPATH"] == "/etc/trainwright/python"
    mount = {"name": "trainwright-progress-writer", "mountPath": "/etc/trainwright/python", "readOnly": True}
    assert mount in result.container()["volumeMounts"]
    volume = {"name": "trainwright-progress-writer", "configMap": {"name": "job-progress-writer"}}
    assert volume in result.pod()["volumes"]
    writer = result.component("ConfigMap", "job-progress-writer")
    assert writer.stage is Stage.POD_INPUT
    for name, text in writer.document["data"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    code = "import trainwright_progress as p; print(p.TorchtuneLogger.__name__)"
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout == b"TorchtuneLogger\n"
    assert "job-progress-writer" not in [component.reference.name for component in plain.rendering.components]


def test_the_path_of_python_is_kept_and_other_commands_are_left_alone() -> None:
    reference = {"runtimeRef": {"name": "torchtune-llama3.2-1b", "kind": "TrainingRuntime"}}
    main = container(env=[{"name": "PYTHONPATH", "value": "/own"}])
    made = blueprint({"numNodes": 1, "torch": {}}, job_template("node", "trainer", main), name="torchtune-llama3.2-1b")
    tuned = outcome(made, json.dumps({"trainer": {"command": ["tune", "run"]}, **reference}), way="file")
    assert tuned.env()["PYTHONPATH"] == "/etc/trainwright/python:/own"
    other = outcome(made, json.dumps({"trainer": {"command": ["tune", "run", "mine"]}, **reference}), way="file")
    assert other.container()["command"] == ["tune", "run", "mine"]
    assert other.env()["PYTHONPATH"] == "/own"


MPI: dict[str, Any] = {"numNodes": 2, "mpi": {"numProcPerNode": 1, "mpiImplementation": "OpenMPI"}}
MPI_JOBS = (job_template("launcher"), job_template("node", None))
REPORTERS = {
    "plain": (blueprint(ONE, job_template("first", "trainer"), job_template("second", "trainer")), "first"),
    "no policy": (blueprint(), "node"),
    "torch": (blueprint({"numNodes": 4, "torch": {}}, job_template("work", "trainer")), "work"),
    "jax": (blueprint({"numNodes": 4, "jax": {}}), "node"),
    "xgboost": (blueprint({"numNodes": 4, "xgboost": {}}), "node"),
    "flux": (blueprint({"numNodes": 2, "flux": {}}, job_template("node", "trainer")), "node"),
    "mpi": (blueprint(MPI, *MPI_JOBS), "node"),
    "mpi, launcher as node": (
        blueprint({**MPI, "mpi": {**MPI["mpi"], "runLauncherAsNode": True}}, *MPI_JOBS),
        "launcher",
    ),
}


@pytest.mark.parametrize(("made", "job"), REPORTERS.values(), ids=list(REPORTERS))
def test_the_pod_with_rank_zero(made: TrainingRuntime, job: str) -> None:
    marks = {"annotations": {P: "file"}}
    run = PIPELINE.begin(train_job(metadata=marks), made)
    assert run.enforced(OFFLINE).reporter == PodRef(job, 0, 0, "node")
    result = Result(run.validate(OFFLINE), run.render(OFFLINE))
    assert VARIABLES.items() <= result.env(job).items()
    others = {one["name"] for one in result.object("JobSet")["spec"]["replicatedJobs"]} - {job}
    for other in others:
        assert not VARIABLES.keys() & result.env(other).keys()


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


def test_initializers_report_beside_the_training() -> None:
    step = "model-initializer"
    loads = job_template(step, step, container(step), container("side"))
    made = blueprint(ONE, loads, job_template("node", "trainer", container()))
    result = outcome(made, way="file:/data/progress.jsonl")
    initializer = result.container(step, step)
    assert {one["name"]: one["value"] for one in initializer["env"]} == VARIABLES
    assert initializer["volumeMounts"] == [{"name": "trainwright-progress", "mountPath": "/var/run/trainwright"}]
    assert "env" not in result.container(step, "side")
    assert "env" not in outcome(made, way="push").container(step, step)
