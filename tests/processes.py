# SPDX-License-Identifier: Apache-2.0
"""Starting processes and waiting for what they do."""

import sys
from pathlib import Path

_HEED = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def heeding(*command: str) -> list[str]:
    """The command, which will heed SIGINT and SIGHUP: background jobs of a shell and nohup pass on that they do not."""
    return [sys.executable, "-c", _HEED, *command]


def alive(pid: int) -> bool:
    try:
        # A process that ended but was not waited for yet does nothing any more.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
