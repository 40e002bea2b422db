# SPDX-License-Identifier: Apache-2.0
"""Times and durations of the wire."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.api import times


def test_parse() -> None:
    assert times.parse("2026-11-20T08:30:00Z") == datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
    assert times.parse("2026-11-20T08:30:00.123456Z").microsecond == 123456
    assert times.parse("2026-11-20T08:30:00.123456789+02:00") == datetime(2026, 11, 20, 6, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-11-20", "2026-11-20T08:30:00", "2026-13-20T08:30:00Z", "2026-11-20 08:30:00Z"]
)
def test_not_a_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|month"):
        times.parse(text)


def test_format() -> None:
    moment = datetime(2026, 11, 20, 10, 30, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert times.format_time(moment) == "2026-11-20T08:30:00Z"
    assert times.format_micro_time(moment) == "2026-11-20T08:30:00.000005Z"
    with pytest.raises(ValueError, match="without a zone"):
        times.format_time(datetime(2026, 11, 20))  # noqa: DTZ001  that is the point


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2999, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_micro_time_round_trip(moment: datetime) -> None:
    assert times.parse(times.format_micro_time(moment)) == moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("15s", 15), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25), ("-2m", -120), ("1h1m1s1ms", 3661.001)],
)
def test_duration(text: str, seconds: float) -> None:
    assert times.parse_duration(text).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["2562048h", "-2562048h", "99999999999h", "9" * 400 + "h"])
def test_a_duration_that_go_cannot_count(text: str) -> None:
    assert times.parse_duration("2562047h") == timedelta(hours=2562047)
    with pytest.raises(ValueError, match="more than 292 years"):
        times.parse_duration(text)


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1h-1m", "."])
def test_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        times.parse_duration(text)
