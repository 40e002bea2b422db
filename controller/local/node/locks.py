# SPDX-License-Identifier: Apache-2.0
"""Keeps the clusters of one user on one machine apart: each port and each GPU that one of them holds is a locked file.

A program listens on its port only some time after it was given it; until then the port looks free to all others.
"""

import fcntl
import logging
import os
import pwd
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)


def _home() -> Path:
    """The home of the user as the machine knows it: clusters with another HOME share it, too."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container with a user that the machine does not know
        return Path.home()


FOLDER = _home() / ".local" / "state" / "trainwright" / f"ports-{socket.gethostname()}"
"""Holds a file for each port and GPU that a cluster of this user on this machine has held. Several machines may share a
home. The name is older than the locks of GPUs, and stays: clusters of all versions must meet here."""
FALLBACK = Path("/tmp", f"tw-ports-{os.getuid()}")  # noqa: S108 - used only if it is the user's alone
"""Its place for a user without a home that can be written."""


class MachineLocks:
    """What this cluster holds. The kernel lets a lock go when the process ends, however it ends."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        """File descriptors by what is held; -1: there is no file."""
        self._said = ""

    def take(self, what: str) -> bool:
        """Hold something; False if it is held already, here or by another process."""
        if what in self._held:
            return False
        try:
            self._held[what] = self._locked(what)
        except BlockingIOError:
            return False
        except OSError as error:
            # Without locks two clusters may choose the same; without ports no job would start.
            self._complain(f"ports and GPUs are not kept apart from those of other clusters: {error}")
            self._held[what] = -1
        return True

    def _locked(self, what: str) -> int:
        folder = own_folder((FOLDER, FALLBACK))
        flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(folder / what, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _complain(self, text: str) -> None:
        if text != self._said:
            log.warning("%s", text)
        self._said = text

    def give_back(self, what: str) -> None:
        """Hold it no more."""
        if (descriptor := self._held.pop(what, -1)) >= 0:
            os.close(descriptor)

    def close(self) -> None:
        """Hold none any more."""
        for what in list(self._held):
            self.give_back(what)


def own_folder(choices: Iterable[Path]) -> Path:
    """The first folder that is the user's own, and closed to all others; made if it is not there. Raises OSError."""
    why: OSError | None = None
    for folder in choices:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            why = error
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
        # Whoever else can write there could hold everything.
        why = PermissionError(f"{folder} is not a folder of this user alone (mode 0700)")
    raise why or FileNotFoundError("no folder")
