# SPDX-License-Identifier: Apache-2.0
"""Annotations about progress: which values are taken, and which problem each other one has."""

import pytest

from trainwright.api.trainer.v1alpha1.progress import Declaration, declared

P = "trainwright.dev/progress"
WAYS = "must be push, none, file or file:/PATH"


def test_without_annotations_progress_is_pushed() -> None:
    assert declared({}, {}) == (Declaration(), ())
    assert not Declaration().reads_file


def test_every_annotation() -> None:
    found, problems = declared({P: "file:/out/progress of é.jsonl", f"{P}-stall-after": "10m"}, {})
    assert (found.reads_file, found.file, found.stall_after) == (True, "/out/progress of é.jsonl", 600.0)
    assert problems == ()
    assert declared({P: "file"}, {})[0].file == "/var/run/trainwright/progress.json"


def test_the_job_takes_precedence_over_the_runtime_and_a_wrong_value_counts_as_none() -> None:
    runtime = {P: "file:/runtime-progress.json", f"{P}-stall-after": "20m"}
    found, problems = declared({P: "file:/job/progress.json", f"{P}-stall-after": "1s"}, runtime)
    assert (found.file, found.stall_after) == ("/job/progress.json", 1200.0)
    assert [(problem.annotation, problem.value, problem.of_job) for problem in problems] == [
        (f"{P}-stall-after", "1s", True)
    ]
    found, (problem,) = declared({}, {P: "pull"})
    assert (found.progress, problem.message, problem.of_job) == ("push", WAYS, False)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("", "pull", WAYS),
        ("", "", WAYS),
        ("", "push:/progress.json", WAYS),
        ("", "file:progress.json", "must be an absolute path"),
        ("", "file:-c/x", "must be an absolute path"),
        ("", "file:", "must be an absolute path"),
        ("", "file:/var/run/secrets/kubernetes.io/serviceaccount/token", "must have a name with `progress` in it"),
        ("", "file:/proc/1/environ", "must have a name with `progress` in it"),
        ("", "file:/data/progress.json.key", "must have a name with `progress` in it"),
        ("", "file:/a/../b", "must be the path of a file"),
        ("", "file:/a/", "must be the path of a file"),
        ("", "file:/a\nb", "must be the path of a file"),
        ("", "file:/" + "é" * 128, "must have at most 255 bytes"),
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
        assert declared({P: f"file:{path}"}, {})[0].file == path
