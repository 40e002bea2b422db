# SPDX-License-Identifier: Apache-2.0
"""Writes all files of a volume at once: readers see the old set or the new one, never a mixture.

As the kubelet does it: the files lie in a new hidden folder, the link `..data` points to it and is replaced by a
rename, and the visible names are links through `..data`.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from trainwright.controller.local.node.files import read_end, refuse_link, remove, remove_tree
from trainwright.controller.local.node.volumes.projections import ProjectedFile

DATA = "..data"


def write(folder: Path, files: Mapping[str, ProjectedFile]) -> bool:
    """Make the volume hold exactly these files. Returns False if it already does. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    refuse_link(folder)
    link = folder / DATA
    old = _linked(link)
    if old is not None and _holds(old, files):
        return False
    new = folder / f"..{secrets.token_hex(6)}"
    new.mkdir(mode=0o755)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # Created closed: a secret must not be readable before its mode is set.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.data)
        target.chmod(file.mode)
    fresh = folder / f"..{secrets.token_hex(6)}"
    fresh.symlink_to(new.name)
    fresh.replace(link)
    _show(folder, {path.split("/", 1)[0] for path in files})
    if old is not None:
        remove_tree(old)
    return True


def _linked(link: Path) -> Path | None:
    """The folder of the old files. What a link of a container names is left alone."""
    if not link.is_symlink():
        return None
    old = link.parent / link.readlink()
    is_ours = old.parent == link.parent and old.name.startswith("..") and old.name not in {"..", DATA}
    return old if is_ours and old.is_dir() and not old.is_symlink() else None


def _show(folder: Path, names: set[str]) -> None:
    """Make the visible names links through `..data`, and remove those of files that are gone."""
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            remove(entry)
    for name in names:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{DATA}/{name}")


def _holds(folder: Path, files: Mapping[str, ProjectedFile]) -> bool:
    """Whether a folder holds exactly these files. Nothing is read behind what a container put there."""
    here: dict[str, ProjectedFile] = {}
    below: dict[str, dict[str, ProjectedFile]] = {}
    for path, file in files.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = file
        else:
            here[first] = file
    missing = {*here, *below}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name not in missing:
                return False
            missing.remove(entry.name)
            path_of = folder / entry.name
            if entry.name in here:
                same = _is(path_of, here[entry.name])
            else:
                same = entry.is_dir(follow_symlinks=False) and _holds(path_of, below[entry.name])
            if not same:
                return False
    return not missing


def _is(path: Path, file: ProjectedFile) -> bool:
    status = path.lstat()
    same_shape = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == file.mode
    return same_shape and status.st_size == len(file.data) and read_end(path, len(file.data)) == file.data
