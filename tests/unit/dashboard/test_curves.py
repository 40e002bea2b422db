# SPDX-License-Identifier: Apache-2.0
"""Where the segments of curves begin."""

from datetime import UTC, datetime, timedelta

from trainwright.api.trainer.v1alpha1.history import Point
from trainwright.controller.dashboard.curves import Marker, points_of, report_of

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def marks(*attempts: int | None, starts: dict[int, datetime] | None = None) -> list[tuple[int, int | None]]:
    """Index and attempt of each mark; reports come one second apart."""
    seen = [
        report_of(Point(at=BEGIN + timedelta(seconds=index), percentage=index, metrics={}, segment=0, attempt=attempt))
        for index, attempt in enumerate(attempts)
    ]
    return [(mark.index, mark.attempt) for mark in points_of("uid", seen, Marker(starts or {})).marks]


def test_reports_from_before_the_attempt_is_known_belong_to_the_first() -> None:
    assert marks(None, 1, 1) == [(0, None)]


def test_a_second_attempt_begins_a_segment_whether_the_first_was_known_or_not() -> None:
    assert marks(1, 1, 2) == [(0, 1), (2, 2)]
    assert marks(None, None, 2) == [(0, None), (2, 2)]
    assert marks(None, None, None, starts={2: BEGIN + timedelta(seconds=1)}) == [(0, None), (1, 2)]


def test_the_segments_of_attempts_do_not_mix() -> None:
    # A late report of the first attempt, one whose attempt is not known, and clocks that were set back.
    assert marks(1, 2, 1, 2, None) == [(0, 1), (1, 2)]
    assert marks(2, None, starts={1: BEGIN}) == [(0, 2)]
