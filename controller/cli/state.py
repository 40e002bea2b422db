# SPDX-License-Identifier: Apache-2.0
"""The folders of local clusters, and what is known of those that run.

A cluster's folder is `$XDG_STATE_HOME/trainwright/local/<name>`, or the one of `--dir`. `run.json` in it says who
serves it; whoever does holds a lock on `lock`, so a file that a killed process left behind misleads nobody. Which
folders may be used and deleted is in `folders.py`.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from trainwright.api.errors import UserError

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
DEFAULT = "default"
HELD = "it is starting or ending, or belongs to a `run`"
"""Why a cluster cannot be used although a process holds its folder."""
_LOOK_SECONDS = 0.001
"""A start tries again after so long a time: whoever only looks at the lock lets it go after microseconds."""
_DYING_SECONDS = 2.0
"""How long the lock of a process that is killed may outlive its connections."""


class InUseError(UserError):
    """Another process runs the cluster of this folder."""


@dataclass(frozen=True, slots=True)
class ClusterRun:
    name: str
    pid: int
    server: str
    version: str
    mode: str
    """How pods are kept apart: `namespaces` or `rewrite`."""
    began: str
    """RFC 3339."""
    dashboard: str = ""
    """Address of the page about its TrainJobs, with the token; empty: there is none."""
    options: Sequence[str] = ()
    """Those of its command line that say how it runs."""


def root() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "trainwright" / "local"


def folder_of(name: str, directory: Path | None) -> Path:
    return directory.resolve() if directory is not None else root() / name


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder for the length of the block. Raises InUseError."""
    # On a network file system a shared lock needs a file that can be read, an exclusive one a file that can be written.
    with (folder / "lock").open("a+", encoding="utf-8") as lock:
        while not _is_locked(lock, "alone"):
            # Who looks has a shared lock, which refuses the exclusive one but not another shared one.
            if not _is_locked(lock, "shared"):
                raise InUseError(f"a cluster runs from {folder} already: {HELD}")
            # Not kept: two that start at once would refuse each other for ever.
            _is_locked(lock, "not")
            time.sleep(_LOOK_SECONDS)
        yield


def _is_locked(file: TextIO, how: Literal["alone", "shared", "not"]) -> bool:
    """Take a lock if that is possible at once; returns whether it was."""
    import fcntl  # noqa: PLC0415 - Windows has none, where the other commands work

    try:
        fcntl.flock(file, fcntl.LOCK_NB | {"alone": fcntl.LOCK_EX, "shared": fcntl.LOCK_SH, "not": fcntl.LOCK_UN}[how])
    except BlockingIOError:
        return False
    return True


def is_held(folder: Path) -> bool:
    if not (folder / "lock").is_file():  # the first file of a cluster
        return False
    try:
        with (folder / "lock").open(encoding="utf-8") as lock:
            return not _is_locked(lock, "shared")
    except OSError:
        return False


def write(folder: Path, run: ClusterRun) -> None:
    temporary = folder / "run.json.new"
    temporary.write_text(json.dumps(asdict(run)) + "\n", encoding="utf-8")
    temporary.replace(folder / "run.json")


def remove(folder: Path) -> None:
    (folder / "run.json").unlink(missing_ok=True)


def running(folder: Path) -> ClusterRun | None:
    if not is_held(folder):
        return None
    with suppress(OSError, ValueError, TypeError):
        known: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return ClusterRun(**known)
    return None


def has_ended(folder: Path) -> bool:
    """Whether the cluster of a folder has ended, for who has lost the connection to it. Blocks for a moment.

    The kernel gives back the locks of a process that is killed after it has closed its connections.
    """
    deadline = time.monotonic() + _DYING_SECONDS
    while running(folder) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def all_running() -> list[tuple[Path, ClusterRun | None]]:
    if not root().is_dir():
        return []
    return [(folder, running(folder)) for folder in sorted(root().iterdir()) if folder.is_dir()]


def only_running() -> Path:
    """The folder of the cluster that is meant where none is named: the default one, or the only one that runs.

    Raises UserError without one.
    """
    found = [folder for folder, run in all_running() if run is not None]
    if root() / DEFAULT in found:
        return root() / DEFAULT
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError("no local cluster runs; start one with: trainwright local up")
    names = ", ".join(folder.name for folder in found)
    raise UserError(
        f"several local clusters run ({names}); set KUBECONFIG to the file of one, which `up --name` prints"
    )
