# SPDX-License-Identifier: Apache-2.0
"""The termination message of a container, as a kubelet reads it."""

from pathlib import Path

import pytest

from trainwright.controller.local.node.termination import MESSAGE_BYTES, message


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", ""),
        (b"out of memory", "out of memory"),
        (b"x" * MESSAGE_BYTES, "x" * MESSAGE_BYTES),
        (b"x" * 9000 + b"the last line\n", "x" * (MESSAGE_BYTES - 14) + "the last line\n"),
        (b"not UTF-8: \xff", "not UTF-8: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_end_of_the_file(tmp_path: Path, written: bytes, shown: str) -> None:
    file, log = tmp_path / "termination-log", tmp_path / "log"
    file.write_bytes(written)
    log.write_bytes(b"")
    assert message({}, file, log, code=1) == shown


def test_no_file_is_no_message(tmp_path: Path) -> None:
    assert message({}, tmp_path / "absent", tmp_path / "log", code=1) == ""
