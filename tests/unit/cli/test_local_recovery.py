# SPDX-License-Identifier: Apache-2.0
"""The options of `local run` about recovery are annotations of the job; its checkpoints lie in its output."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.objects import annotations_of
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.cli.local.submission import _recover, _stops_at_failure
from trainwright.controller.local.node.outputs import OutputOwner, checkpoints_in


def arguments(**more: Any) -> argparse.Namespace:
    plain = {"retries": None, "resume_from": None, "stall_stop": False, "stall_after": 600.0, "restarts": "none"}
    return argparse.Namespace(**{**plain, **more})


def marks(**more: Any) -> dict[str, str]:
    job: dict[str, Any] = {"metadata": {"name": "j"}, "spec": {}}
    _recover(job, arguments(**more))
    return {name.removeprefix("trainwright.dev/"): value for name, value in annotations_of(job).items()}


def test_options_become_annotations() -> None:
    assert marks() == {}
    assert marks(retries=3) == {"recovery": "gang", "retries": "3"}
    assert marks(retries=0, stall_stop=True, stall_after=900.0) == {
        "recovery": "gang",
        "retries": "0",
        "progress-stall-after": "900s",
    }


@pytest.mark.parametrize(
    ("given", "told"), [("s3://bucket/first", "s3://bucket/first"), ("first", str(Path("first").absolute()))]
)
def test_the_checkpoint_to_begin_from_is_a_variable(given: str, told: str) -> None:
    job: dict[str, Any] = {"metadata": {"name": "j"}, "spec": {}}
    _recover(job, arguments(resume_from=given))
    assert job["spec"]["trainer"]["env"] == [{"name": "TRAINWRIGHT_RESUME_FROM", "value": told}]


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"trainer": {"env": [{"name": "A", "value": "b"}]}}, [{"name": "A", "value": "b"}]),
        ({"trainer": {"env": [{"name": "TRAINWRIGHT_ON_STALL", "value": "x"}]}}, []),
        ({"trainer": {"env": None}}, []),
        ({"trainer": None}, []),
        ({}, []),
    ],
)
def test_ranks_that_are_stopped_since_they_stand_still_say_where(spec: dict[str, Any], kept: list[Any]) -> None:
    job: dict[str, Any] = {"metadata": {"name": "j"}, "spec": spec}
    _recover(job, arguments(stall_stop=True))
    assert job["spec"]["trainer"]["env"] == [*kept, {"name": "TRAINWRIGHT_ON_STALL", "value": "restart"}]


def test_a_job_with_retries_is_not_ended_at_its_first_failure() -> None:
    assert _stops_at_failure(arguments())
    assert not _stops_at_failure(arguments(retries=0))
    assert not _stops_at_failure(arguments(restarts="as-cluster"))


def test_a_standstill_that_is_too_short_for_the_manager_is_refused() -> None:
    with pytest.raises(WrongUseError, match="needs a --stall-after of 2m or more"):
        marks(retries=3, stall_stop=True, stall_after=30.0)
    assert marks(retries=3, stall_after=30.0) == {"recovery": "gang", "retries": "3"}


def test_checkpoints_of_jobs_of_one_name_are_apart() -> None:
    one = OutputOwner(namespace="default", job="train", uid="12345678-9")
    assert checkpoints_in(Path("/runs/train-12345678"), one) == Path("/runs/train-12345678/checkpoints")
    assert checkpoints_in(Path("/home/me/model"), one) == Path("/home/me/model/checkpoints/train-12345678")
