# SPDX-License-Identifier: Apache-2.0
"""What differs between runs, and what they came to."""

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.builders import progress, train_job
from trainwright.api.objects import Document, wire
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.views.comparison import (
    ComparedRun,
    JobComparison,
    Measure,
    as_csv,
    as_text,
    compare,
    direction_of,
)
from trainwright.controller.views.parameters import ANNOTATION_COMMIT, ANNOTATION_DIRTY, parameters_of

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def row(step: float, *, lows: dict[str, float] | None = None, **values: float) -> Sample:
    """One report."""
    return Sample(at=1000.0 + step, values={"current_step": step, **values}, lows=lows or {})


def job(name: str, *words: str, metrics: dict[str, str] | None = None, **trainer: Any) -> Document:
    command = ["torchrun", "/work/train.py", *words]
    told = progress(at="2026-11-25T11:30:00Z", metrics=metrics) if metrics is not None else None
    return wire(
        train_job(
            name,
            "default",
            uid=f"uid-{name}",
            created="2026-11-25T11:00:00Z",
            progress=told,
            runtimeRef={"name": "torch-distributed"},
            trainer={"command": command, **trainer},
        )
    )


def differing(comparison: JobComparison) -> dict[str, list[str | None]]:
    return {
        one.name: [found.parameters[place] for found in comparison.jobs]
        for place, one in enumerate(comparison.parameters)
    }


def test_only_what_differs_is_a_column() -> None:
    found = compare(
        [
            ComparedRun(job=job("a", "--lr", "0.1", "--epochs=3", "--amp", numNodes=2)),
            ComparedRun(job=job("b", "--lr=0.2", "--epochs", "3", numNodes=4, env=[{"name": "SEED", "value": "7"}])),
        ],
        NOW,
    )
    assert differing(found) == {
        "nodes": ["2", "4"],
        "--lr": ["0.1", "0.2"],
        "--amp": ["yes", None],
        "SEED": [None, "7"],
    }
    assert {one.name: one.value for one in found.same} == {
        "runtime": "torch-distributed",
        "command": "torchrun /work/train.py",
        "--epochs": "3",
    }


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--lr", "-0.5"], {"--lr": "-0.5"}),
        (["lr=0.1", "+model.depth=3"], {"lr": "0.1", "+model.depth": "3"}),
        (["--data", "a", "--data", "b"], {"--data": "a b"}),
        (["--amp", "--lr", "1"], {"--amp": "yes", "--lr": "1"}),
        (["-c", "print(1)"], {"-c": "print(1)"}),
        (["--api-token", "abc", "--password=abc"], {"--api-token": "(hidden)", "--password": "(hidden)"}),
    ],
)
def test_arguments_have_names(words: list[str], wanted: dict[str, str]) -> None:
    found = {name.name: value for name, value in parameters_of(job("a", *words)).items() if name.group == "argument"}
    assert found.pop("command") == "torchrun /work/train.py"
    assert found == wanted


def test_secrets_are_never_shown_and_do_not_differ() -> None:
    def of(name: str, secret: str) -> Document:
        env = [
            {"name": "HF_TOKEN", "value": secret},
            {"name": "DATA", "value": f"s3://me:{secret}@bucket"},
            {"name": "WANDB", "valueFrom": {"secretKeyRef": {"name": f"wandb-{name}", "key": "id"}}},
        ]
        made = job(name, "--auth-token", secret, env=env)
        part = {"name": "node", "env": [{"name": "API_KEY", "value": secret}, {"name": "SEED", "value": "1"}]}
        template: Document = {"spec": {"template": {"spec": {"containers": [part]}}}}
        template["metadata"] = {
            "annotations": {
                "workdir.trainwright.dev/node": f"/{name}",
                "runs.trainwright.dev/node": name,
                "local.trainwright.dev/restarts": name,
            }
        }
        patch = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}}}
        made["spec"]["runtimePatches"] = [{"manager": "example.com/me", "trainingRuntimeSpec": patch}]
        made["spec"]["initializer"] = {"dataset": {"storageUri": f"https://me:{secret}@host/d", "env": env[:1]}}
        return made

    found = compare([ComparedRun(job=of("a", "first-word")), ComparedRun(job=of("b", "other-word"))], NOW)
    text = json.dumps(msgspec.to_builtins(found))
    assert "first-word" not in text
    assert "other-word" not in text
    assert differing(found) == {
        "folder": ["/a", "/b"],
        "WANDB": ["(Secret wandb-a, key id)", "(Secret wandb-b, key id)"],
    }
    assert any(one.name.endswith("env[SEED]") and one.value == "1" for one in found.same)


def test_what_the_runtime_decided_is_read_from_the_jobset() -> None:
    containers = [{"name": "side", "image": "other"}, {"name": "node", "image": "torch:2"}]
    jobset = {
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "template": {
                        "metadata": {"labels": {LABEL_ANCESTOR_STEP: "trainer"}},
                        "spec": {"parallelism": 2, "template": {"spec": {"containers": containers}}},
                    },
                }
            ]
        }
    }
    found = compare(
        [ComparedRun(job=job("a"), jobset=jobset), ComparedRun(job=job("b", numNodes=2, image="torch:3"))], NOW
    )
    assert differing(found) == {"image": ["torch:2", "torch:3"]}


def test_the_commit_and_whether_it_was_changed() -> None:
    first, second = job("a"), job("b")
    first["metadata"]["annotations"] = {ANNOTATION_COMMIT: "1" * 40, ANNOTATION_DIRTY: "true"}
    second["metadata"]["annotations"] = {ANNOTATION_COMMIT: "1" * 40, ANNOTATION_DIRTY: "false"}
    found = compare([ComparedRun(job=first), ComparedRun(job=second), ComparedRun(job=job("c"))], NOW)
    assert differing(found) == {"git commit": ["1" * 40, "1" * 40, None], "git changes": ["uncommitted", "none", None]}


def test_last_and_best_come_from_all_reports() -> None:
    joined = row(20, lows={"loss": 0.25}, loss=1.5, accuracy=0.7)
    rows = [row(10, loss=2.0, accuracy=0.9), joined, row(30, loss=1.0)]
    last = {"loss": "NaN", "current_step": "40", "total_steps": "100"}
    found = compare([ComparedRun(job=job("a", metrics=last), reports=rows)], NOW)
    assert [(one.name, one.best) for one in found.metrics] == [("loss", "low"), ("accuracy", "high")]
    loss, accuracy = found.jobs[0].measures
    assert loss is not None
    assert (loss.last, loss.last_number, loss.lowest, loss.lowest_step, loss.highest) == ("NaN", None, 0.25, 20, 2.0)
    assert accuracy is not None
    assert (accuracy.last, accuracy.best("high"), accuracy.best_step("high")) == ("0.7", 0.9, 10)


def test_the_best_value_is_one_that_was_passed_also_between_two_reports() -> None:
    last = {"accuracy": "0.7", "accuracy.max": "0.99 at step 7", "accuracy.min": "0.1 so far", "current_step": "9"}
    # An earlier attempt had a lower one, and passed it between the reports of these rows.
    rows = [row(4, lows={"accuracy": 0.05}, accuracy=0.2), row(9, accuracy=0.7)]
    found = compare([ComparedRun(job=job("a", metrics=last), reports=rows)], NOW)
    assert [one.name for one in found.metrics] == ["accuracy"]
    (measure,) = found.jobs[0].measures
    assert measure == Measure(last="0.7", last_number=0.7, lowest=0.05, lowest_step=4, highest=0.99, highest_step=7)


def test_a_job_that_has_only_its_last_report() -> None:
    found = compare([ComparedRun(job=job("a", metrics={"loss": "0.123456789"})), ComparedRun(job=job("b"))], NOW)
    assert [one.measures for one in found.jobs][1] == [None]
    measure = found.jobs[0].measures[0]
    assert measure is not None
    assert (measure.last, measure.lowest) == ("0.123456789", 0.123456789)


def test_a_job_that_has_ended_took_so_long() -> None:
    ended = job("a", metrics={"loss": "1"})
    condition = {"type": "Complete", "status": "True", "reason": "JobsCompleted", "message": ""}
    ended["status"]["conditions"] = [{**condition, "lastTransitionTime": "2026-11-25T11:10:00Z"}]
    found = compare([ComparedRun(job=ended), ComparedRun(job=job("b"))], NOW)
    assert [(one.state, one.seconds) for one in found.jobs] == [("Complete", 600.0), ("Pending", 3600.0)]


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("loss", "low"),
        ("train/loss", "low"),
        ("val_accuracy_loss", "low"),
        ("valLoss", "low"),
        ("eval_perplexity", "low"),
        ("RMSE", "low"),
        ("top5_acc", "high"),
        ("valAccuracy", "high"),
        ("val/mAP50", "high"),
        ("F1Score", "high"),
        ("tokens_per_second", "high"),
        ("mean_reward", "high"),
        ("learning_rate", None),
        ("grad_norm", None),
        ("", None),
    ],
)
def test_which_value_is_the_best_one(metric: str, wanted: str | None) -> None:
    assert direction_of(metric) == wanted


# ---------------------------------------------------------------------- tables


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_csv_has_a_row_for_each_job() -> None:
    first = ComparedRun(job=job("a", "--lr=0.1", metrics={"loss": "0.5", "lr": "-0.1"}), reports=[row(1, loss=0.25)])
    head, *rows = rows_of(as_csv(compare([first, ComparedRun(job=job("b", "--lr=-0.2"))], NOW)))
    assert [dict(zip(head, row, strict=True)) for row in rows] == [
        {
            "namespace": "default",
            "job": "a",
            "state": "Pending",
            "created": "2026-11-25T11:00:00Z",
            "seconds": "3600",
            "lr": "0.1",
            "loss last": "0.5",
            "loss best": "0.25",
            "loss best at step": "1",
            "loss lowest": "0.25",
            "loss highest": "0.5",
            "lr last": "-0.1",
            "lr best": "",
            "lr best at step": "",
            "lr lowest": "-0.1",
            "lr highest": "-0.1",
        },
        {
            **dict.fromkeys(head, ""),
            "namespace": "default",
            "job": "b",
            "state": "Pending",
            "created": "2026-11-25T11:00:00Z",
            "seconds": "3600",
            "lr": "-0.2",
        },
    ]
    chosen = rows_of(as_csv(compare([first], NOW), {"loss": "high", "lr": "low"}))
    assert dict(zip(*chosen, strict=True))["loss best"] == "0.5"
    assert dict(zip(*chosen, strict=True))["lr best"] == "-0.1"


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "\u00a0=1", "\uff1d1", "\n=1"]
)
def test_no_cell_is_a_formula(cell: str) -> None:
    env = [{"name": "X", "value": cell}, {"name": f"{cell}name", "value": "1"}]
    made = compare([ComparedRun(job=job("a", env=env)), ComparedRun(job=job("b"))], NOW)
    cells = [one for row in rows_of(as_csv(made)) for one in row]
    assert not [one for one in cells if one.strip().startswith(("=", "+", "-", "@", "\uff1d")) and one != "-"]
    assert any(one.startswith("'") for one in cells)


def test_a_cell_keeps_quotes_commas_and_lines() -> None:
    odd = 'a,"b";c'
    made = compare([ComparedRun(job=job("a", env=[{"name": "X", "value": odd}])), ComparedRun(job=job("b"))], NOW)
    assert odd in rows_of(as_csv(made))[1]


def test_the_table_of_a_terminal() -> None:
    rows = [row(1, loss=0.25)]
    first = ComparedRun(job=job("a", "--lr=0.1", metrics={"loss": "0.5", "norm": "3"}), reports=rows)
    second = ComparedRun(job=job("b", "--lr=0.2", metrics={"loss": "0.125", "norm": "4"}))
    assert as_text(compare([first, second], NOW)) == [
        "               a         b",
        "state          Pending   Pending",
        "took           1h00m     1h00m",
        "--lr           0.1       0.2",
        "loss           0.5       0.125",
        "  best (low)   0.25      0.125 *",
        "norm           3         4",
        "  lowest       3         4",
        "  highest      3         4",
        "",
        "2 parameters are the same",
    ]
