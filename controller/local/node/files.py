# SPDX-License-Identifier: Apache-2.0
"""Files of the node that lie where a pod can change them: a link that a pod has put in their place is never followed.

A kubelet that followed them was CVE-2017-1002101 (https://nvd.nist.gov/vuln/detail/CVE-2017-1002101).
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OWN_PARTS = 3
"""How many folders above a file a pod may have replaced: `<uid>/containers/<name>`."""


def write_fresh(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a new file, instead of what is there. Raises OSError."""
    with _parent(path) as folder:
        with suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path.name, flags, mode, dir_fd=folder), "wb") as file:
            file.write(data)


def read_end(path: Path, limit: int) -> bytes:
    """The last bytes of a file. Raises OSError; also for a link, and for what is no regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with _parent(path) as folder:
        try:
            descriptor = os.open(path.name, flags, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(errno.ELOOP, "it is a link, and links are not followed") from error
            raise
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        file.seek(max(0, found.st_size - limit))
        return file.read(limit)


def refuse_link(folder: Path) -> None:
    """Raise OSError if a link is in the place of a folder of the node."""
    if folder.is_symlink():
        raise OSError(f"{folder} was replaced by a link to {folder.readlink()}")


def lies_below(path: str, folder: str) -> bool:
    """Whether a path stays in a folder, with all links on its way followed. It need not exist."""
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, top]) == top


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; it may be removed elsewhere at the same time.

    Raises OSError.
    """
    # Something that is not there any more, while the rest is, means that somebody else has removed it: look again.
    while os.path.lexists(path):
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(path.lstat().st_mode):
                remove_tree(path)
            else:
                path.unlink()


def remove_tree(folder: Path) -> None:
    """Remove a folder of any depth, also what its user made unreadable in it.

    Raises OSError; links are not followed.
    """
    # Deep trees: rmtree recurses, and keeps a file open for each level.
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder)
        return
    folder.chmod(0o700)
    top = os.open(folder, _FOLDER | os.O_NOFOLLOW)
    try:
        _empty(top)
    finally:
        os.close(top)
    folder.rmdir()


def _empty(top: int) -> None:
    """Remove what is in a folder. Nested folders move to the top first, so that no depth and no path has a limit."""
    while names := os.listdir(top):
        for name in names:
            if not _is_folder(name, top):
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            opened = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=top)
            try:
                for below in os.listdir(opened):  # noqa: PTH208 - a descriptor
                    if _is_folder(below, opened):
                        os.chmod(below, 0o700, dir_fd=opened)  # a folder that cannot be written to does not move
                        os.rename(below, uuid4().hex, src_dir_fd=opened, dst_dir_fd=top)
                    else:
                        os.unlink(below, dir_fd=opened)
            finally:
                os.close(opened)
            os.rmdir(name, dir_fd=top)


def _is_folder(name: str, parent: int) -> bool:
    """Whether it is a folder itself, and no link to one."""
    return stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)


@contextmanager
def _parent(path: Path) -> Iterator[int]:
    """A descriptor of the folder of a file. Raises OSError if a folder that a pod can replace is a link."""
    top, *below = reversed(path.parents[: _OWN_PARTS + 1])
    opened = os.open(top, _FOLDER)
    try:
        for part in below:
            descriptor = os.open(part.name, _FOLDER | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = descriptor
        yield opened
    finally:
        os.close(opened)
