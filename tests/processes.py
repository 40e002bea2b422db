# SPDX-License-Identifier: Apache-2.0
"""Waiting for processes and what they do."""

import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    try:
        # A process that ended but was not waited for yet does nothing any more.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
