# SPDX-License-Identifier: Apache-2.0
"""Progress documents that anybody may write: read with limits, or refused by name."""

import contextlib
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assertions import does_not_raise
from trainwright.progress import FILE_BYTES, ReadError, Report, read


def test_every_key() -> None:
    report = read(
        json.dumps(
            {
                "version": 1,
                "progressPercentage": 42.9,
                "estimatedRemainingSeconds": 61,
                "metrics": [{"name": "accuracy", "value": "0.5"}],
                "lastUpdatedTime": "2026-01-31T12:00:00+02:00",
                "step": 21,
                "totalSteps": 50,
                "epoch": 1.5,
                "totalEpochs": 3,
                "loss": 0.25,
                "state": "failed",
                "message": "ValueError",
                "rank": 0,
                "unknown": {"kept": "out"},
            }
        )
    )
    assert report == Report(
        metrics={
            "accuracy": "0.5",
            "current_step": "21",
            "total_steps": "50",
            "current_epoch": "1.5",
            "total_epochs": "3",
            "loss": "0.25",
        },
        percentage=42,
        remaining_seconds=61,
        time=datetime(2026, 1, 31, 10, tzinfo=UTC),
        step=21,
        total_steps=50,
        epoch=1.5,
        total_epochs=3,
        loss=0.25,
        state="failed",
        message="ValueError",
        rank=0,
    )
    assert report.trainer_status() == {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 61,
        "metrics": [{"name": name, "value": value} for name, value in report.metrics.items()],
        "lastUpdatedTime": "2026-01-31T10:00:00+00:00",
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"step": 3}',
        b'\xef\xbb\xbf{"step": 3}',
        '{"trainerStatus": {"step": 3}}',
        '{"trainerStatus": null, "step": 3}',
        '{\n  "step": 3\n}\n',
        '{"step": 1}\n{"step": 3}\n',
        '{"step": 1}\r\n{"step": 3}\r\n{"step": 4',
        b'{"step": 3}\n{"message": "\xc3',
        'loading\n{"step": 3}\n{"other": 1}\n[]\n{"step": "x"}\n\n',
        '{"step": 3}\n' + "[" * 60_000,
    ],
)
def test_the_last_valid_line_counts(text: "str | bytes") -> None:
    assert read(text).step == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("{}", "empty"),
        ('{"metrics": {}, "version": 1}', "empty"),
        ('{"step": 1', "partial"),
        ('{"step": 1, "metrics": {"a": 1}', "partial"),
        ('{"mess', "partial"),
        ("[]", "corrupt"),
        ("null", "corrupt"),
        ("12", "corrupt"),
        ("Traceback (most recent call last):", "corrupt"),
        (b"\x00" * 100, "corrupt"),
        (b'{"message": "\xff"}', "corrupt"),
        ("[" * 60_000, "corrupt"),
        ('{"step": ' + "9" * 60_000 + "}", "corrupt"),
        ('{"progressPercentage": 101}', "corrupt"),
        ('{"progressPercentage": -1}', "corrupt"),
        ('{"progressPercentage": NaN}', "corrupt"),
        ('{"progressPercentage": true}', "corrupt"),
        ('{"estimatedRemainingSeconds": -1}', "corrupt"),
        ('{"estimatedRemainingSeconds": 2147483648}', "corrupt"),
        ('{"step": "3"}', "corrupt"),
        ('{"step": [3]}', "corrupt"),
        ('{"loss": {}}', "corrupt"),
        ('{"state": 1}', "corrupt"),
        ('{"message": []}', "corrupt"),
        ('{"metrics": 3}', "corrupt"),
        ('{"metrics": ["a"]}', "corrupt"),
        ('{"metrics": [{"value": "a"}]}', "corrupt"),
        ('{"metrics": {"a": [1]}}', "corrupt"),
        ('{"lastUpdatedTime": 12}', "corrupt"),
        ('{"lastUpdatedTime": "2026-01-31T12:00:00"}', "corrupt"),
        ('{"lastUpdatedTime": "2026-01-31T12:00Z"}', "corrupt"),
        ('{"lastUpdatedTime": "20260131T120000Z"}', "corrupt"),
        ('{"lastUpdatedTime": "2026-02-30T12:00:00Z"}', "corrupt"),
        ('{"lastUpdatedTime": "0001-01-01T00:00:00+10:00"}', "corrupt"),
        ('{"message": "' + "x" * FILE_BYTES + '"}', "too large"),
        (b"\x00" * 10_000_000, "too large"),
        ("\n" * 10_000_000, "too large"),
    ],
)
def test_what_is_refused(text: "str | bytes", reason: str) -> None:
    with pytest.raises(ReadError) as caught:
        read(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00.5z", datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789-08:00", datetime(2026, 1, 31, 20, 0, 0, 123_456, tzinfo=UTC)),
        ("2024-01-31T12:00:00Z", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("2999-01-31T12:00:00Z", datetime(2999, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_times(text: str, moment: datetime) -> None:
    """Whether a time is too old is for the reader to say."""
    assert read(json.dumps({"lastUpdatedTime": text})).time == moment


def test_numbers_as_text() -> None:
    given = {
        "a": 1,
        "b": 1.0,
        "c": 0.1,
        "d": 1e300,
        "e": 2**53 + 1,
        "f": "nan",
        "g": "-INFINITY",
        "h": "12 %",
        "i": True,
    }
    text = json.dumps({"metrics": {**given, "none": None}, "loss": "inf", "step": 2})
    assert read(text).metrics == {
        "a": "1",
        "b": "1.0",
        "c": "0.1",
        "d": "1e+300",
        "e": "9007199254740992.0",
        "f": "NaN",
        "g": "-Infinity",
        "h": "12 %",
        "i": "1",
        "loss": "Infinity",
        "current_step": "2",
    }
    assert read('{"loss": NaN, "metrics": {"x": Infinity}}').metrics == {"x": "Infinity", "loss": "NaN"}


def test_what_is_too_long_is_cut_and_counted() -> None:
    metrics = {f"{number:03}é{'e' * 70}": "v" * 70 for number in range(300)}
    report = read(json.dumps({"metrics": metrics, "step": 1, "loss": 0.5}, ensure_ascii=False))
    assert len(report.metrics) == 256
    assert (report.metrics["current_step"], report.metrics["loss"]) == ("1", "0.5")
    assert {len(name) for name in list(report.metrics)[:254]} == {64}
    assert report.cut == 2 * 300 + 46
    assert len(read(json.dumps({"message": "m" * 5000})).message or "") == 256


def test_a_metric_of_the_name_of_a_key_goes_first() -> None:
    assert read('{"metrics": {"loss": 3, "current_step": "9"}, "loss": 4, "step": 8}').metrics == {
        "loss": "3",
        "current_step": "9",
    }


def test_the_end_of_a_long_file_is_read_as_lines() -> None:
    lines = "".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(10_000))
    assert read(lines).step == 9_999
    # As `tail -c 65537` gives it.
    assert read(lines.encode()[-FILE_BYTES - 1 :]).step == 9_999


def test_a_file_that_is_being_written_gives_no_false_value() -> None:
    """Writers that truncate: whatever part of the document is there, it is the document or none."""
    text = json.dumps({"step": 123, "metrics": {"b": "}", "c": 1.5}, "loss": 0.25, "message": "{}"})
    for length in range(len(text)):
        with pytest.raises(ReadError) as caught:
            read(text[:length])
        assert caught.value.reason in {"empty", "partial", "corrupt"}
    lines = json.dumps({"step": 122}) + "\n" + text
    assert {read(lines[:length]).step for length in range(15, len(lines))} == {122}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=80), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(
    [
        "progressPercentage",
        "estimatedRemainingSeconds",
        "metrics",
        "lastUpdatedTime",
        "step",
        "loss",
        "state",
        "message",
    ]
)


@given(st.binary(max_size=200) | st.text(max_size=200) | st.dictionaries(KEYS, JSON).map(json.dumps))
def test_nothing_else_is_raised_and_the_limits_hold(text: "str | bytes") -> None:
    report, reason = Report(metrics={}), ""
    try:
        report = read(text)
    except ReadError as error:
        reason = error.reason
    assert reason in {"", "empty", "partial", "corrupt", "too large"}
    status: dict[str, Any] = report.trainer_status()
    assert 0 <= status.get("progressPercentage", 0) <= 100
    assert len(status.get("metrics", ())) <= 256
    for metric in status.get("metrics", ()):
        assert 1 <= len(metric["name"]) <= 64
        assert 1 <= len(metric["value"]) <= 64
    # Half of a surrogate pair is no text that an API server takes.
    json.dumps(status, ensure_ascii=False).encode()


def test_damage_to_a_document_is_read_or_refused() -> None:
    text = bytearray(json.dumps({"step": 3, "metrics": {"a": "é"}, "lastUpdatedTime": "2026-01-31T12:00:00Z"}).encode())
    chance = random.Random(0)
    for _ in range(3000):
        damaged = bytearray(text)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with does_not_raise(), contextlib.suppress(ReadError):
            read(bytes(damaged))
