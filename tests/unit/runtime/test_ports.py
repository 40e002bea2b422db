# SPDX-License-Identifier: Apache-2.0
"""Ports for programs that are about to start."""

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainwright.controller.runtime.testing import ports
from trainwright.controller.runtime.testing.tools import ControlPlaneError


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "FOLDER", tmp_path)


def test_nobody_is_given_the_port_of_somebody_else() -> None:
    with ThreadPoolExecutor(8) as several:
        given = [done.result() for done in [several.submit(ports.free_port) for _ in range(200)]]
    assert len(set(given)) == len(given)


def test_a_port_lies_outside_the_range_of_outgoing_connections() -> None:
    low, high = ports._system_range()
    assert not any(low <= ports.free_port() <= high for _ in range(20))


def test_a_port_in_use_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        monkeypatch.setattr(ports, "_FIRST", used.getsockname()[1])
        monkeypatch.setattr(ports, "_LAST", used.getsockname()[1])
        monkeypatch.setattr(ports, "_system_range", lambda: (0, 0))
        with pytest.raises(ControlPlaneError, match="no free port was found"):
            ports.free_port()


def test_a_reservation_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    port = ports.free_port()
    file = tmp_path / str(port)
    assert not ports._reserve(file)
    monkeypatch.setattr(ports, "RESERVED_SECONDS", 0.0)
    assert ports._reserve(file)
