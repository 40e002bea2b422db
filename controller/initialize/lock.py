# SPDX-License-Identifier: Apache-2.0
"""One process at a time works on a target folder.

The kernel releases the lock of a process that ends. Where a file server keeps the lock of a node that is gone, the
modification time of the file shows whether the owner lives, and a lock without such a beat is taken. Where file systems
have no locks, only the hashes protect: parts that two processes write at the same time are found damaged.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

from trainwright.controller.initialize.contract import InitializeError
from trainwright.controller.initialize.folder import Folder
from trainwright.controller.initialize.selection import OWN

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
