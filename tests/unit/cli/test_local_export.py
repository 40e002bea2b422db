# SPDX-License-Identifier: Apache-2.0
"""`trainwright local export`: curves as CSV, as rows and as event files of TensorBoard."""

import io
import struct
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped,import-not-found,unused-ignore]

from trainwright.controller.cli.local import export
from trainwright.controller.trainer.progress.curve import Sample

RUN = [
    Sample(at=10.0, attempt=1, values={"current_step": 1.0, "loss": 0.5, "accuracy": 0.25}),
    Sample(at=11.0, attempt=1, values={"current_step": 2.0}, not_finite=frozenset({"loss"})),
    Sample(at=12.0, attempt=2, values={"current_step": 2.0, "loss": 1.0}, count=2, highs={"loss": 9.0}),
]


def test_csv_has_a_row_for_each_point_of_each_job() -> None:
    out = io.StringIO()
    export.as_csv({"one": RUN, "two": RUN[:1]}, out)
    assert out.getvalue().splitlines() == [
        "job,attempt,time,step,epoch,loss,accuracy",
        "one,1,10.0,1.0,,0.5,0.25",
        "one,1,11.0,2.0,,nan,",
        "one,2,12.0,2.0,,1.0,",
        "two,1,10.0,1.0,,0.5,0.25",
    ]


def test_tensorboard_gets_each_value_at_its_step_and_time(tmp_path: Path) -> None:
    export.to_tensorboard(RUN, tmp_path)
    (file,) = tmp_path.iterdir()
    told = [
        (value.tag, one.step, one.wall_time, value.simple_value) for one in events(file) for value in one.summary.value
    ]
    assert [one for one in told if one[1] != 2 or one[0] != "loss"] == [
        ("loss", 1, 10.0, 0.5),
        ("accuracy", 1, 10.0, 0.25),
        ("loss.high", 2, 12.0, 9.0),
    ]
    assert [str(one[3]) for one in told if one[:2] == ("loss", 2)] == ["nan", "1.0"]


def test_no_warning_of_each_value_that_is_not_finite(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    export.to_tensorboard(RUN, tmp_path)
    assert caplog.records == []


def events(file: Path) -> list[Event]:
    """Of a file of records: length, checksum, an event, checksum."""
    data, place, found = file.read_bytes(), 0, []
    while place < len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        found.append(Event.FromString(data[place + 12 : place + 12 + length]))
        place += 12 + length + 4
    return found
