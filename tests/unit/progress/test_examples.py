# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/users/progress.md, run as scripts. Stand-ins take the place of the frameworks."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pages import blocks_of
from tests.repository import ROOT
from tests.unit.progress.reporters import ENVIRONMENT, serving
from trainwright import progress
from trainwright.progress import Report, read

EXAMPLES = {block.title: block.text for block in blocks_of(ROOT / "docs" / "users" / "progress.md") if block.title}
STANDINS = ROOT / "tests" / "unit" / "progress" / "standins"


def run(name: str, folder: Path, **variables: str) -> tuple[int, Report]:
    """Run an example: its exit code, and its last report."""
    (folder / name).write_text(EXAMPLES[name])
    environment = {key: value for key, value in os.environ.items() if key not in ENVIRONMENT}
    environment |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(STANDINS)]), **variables}
    environment[progress.FILE] = str(folder / "progress.json")
    done = subprocess.run(
        [sys.executable, name], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert "no progress" not in done.stderr
    return done.returncode, read((folder / "progress.json").read_bytes())


@pytest.mark.parametrize(
    ("name", "step", "metrics"),
    [
        ("pytorch_loop.py", 20, {"loss": "1.0", "current_epoch": "2", "total_epochs": "2", "total_steps": "20"}),
        ("transformers_trainer.py", 20, {"loss": "1.0", "current_epoch": "2.0", "learning_rate": "5e-05"}),
        ("lightning_trainer.py", 20, {"loss": "1.0", "current_epoch": "2", "val_accuracy": "0.5"}),
        ("jax_loop.py", 10, {"loss": "1.0", "total_steps": "10"}),
        ("xgboost_callback.py", 50, {"total_steps": "50"}),
    ],
)
def test_an_example_reports_to_its_end(tmp_path: Path, name: str, step: int, metrics: dict[str, str]) -> None:
    code, report = run(name, tmp_path)
    assert code == 0
    assert (report.state, report.percentage, report.step) == ("completed", 100, step)
    assert metrics.items() <= report.metrics.items()
    if name == "xgboost_callback.py":
        assert 0.02 <= float(report.metrics["test-rmse"]) < 1


@pytest.mark.parametrize("name", ["pytorch_loop.py", "transformers_trainer.py", "lightning_trainer.py"])
def test_an_example_that_fails_says_so(tmp_path: Path, name: str) -> None:
    code, report = run(name, tmp_path, FAILS="1")
    assert code == 1
    assert (report.state, report.message, report.step) == ("failed", "FloatingPointError", 5)


@pytest.mark.parametrize(("disabled", "pushed"), [("", False), ("TRUE", True)])
def test_transformers_own_callback_goes_first(tmp_path: Path, disabled: str, pushed: bool) -> None:
    with serving() as server:
        variables = {progress.SERVER_URL: server.url, "DISABLE_KUBEFLOW_INTEGRATION": disabled}
        code, report = run("transformers_trainer.py", tmp_path, **variables)
    assert (code, report.state) == (0, "completed")
    assert bool(server.reports) == pushed


def test_the_page_has_each_example(tmp_path: Path) -> None:
    frameworks = {
        "pytorch_loop.py",
        "transformers_trainer.py",
        "lightning_trainer.py",
        "jax_loop.py",
        "xgboost_callback.py",
    }
    assert EXAMPLES.keys() == frameworks | {"sdk.py", "reading.py", "by_hand.py", "quiet.yaml"}
    (tmp_path / "progress.json").write_text('{"progressPercentage": 4, "loss": 0.5}')
    printed = subprocess.run(
        [sys.executable, "-c", EXAMPLES["reading.py"]],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == "4 0.5\n"


class Config(dict[str, Any]):
    """What torchtune hands over: a mapping with `get`."""


@pytest.mark.parametrize("steps", [None, 10])
def test_the_logger_of_torchtune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int | None) -> None:
    monkeypatch.setenv(progress.FILE, str(tmp_path / "progress.json"))
    logger = progress.TorchtuneLogger()
    logger.log_config(Config(epochs=3, max_steps_per_epoch=steps))
    logger.log_dict({"loss": 0.25, "lr": 2e-5, "tokens_per_second_per_gpu": 700.5}, step=15)
    logger.log("peak_memory_active", 12.5, step=15)
    logger._reporter._write(1.0)
    report = read((tmp_path / "progress.json").read_bytes())
    assert (report.step, report.loss, report.percentage) == (15, 0.25, 50 if steps else None)
    assert report.metrics["peak_memory_active"] == "12.5"
    assert (report.total_epochs, report.total_steps) == (3, 30 if steps else None)
    logger.close()
    assert read((tmp_path / "progress.json").read_bytes()).percentage == 100
