# SPDX-License-Identifier: Apache-2.0
"""The port of the status server of a local cluster, which stays the same from run to run."""

import logging
import socket
from contextlib import closing
from pathlib import Path

from trainwright.controller.cli.dashboard.keys import HOST, is_free
from trainwright.controller.local.credentials import write_private

log = logging.getLogger(__name__)

FILE = "status-port"


def status_port(folder: Path) -> int:
    """The port of the last run if it is free, else another free one.

    Pods of jobs that go on after a restart know the port of the last run, since their JobSets cannot be changed.
    """
    kept = folder / FILE
    known = _known(kept)
    if known and is_free(known):
        return known
    with closing(socket.socket()) as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
    if known:
        log.warning(
            "another program uses port %d: jobs that exist cannot report their progress; new ones use %d", known, port
        )
    write_private(kept, str(port).encode())
    return port


def _known(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() and 0 < int(text) <= 65535 else 0
