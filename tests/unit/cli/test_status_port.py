# SPDX-License-Identifier: Apache-2.0
"""The port of the status server of a local cluster."""

import logging
import socket
from pathlib import Path

import pytest

from trainwright.controller.cli.local.training import FILE, status_port


def test_the_port_of_the_last_run_is_used_again(tmp_path: Path) -> None:
    port = status_port(tmp_path)
    assert port > 0
    assert status_port(tmp_path) == port


def test_another_port_is_used_if_that_one_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        (tmp_path / FILE).write_text(str(taken))
        with caplog.at_level(logging.WARNING):
            port = status_port(tmp_path)
    assert port != taken
    assert f"another program uses port {taken}" in caplog.text
    assert (tmp_path / FILE).read_text() == str(port)


@pytest.mark.parametrize("text", ["", "no port", "70000", "-1"])
def test_a_damaged_file_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    port = status_port(tmp_path)
    assert 0 < port <= 65535
    assert (tmp_path / FILE).read_text() == str(port)
