# SPDX-License-Identifier: Apache-2.0
"""The folders of local clusters: what is known of those that run, which may be used, and what is deleted of them.

A cluster's folder is `$XDG_STATE_HOME/trainwright/local/<name>`, or the one of `--dir`. `run.json` in it says who
serves it. That process holds a lock on `lock`, so a `run.json` that a killed process left behind is ignored.

A cluster's folder has a file that says so. A folder without it is used only if it holds nothing but `images.yaml`, so
that no command changes or deletes the files of a project.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
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
"""A start tries again after this time: a process that only checks the lock releases it after microseconds."""
_DYING_SECONDS = 2.0
"""How long the lock of a process that is killed may outlive its connections."""
MARKER = "trainwright-cluster.json"
"""Says that a folder is a cluster's, and in which format."""
FORMAT = 1
_IMAGES = "images.yaml"
"""Written by users before the first start."""
_LOCK = "lock"
_FILES = frozenset(
    {
        MARKER,
        _IMAGES,
        _LOCK,
        "run.json",
        "run.json.new",
        "cluster.log",
        "dashboard.json",
        "kubeconfig",
        "merged.json",
        "port",
        "status-port",
        *(f"state.db{more}" for more in ("", "-journal", "-shm", "-wal")),
        # Of clusters of before 2026-11-29, so that their folders can be deleted.
        *(f"curves.db{more}" for more in ("", ".damaged", "-journal", "-shm", "-wal")),
    }
)
_FOLDERS = frozenset({"curves", "pki", "pods", "logs", "volumes", "writer"})
_RUNS = "runs"
"""Outputs of jobs, which no deletion of a cluster concerns."""
_DRAFT = re.compile(rf"\.({'|'.join(re.escape(name) for name in sorted(_FILES))})\.[0-9a-f]{{8}}")
"""What `write_private` leaves if it is killed."""


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
            # A process that checks holds a shared lock: it refuses an exclusive one, and allows another shared one.
            if not _is_locked(lock, "shared"):
                raise InUseError(f"a cluster runs from {folder} already: {HELD}")
            # Released again: two starts at once would refuse each other forever.
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
    return until(lambda: running(folder) is None, _DYING_SECONDS, _LOOK_SECONDS)


def until(reached: Callable[[], bool], seconds: float, look: float = 0.05) -> bool:
    """Wait until something is reached; returns False if it is not after so many seconds. It looks every `look`."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(look)
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


class ForeignFolderError(UserError):
    """The folder is not a cluster's, so it is neither used nor deleted."""


def claim(folder: Path) -> None:
    """Make the folder that of a cluster, for its user alone. Raises ForeignFolderError, and changes nothing then."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ForeignFolderError(f"{folder} is not a folder: give --dir another name") from error
    found = _format(folder)
    others = [] if found else sorted(entry.name for entry in folder.iterdir() if not _is_of_start(entry.name))
    if others:
        raise ForeignFolderError(
            f"{folder}: not used, because it holds files that are not a cluster's, such as {others[0]}: "
            "give --dir an empty folder, or one that does not exist yet"
        )
    folder.chmod(0o700)
    if not found:
        from trainwright.controller.local.credentials import write_private  # noqa: PLC0415 - the help needs none of it

        write_private(folder / MARKER, json.dumps({"format": FORMAT}).encode() + b"\n")


def check_deletable(folder: Path, given: Path | None) -> None:
    """Raises ForeignFolderError if the folder must not be deleted.

    `given` is the path that the user gave, of which links are not followed yet.
    """
    named = folder if given is None else given
    if named.is_symlink():
        raise ForeignFolderError(f"{named}: not deleted, because it is a link; delete with --dir={named.resolve()}")
    if folder.is_dir() and not _format(folder):
        raise ForeignFolderError(f"{folder}: not deleted, because it is not the folder of a cluster")


def delete(folder: Path) -> list[str]:
    """Delete the cluster's files, and the folder if nothing else is in it; returns the names of what stays.

    With outputs of jobs in it, the folder stays a cluster's. A link is deleted, not what it names. Call
    `check_deletable` first. Raises OSError.
    """
    import shutil  # noqa: PLC0415 - the help needs none of it

    has_outputs = (folder / _RUNS).is_dir() and any((folder / _RUNS).iterdir())
    # What says that this is a cluster's folder goes last, so that an interrupted deletion can be repeated.
    for entry in sorted(folder.iterdir(), key=lambda one: (one.name in (_LOCK, MARKER), one.name == MARKER)):
        if not _is_known(entry) or (has_outputs and entry.name == MARKER):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not has_outputs and (folder / _RUNS).is_dir():
        (folder / _RUNS).rmdir()
    if stays := sorted(entry.name for entry in folder.iterdir()):
        return [name for name in stays if name != MARKER]
    folder.rmdir()
    return []


def _format(folder: Path) -> int:
    """The format that the folder is marked with; 0 if it is not. Raises ForeignFolderError: of a later version.

    A damaged marker counts: no other program writes a file of that name.
    """
    file = folder / MARKER
    if file.is_symlink() or not file.is_file():
        return 0
    try:
        number = int(json.loads(file.read_text(encoding="utf-8"))["format"])
    except (ValueError, KeyError, TypeError):
        return FORMAT
    if number > FORMAT:
        raise ForeignFolderError(
            f"{folder} was made by a later version of Trainwright (format {number}, this version knows {FORMAT}): "
            "use that version, or another folder"
        )
    return number


def _is_of_start(name: str) -> bool:
    """Whether a file may be there before the first start, or after one that was killed at once."""
    return name == _IMAGES or _DRAFT.fullmatch(name) is not None


def _is_known(entry: Path) -> bool:
    """Whether a cluster makes a file or folder of that name; a link has the name of either."""
    if entry.is_symlink():
        return entry.name in _FILES | _FOLDERS
    if entry.is_dir():
        return entry.name in _FOLDERS
    return entry.name in _FILES or _DRAFT.fullmatch(entry.name) is not None
