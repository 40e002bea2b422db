# SPDX-License-Identifier: Apache-2.0
"""Which jobs that have ended are kept."""

from typing import Any

import pytest

from trainwright.controller.cli.local import kept

MIB = 1 << 20


def job(name: str, kind: str = "", at: str = "") -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": at}] if kind else []
    return {"metadata": {"name": name, "namespace": "n", "uid": name}, "status": {"conditions": conditions}}


def test_jobs_that_have_ended_come_latest_first() -> None:
    jobs = [
        job("runs"),
        job("first", "Failed", "2026-11-25T10:00:00Z"),
        job("suspended", "Suspended", "2026-11-25T12:00:00Z"),
        job("last", "Complete", "2026-11-25T11:00:00Z"),
    ]
    found = kept.ended_jobs(jobs)
    assert [(one.job["metadata"]["name"], one.how) for one in found] == [("last", "Complete"), ("first", "Failed")]


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([], 0),
        ([1] * 19, 19),
        ([1] * 25, kept.MOST),
        ([600 * MIB, 400 * MIB, 100 * MIB, 1], 2),
        # The latest stays, whatever it takes, and nothing else then.
        ([5000 * MIB, 1], 1),
    ],
)
def test_the_last_ones_are_kept_as_far_as_there_is_room(sizes: list[int], wanted: int) -> None:
    assert kept.beyond(sizes) == wanted
