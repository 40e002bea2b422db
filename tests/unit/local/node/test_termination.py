# SPDX-License-Identifier: Apache-2.0
"""The termination message of a container, as a kubelet reads it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.controller.local.node.logs import MESSAGE_BYTES, message


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


def link(file: Path) -> None:
    file.symlink_to("x" * 300)


def link_to_a_secret(file: Path) -> None:
    secret = file.with_name("secret")
    secret.write_text("password")
    file.symlink_to(secret)


@pytest.mark.parametrize("make", [link, link_to_a_secret, os.mkfifo, Path.mkdir])
def test_what_a_container_put_in_the_place_of_the_file_is_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    file, log = tmp_path / "main" / "termination-log", tmp_path / "log"
    file.parent.mkdir()
    make(file)
    assert message({}, file, log, code=1).startswith(f"Error on reading termination log {file}: ")


def test_no_file_is_no_message(tmp_path: Path) -> None:
    assert message({}, tmp_path / "absent", tmp_path / "log", code=1) == ""
