# SPDX-License-Identifier: Apache-2.0
"""Files that lie where a pod can change them."""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path


def write_fresh(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a new file, instead of what is there. Raises OSError."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)


def read_end(path: Path, limit: int) -> bytes:
    """The last bytes of a file. Raises OSError; also for a link, and for a pipe, which would hold up the reader."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
        return file.read(limit)


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
    """Remove a folder, also what its user made unreadable in it. Raises OSError; links are not followed."""
    try:
        shutil.rmtree(folder)
    except PermissionError:
        folder.chmod(0o700)
        for parent, names, _ in os.walk(folder):
            for name in names:  # before the walk enters it
                below = Path(parent, name)
                if not below.is_symlink():
                    below.chmod(0o700)
        shutil.rmtree(folder)
