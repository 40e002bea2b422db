# SPDX-License-Identifier: Apache-2.0
"""Which folders a local cluster may use, and what is deleted of them.

A cluster's folder has a file that says so. A folder without it is used only if it is empty, or holds nothing but what a
cluster of an earlier release left, so that no command changes or deletes the files of a project.
"""

import json
import re
import shutil
from pathlib import Path

from trainwright.api.errors import UserError

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
        "curves.db.damaged",
        "dashboard.json",
        "kubeconfig",
        "merged.json",
        "port",
        "status-port",
        *(f"{database}{more}" for database in ("curves.db", "state.db") for more in ("", "-journal", "-shm", "-wal")),
    }
)
_FOLDERS = frozenset({"pki", "pods", "logs", "volumes", "writer"})
_RUNS = "runs"
"""Outputs of jobs, which no deletion of a cluster concerns."""
_FIRST = frozenset({_LOCK, "cluster.log", _IMAGES})
"""All that an earlier release left if a start failed."""
_DRAFT = re.compile(rf"\.({'|'.join(re.escape(name) for name in sorted(_FILES))})\.[0-9a-f]{{8}}")
"""What `write_private` leaves if it is killed."""


class ForeignFolderError(UserError):
    """The folder is not a cluster's, so it is neither used nor deleted."""


def claim(folder: Path) -> None:
    """Make the folder that of a cluster, for its user alone. Raises ForeignFolderError, and changes nothing then."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ForeignFolderError(f"{folder} is not a folder: give --dir another name") from error
    found, strangers = _format(folder), _strangers(folder)
    why = ""
    if not found and strangers:
        if _is_of_earlier_release(folder):
            return  # it goes on to work, but is not ours alone: it gets neither a mode nor the marker
        why = f"it holds files that are not a cluster's, such as {strangers[0]}"
    elif not found and not _may_be_adopted(folder):
        why = "it is not the folder of a cluster"
    if why:
        raise ForeignFolderError(
            f"{folder}: not used, because {why}: give --dir an empty folder, or one that does not exist yet"
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
    if not folder.is_dir():
        return
    if _format(folder):
        return
    if not (folder / _LOCK).is_file() or not (_is_of_earlier_release(folder) or _may_be_adopted(folder)):
        raise ForeignFolderError(f"{folder}: not deleted, because it is not the folder of a cluster")
    if strangers := _strangers(folder):
        raise ForeignFolderError(
            f"{folder}: not deleted, because it holds files that are not the cluster's, such as {strangers[0]}: "
            "move them elsewhere, or delete the cluster's files by hand"
        )


def delete(folder: Path) -> list[str]:
    """Delete the cluster's files, and the folder if nothing else is in it; returns the names of what stays.

    With outputs of jobs in it, the folder stays a cluster's. A link is deleted, not what it names. Call
    `check_deletable` first. Raises OSError.
    """
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
    """The format that the folder is marked with; 0 if it is not. Raises ForeignFolderError: of a later version."""
    file = folder / MARKER
    if file.is_symlink():
        return 0
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    number = found.get("format") if isinstance(found, dict) else None
    if not isinstance(number, int) or number < 1:
        return 0
    if number > FORMAT:
        raise ForeignFolderError(
            f"{folder} was made by a later version of Trainwright (format {number}, this version knows {FORMAT}): "
            "use that version, or another folder"
        )
    return number


def _strangers(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if not _is_known(entry))


def _is_known(entry: Path) -> bool:
    """Whether a cluster makes a file or folder of that name; a link has the name of either."""
    if entry.is_symlink():
        return entry.name in _FILES | _FOLDERS
    if entry.is_dir():
        return entry.name in _FOLDERS
    return entry.name in _FILES or _DRAFT.fullmatch(entry.name) is not None


def _is_of_earlier_release(folder: Path) -> bool:
    """Whether a cluster ran in the folder before there was a marker."""
    return (folder / _LOCK).is_file() and all((folder / "pki" / name).is_file() for name in ("ca.key", "admin.token"))


def _may_be_adopted(folder: Path) -> bool:
    """Whether a folder with known names only may become a cluster's: it is one, or holds what a failed start leaves."""
    names = {entry.name for entry in folder.iterdir() if not _DRAFT.fullmatch(entry.name)}
    lock = folder / _LOCK
    started = _LOCK not in names or (lock.is_file() and not lock.is_symlink() and not lock.stat().st_size)
    return _is_of_earlier_release(folder) or (names <= {*_FIRST, MARKER} and started)
