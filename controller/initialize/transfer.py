# SPDX-License-Identifier: Apache-2.0
"""Brings one file into the target: into a part first, which keeps its bytes over tries and restarts."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from trainwright.controller.initialize.contract import Algorithm, Digest, InitializeError, Provider, RemoteFile, hasher
from trainwright.controller.initialize.folder import PARTS, Folder, failure
from trainwright.controller.initialize.manifest import ManifestEntry
from trainwright.controller.initialize.reports import Progress, amount

TRIES = 5
LONGEST_SECONDS = 60.0
LONGEST_ORDERED_SECONDS = 300.0
"""Retry-After is obeyed up to here: limits of hubs are counted in windows of five minutes."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Tries:
    """Counts the failures of one action, and waits between them."""

    def __init__(self, sleep: Sleep, warn: Callable[[str], None]) -> None:
        self._sleep = sleep
        self._warn = warn
        self._failures = 0

    def begin_again(self) -> None:
        """Something was achieved since the last failure."""
        self._failures = 0

    async def after(self, error: InitializeError) -> None:
        """Wait before the next try; raises the error if there is none."""
        self._failures += 1
        if not error.retry:
            raise error
        if self._failures >= TRIES:
            raise InitializeError(error.word, f"{error.sentence}, after {TRIES} tries") from error
        pause = min(LONGEST_SECONDS, 2.0**self._failures)
        if error.after is not None:
            pause = max(pause, min(error.after, LONGEST_ORDERED_SECONDS))
        self._warn(f"{error.sentence}; trying again in {pause:.0f} s")
        await self._sleep(pause)


async def persist(action: Callable[[], Awaitable[T]], tries: Tries) -> T:
    """The result of an action that may fail for a while."""
    while True:
        try:
            return await action()
        except InitializeError as error:
            await tries.after(error)


BLOCK = 2**20
"""Written and hashed at once, in a thread."""
HASH_BLOCK = 2**23
FLUSH_BLOCK = 2**25
"""So many new bytes of a file are sent to the disk while others come. Else a model of many GiB arrives in memory first,
and its last step, which no progress shows, takes as long as the disk needs for all of it."""
_HASHES = {"git": "git hash", "md5": "MD5", "sha256": "SHA-256"}
ADVANCE = 2**20
"""A try that brought so many bytes is not counted as a failure: a large file may take any number of connections."""


class Transfer:
    """Fetches files of one revision."""

    def __init__(
        self,
        folder: Folder,
        provider: Provider,
        revision: str,
        *,
        progress: Progress,
        log: Callable[[str], None],
        tries: Callable[[], Tries],
        note: Callable[[ManifestEntry], None],
    ) -> None:
        """`note` is given each file before it gets its name, so that a kill leaves none that is not noted."""
        self._folder = folder
        self._note = note
        self._provider = provider
        self._revision = revision
        self._progress = progress
        self._log = log
        self._tries = tries
        self._etags_are_hashes = True

    async def fetch(self, file: RemoteFile) -> ManifestEntry:
        """Bring the file under its name. Raises InitializeError."""
        part = _Part(self._folder, file, part_name(self._provider.source, file), self._progress, self._note)
        try:
            await part.open()
            entry = await self._fill(file, part)
            if part.is_of_other_etag and self._etags_are_hashes:
                self._etags_are_hashes = False
                self._log(
                    f"warning: the ETag of {file.path} is not the MD5 of its bytes, as in storages that encrypt: only "
                    "the sizes of files are compared"
                )
            return entry
        finally:
            await part.close()

    async def _fill(self, file: RemoteFile, part: "_Part") -> ManifestEntry:
        tries = self._tries()
        damaged, best = False, part.size
        while True:
            try:
                await self._read(file, part)
                return await part.finish(compares_etag=self._etags_are_hashes)
            except InitializeError as error:
                if error.word == "Damaged":
                    if damaged:
                        await part.discard()
                        raise InitializeError("Damaged", f"{file.path} arrived twice: {error.sentence}") from error
                    damaged, best = True, 0
                    self._log(f"{error.sentence}; fetching {file.path} once more")
                    await part.begin_again()
                    continue
                if part.size >= best + ADVANCE:
                    tries.begin_again()
                best = max(best, part.size)
                if not file.identity:
                    await part.begin_again()
                await tries.after(error)

    async def _read(self, file: RemoteFile, part: "_Part") -> None:
        if part.size == file.size:
            return
        buffer = bytearray()
        try:
            async with contextlib.aclosing(self._provider.read(file, self._revision, part.size)) as pieces:
                async for piece in pieces:
                    buffer += piece
                    if part.size + len(buffer) > file.size:
                        buffer.clear()
                        raise InitializeError(
                            "Damaged", f"{file.path} has more than the {file.size} bytes that the source listed"
                        )
                    if len(buffer) >= BLOCK:
                        await part.append(bytes(buffer))
                        buffer.clear()
        finally:
            if buffer:
                await part.append(bytes(buffer))
        if part.size < file.size:
            raise InitializeError(
                "Unreachable", f"{file.path} ended after {amount(part.size)} of {amount(file.size)}", retry=True
            )


def part_name(source: str, file: RemoteFile) -> str:
    """The name of a part: another content has another name, so a part is never continued with other bytes."""
    text = "\0".join((source, file.path, str(file.size), file.identity))
    return hashlib.sha256(text.encode()).hexdigest()[:40]


async def hash_file(folder: Folder, name: str, algorithm: str, size: int) -> str:
    """The hash of a file of the target, read in pieces, so that the process can end in between."""
    try:
        with open(folder.open(name, os.O_RDONLY), "rb", buffering=0) as stream:  # noqa: ASYNC230, PTH123 - a descriptor
            digest = hasher(algorithm, size)
            while await asyncio.to_thread(_hash_next, stream.fileno(), digest):
                pass
    except OSError as error:
        raise failure(error, name, folder.path) from None
    return digest.hexdigest()


def _hash_next(descriptor: int, digest: "hashlib._Hash") -> int:
    data = os.read(descriptor, HASH_BLOCK)
    digest.update(data)
    return len(data)


class _Part:
    """An unfinished file, with the hash of what is there."""

    def __init__(
        self,
        folder: Folder,
        file: RemoteFile,
        name: str,
        progress: Progress,
        note: Callable[[ManifestEntry], None],
    ) -> None:
        self._folder = folder
        self._note = note
        self._file = file
        self._name = f"{PARTS}/{name}"
        self._progress = progress
        self._algorithm: Algorithm = file.digest.algorithm if file.digest else "sha256"
        self._hash = hasher(self._algorithm, file.size)
        self._descriptor = -1
        self._wrong = ""
        """The hash of the bytes that were refused."""
        self.is_of_other_etag = False
        self.size = 0
        self._flushed = 0
        self._flush: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take up what an earlier run left, if it can be continued."""
        with self._failures():
            self._descriptor = await asyncio.to_thread(
                self._folder.open, self._name, os.O_RDWR | os.O_CREAT, create=True
            )
            here = os.fstat(self._descriptor).st_size
        self._progress.bytes += min(here, self._file.size)
        self.size = min(here, self._file.size)
        if here > self._file.size or not self._file.identity:
            await self.begin_again()
        elif here:
            while await asyncio.to_thread(_hash_next, self._descriptor, self._hash):
                pass

    async def begin_again(self) -> None:
        """Drop all bytes."""
        with self._failures():
            await asyncio.to_thread(os.ftruncate, self._descriptor, 0)
        self._progress.bytes -= self.size
        self.size = self._flushed = 0
        self._hash = hasher(self._algorithm, self._file.size)

    async def discard(self) -> None:
        """Delete it: a later run must not continue from wrong bytes."""
        await self.begin_again()
        with self._failures():
            # Not its folder: other files may be about to open parts there.
            await asyncio.to_thread(self._folder.remove, self._name, folders=False)

    async def append(self, data: bytes) -> None:
        """Write and hash the next bytes."""
        if self._flush is not None and self._flush.done():
            await self._flushed_so_far()  # may raise, so it comes before these bytes are there
        with self._failures():
            await asyncio.to_thread(self._append, data)
        self.size += len(data)
        self._progress.bytes += len(data)
        if self._flush is None and self.size - self._flushed >= FLUSH_BLOCK:
            self._flushed = self.size
            flushing = asyncio.to_thread(os.fsync, self._descriptor)
            self._flush = asyncio.create_task(flushing, name="initialize-flush")

    async def _flushed_so_far(self) -> None:
        """Wait for the flush that runs. The kernel reports a failed write only once: it must not be missed."""
        if self._flush is not None:
            flush, self._flush = self._flush, None
            with self._failures():
                await flush

    def _append(self, data: bytes) -> None:
        view, offset = memoryview(data), self.size
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written
        self._hash.update(data)

    async def finish(self, *, compares_etag: bool) -> ManifestEntry:
        """Compare the hash and give the file its name."""
        digest = Digest(self._algorithm, self._hash.hexdigest())
        if self._file.digest and digest.hex != self._file.digest.hex.lower():
            self.is_of_other_etag = self._algorithm == "md5" and (not compares_etag or digest.hex == self._wrong)
            if not self.is_of_other_etag:
                self._wrong = digest.hex
                raise InitializeError("Damaged", f"{self._file.path} has a wrong {_HASHES[self._algorithm]}")
        await self._flushed_so_far()
        with self._failures():
            return await asyncio.to_thread(self._finish, digest)

    def _finish(self, digest: Digest) -> ManifestEntry:
        self._folder.state(self._file.path)  # refuses a link or a folder
        os.fsync(self._descriptor)
        state = os.fstat(self._descriptor)
        entry = ManifestEntry(
            path=self._file.path,
            size=state.st_size,
            hash=str(digest),
            mtime=state.st_mtime_ns,
            identity=self._file.identity,
        )
        self._note(entry)
        self._folder.rename(self._name, self._file.path)
        return entry

    async def close(self) -> None:
        """Close the file; its bytes stay."""
        if self._flush is not None:
            # An unfinished file is closed because of another error; that one is raised.
            await asyncio.gather(self._flush, return_exceptions=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise failure(error, self._file.path, self._folder.path) from None
