# SPDX-License-Identifier: Apache-2.0
"""The target folder: files are opened below a descriptor of it, links are never followed, and one process works on it.

The kernel releases the lock of a process that ends. Where a file server keeps the lock of a node that is gone, the
modification time of the file shows whether the owner lives, and a lock without such a beat is taken. Where file systems
have no locks, only the hashes protect: parts that two processes write at the same time are found damaged.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from trainwright.controller.initialize.contract import InitializeError
from trainwright.controller.initialize.selection import OWN

PARTS = f"{OWN}/parts"
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """An open target folder. Use it as a context manager."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Raises InitializeError if it cannot be opened, or made."""
        self.path = path
        try:
            if create:
                path.mkdir(parents=True, exist_ok=True)
            self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise failure(error, str(path), path) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    @contextlib.contextmanager
    def _parent(self, name: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that holds `name`, and the last part of the name."""
        *folders, last = name.split("/")
        here = os.dup(self._root)
        try:
            for number, part in enumerate(folders, 1):
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o777, dir_fd=here)
                try:
                    below = os.open(part, _OPEN_FOLDER, dir_fd=here)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise in_the_way("/".join(folders[:number]), "is a link or a file", self.path) from None
                    raise
                os.close(here)
                here = below
            yield here, last
        finally:
            os.close(here)

    def open(self, name: str, flags: int, *, create: bool = False) -> int:
        """A descriptor of a file below the folder. `create` also makes the folders on the way."""
        with self._parent(name, create=create) as (parent, last):
            try:
                return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=parent)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise in_the_way(name, "is a link", self.path) from None
                raise

    def state(self, name: str) -> os.stat_result | None:
        """The state of a plain file; None: there is none. Refuses links and folders."""
        try:
            with self._parent(name) as (parent, last):
                found = os.stat(last, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise in_the_way(name, "is a link" if stat.S_ISLNK(found.st_mode) else "is not a plain file", self.path)
        return found

    def has(self, name: str) -> bool:
        """Whether anything has the name: a file, a link or a folder."""
        try:
            with self._parent(name) as (parent, last):
                os.stat(last, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, InitializeError):
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old`."""
        with self._parent(old) as (old_parent, old_last), self._parent(new, create=True) as (parent, last):
            os.replace(old_last, last, src_dir_fd=old_parent, dst_dir_fd=parent)

    def remove(self, name: str, *, folders: bool = True) -> None:
        """Delete a file, and `folders` that are empty then; nothing happens if it is not there."""
        with contextlib.suppress(FileNotFoundError), self._parent(name) as (parent, last):
            os.unlink(last, dir_fd=parent)
        while folders and "/" in name:
            name = name.rpartition("/")[0]
            try:
                with self._parent(name) as (parent, last):
                    os.rmdir(last, dir_fd=parent)
            except OSError:
                return

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None: there is none."""
        try:
            with open(self.open(name, os.O_RDONLY), "rb") as stream:  # noqa: PTH123 - a descriptor
                return stream.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Replace a small file, so that readers see the old or the new one, also after a loss of power."""
        temporary = f"{name}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(self.open(temporary, flags, create=True), "wb") as stream:  # noqa: PTH123 - a descriptor
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        self.rename(temporary, name)
        with self._parent(name) as (parent, _):
            os.fsync(parent)

    def parts(self) -> dict[str, int]:
        """Names and sizes of unfinished files."""
        try:
            with self._parent(f"{PARTS}/x") as (parent, _):
                names = os.listdir(parent)  # noqa: PTH208 - of a descriptor
                return {name: os.stat(name, dir_fd=parent, follow_symlinks=False).st_size for name in names}
        except FileNotFoundError:
            return {}

    def forget_parts(self, wanted: Iterable[str]) -> int:
        """Delete unfinished files that nothing will finish; returns how many."""
        old = self.parts().keys() - set(wanted)
        for name in old:
            self.remove(f"{PARTS}/{name}")
        return len(old)

    def free_bytes(self) -> int:
        """Bytes that this process may still write here."""
        return free_bytes(self.path)


def free_bytes(path: Path) -> int:
    """Free bytes at a path, or at the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def in_the_way(name: str, what: str, target: Path) -> InitializeError:
    """Something that we neither follow nor replace."""
    return InitializeError("NotWritable", f"{name} in {target} {what}: remove it, or choose another folder")


def failure(error: OSError, name: str, target: Path) -> InitializeError:
    """What the file system refused, as a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InitializeError("NoSpace", f"no space is left in {target}, while {name} was written")
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return InitializeError("NotWritable", f"{name} cannot be written in {target}: {reason}")


LOCK = f"{OWN}/lock"
BEAT_SECONDS = 5.0
GONE_SECONDS = 30.0
POLL_SECONDS = 1.0
_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@contextlib.asynccontextmanager
async def locked(
    folder: Folder,
    warn: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncGenerator[bool, None]:
    """Hold the lock of a folder. The value says whether another process had it before."""
    descriptor, waited = await _acquire(folder, warn, clock, sleep)
    owner = asyncio.current_task()
    beating = asyncio.create_task(_beat(folder, descriptor, owner), name="initialize-lock")
    try:
        yield waited
    except asyncio.CancelledError:
        if beating.done() and not beating.cancelled():
            if owner is not None:
                owner.uncancel()
            raise InitializeError(
                "NotWritable",
                f"another process took the lock of {folder.path}: this one was without a beat for too long",
            ) from None
        raise
    finally:
        beating.cancel()
        os.close(descriptor)


async def _acquire(
    folder: Folder,
    warn: Callable[[str], None],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> tuple[int, bool]:
    waited = False
    beat: tuple[int, int] | None = None
    since = clock()
    while True:
        descriptor = folder.open(LOCK, os.O_RDWR | os.O_CREAT, create=True)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _WITHOUT_LOCKS:
                warn(f"{folder.path} has no locks: do not start two initializers for it at the same time")
                return descriptor, waited
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(descriptor)
                raise
        else:
            if _is_current(folder, descriptor):
                os.utime(descriptor)
                return descriptor, waited
            os.close(descriptor)
            continue
        found = os.fstat(descriptor)
        os.close(descriptor)
        if not waited:
            waited = True
            warn(f"another initializer works on {folder.path}: waiting for its end")
        now = (found.st_ino, found.st_mtime_ns)
        if now != beat:
            beat, since = now, clock()
        elif clock() - since >= GONE_SECONDS:
            warn(f"the other initializer has given no sign for {GONE_SECONDS:.0f} s: taking over {folder.path}")
            state = folder.state(LOCK)
            if state is not None and (state.st_ino, state.st_mtime_ns) == beat:
                folder.remove(LOCK)
            beat = None
            continue
        await sleep(POLL_SECONDS)


def _is_current(folder: Folder, descriptor: int) -> bool:
    """Whether the locked file is still the one with the name: another process may have replaced it."""
    state = folder.state(LOCK)
    return state is not None and state.st_ino == os.fstat(descriptor).st_ino


async def _beat(folder: Folder, descriptor: int, owner: "asyncio.Task[object] | None") -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        if not _is_current(folder, descriptor):
            if owner is not None:
                owner.cancel()
            return
        with contextlib.suppress(OSError):
            os.utime(descriptor)
