# SPDX-License-Identifier: Apache-2.0
"""Annotations about progress: which values are taken, and which problem each other one has."""

import pytest

from trainwright.api.trainer.v1alpha1.progress import Declaration, declared

P = "trainwright.dev/progress"


def test_without_annotations_progress_is_pushed() -> None:
    assert declared({}, {}) == (Declaration(), ())
    assert not Declaration().reads_file


def test_every_annotation() -> None:
    wanted = {
        P: "file",
        f"{P}-file": "/out/progress of é.jsonl",
        f"{P}-interval": "1m30s",
        f"{P}-container": "train",
        f"{P}-stall-after": "10m",
    }
    found, problems = declared(wanted, {})
    assert found == Declaration("file", "/out/progress of é.jsonl", 90.0, "train", 600.0)
    assert found.reads_file
    assert problems == ()


def test_the_job_takes_precedence_over_the_runtime_and_a_wrong_value_counts_as_none() -> None:
    runtime = {P: "file", f"{P}-interval": "20s", f"{P}-file": "/runtime-progress.json"}
    found, problems = declared({f"{P}-file": "/job/progress.json", f"{P}-interval": "1s"}, runtime)
    assert (found.way, found.file, found.interval) == ("file", "/job/progress.json", 20.0)
    assert [(problem.annotation, problem.value, problem.of_job) for problem in problems] == [
        (f"{P}-interval", "1s", True)
    ]
    found, problems = declared({}, {P: "pull"})
    assert found.way == "push"
    assert [(problem.message, problem.of_job) for problem in problems] == [("must be one of push, file, none", False)]


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("", "pull", "must be one of push, file, none"),
        ("", "", "must be one of push, file, none"),
        ("-file", "progress.json", "must be an absolute path"),
        ("-file", "-c/x", "must be an absolute path"),
        ("-file", "", "must be an absolute path"),
        ("-file", "/var/run/secrets/kubernetes.io/serviceaccount/token", "must have a name with `progress` in it"),
        ("-file", "/proc/1/environ", "must have a name with `progress` in it"),
        ("-file", "/data/progress.json.key", "must have a name with `progress` in it"),
        ("-file", "/a/../b", "must be the path of a file"),
        ("-file", "/a/", "must be the path of a file"),
        ("-file", "/a\nb", "must be the path of a file"),
        ("-file", "/" + "é" * 128, "must have at most 255 bytes"),
        ("-interval", "9s", "must be a duration from 10s to 1h"),
        ("-interval", "61m", "must be a duration from 10s to 1h"),
        ("-interval", "-30s", "must be a duration from 10s to 1h"),
        ("-interval", "30", "must be a duration such as 30s"),
        ("-interval", "9" * 400 + "h", "must be a duration such as 30s"),
        ("-container", "", "must be the name of a container"),
        ("-container", "x" * 64, "must be the name of a container"),
        ("-stall-after", "99999999999h", "must be a duration such as 30s: durations of more than 292 years"),
        ("-stall-after", "119s", "must be a duration of 2m or more"),
    ],
)
def test_values_that_cannot_work(annotation: str, value: str, message: str) -> None:
    found, (problem,) = declared({P + annotation: value}, {})
    assert found == Declaration()
    assert problem.message.startswith(message)


def test_names_that_only_look_wrong_are_taken() -> None:
    for path in ("/..a/progress.json", "/-progress..json", "/a b progress.json", "/" + "x" * 241 + "progress.json"):
        assert declared({f"{P}-file": path}, {})[0].file == path
