# SPDX-License-Identifier: Apache-2.0
"""Files of sources that list no sure hash: finished ones are kept, and ETags may be something else than a hash."""

import errno
import hashlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from tests.unit.initialize.runs import initialize, tree
from trainwright.controller.initialize import transfer
from trainwright.controller.initialize.contract import Digest, InitializeError, ProviderRequest, RemoteFile
from trainwright.controller.initialize.folder import PARTS
from trainwright.controller.initialize.manifest import FINISHED
from trainwright.controller.initialize.providers import BUILT_IN
from trainwright.controller.runtime.testing.waiting import eventually


class Scripted:
    """Serves bytes, each file with an ETag, which is a digest if it has 32 letters. A file without bytes breaks off."""

    variables: ClassVar[Sequence[str]] = ()
    secrets: ClassVar[Sequence[str]] = ()
    listing: ClassVar[dict[str, tuple[int, str]]] = {}
    sent: ClassVar[dict[str, list[bytes]]] = {}
    reads: ClassVar[list[str]] = []
    allow: Sequence[str] = ()

    def __init__(self, request: ProviderRequest) -> None:
        self.source = request.address

    async def resolve(self) -> str:
        return ""

    async def files(self, revision: str) -> Sequence[RemoteFile]:  # noqa: ARG002
        return [
            RemoteFile(name, size, Digest("md5", etag) if len(etag) == 32 else None, etag)
            for name, (size, etag) in self.listing.items()
        ]

    async def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        self.reads.append(file.path)
        contents = self.sent[file.path]
        if not contents:
            raise InitializeError("NotFound", "gone")
        yield (contents.pop(0) if len(contents) > 1 else contents[0])[offset:]

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setitem(BUILT_IN, "scripted", (__name__, "Scripted"))
    # Tests are not imported under their names.
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or ModuleType(__name__))
    monkeypatch.setattr(sys.modules[__name__], "Scripted", Scripted, raising=False)
    Scripted.listing, Scripted.sent, Scripted.reads = {}, {}, []
    return Scripted


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


async def test_finished_files_without_a_hash_are_kept(provider: type[Scripted], tmp_path: Path) -> None:
    provider.listing = {"a": (3, "1-2"), "b": (2, "3-2"), "c": (1, "4-2")}
    provider.sent = {"a": [b"aaa"], "b": [b"bb"], "c": []}
    one_by_one = {"TRAINWRIGHT_CONNECTIONS": "1"}
    assert (await initialize("scripted://x", tmp_path / "t", "dataset", one_by_one)).word == "NotFound"
    # A kill has cut the last line.
    with (tmp_path / "t" / FINISHED).open("ab") as stream:
        stream.write(b'{"path": "c", "si')
    provider.sent["c"], provider.reads = [b"c"], []
    outcome = await initialize("scripted://x", tmp_path / "t", "dataset")
    assert (outcome.word, provider.reads) == ("", ["c"])
    assert tree(tmp_path / "t") == {"a": b"aaa", "b": b"bb", "c": b"c"}
    assert not (tmp_path / "t" / FINISHED).exists()


async def test_finished_files_of_another_source_come_again(provider: type[Scripted], tmp_path: Path) -> None:
    provider.listing = {"a": (3, "1-2"), "c": (1, "4-2")}
    provider.sent = {"a": [b"aaa"], "c": []}
    await initialize("scripted://x", tmp_path / "t", "dataset")
    provider.sent, provider.reads = {"a": [b"zzz"], "c": [b"c"]}, []
    assert (await initialize("scripted://y", tmp_path / "t", "dataset")).word == ""
    assert tree(tmp_path / "t") == {"a": b"zzz", "c": b"c"}


async def test_files_that_were_kept_before_a_failure_are_kept_after_it(
    provider: type[Scripted], tmp_path: Path
) -> None:
    provider.listing, provider.sent = {"a": (3, "1-2")}, {"a": [b"aaa"]}
    await initialize("scripted://x", tmp_path / "t", "dataset")
    for content in ([], [b"c"]):
        provider.listing["c"], provider.sent["c"], provider.reads = (1, "4-2"), content, []
        await initialize("scripted://x", tmp_path / "t", "dataset")
        assert provider.reads == ["c"]
    assert tree(tmp_path / "t") == {"a": b"aaa", "c": b"c"}


async def test_an_etag_that_is_the_md5_is_compared(provider: type[Scripted], tmp_path: Path) -> None:
    provider.listing, provider.sent = {"a": (3, md5(b"aaa"))}, {"a": [b"aab", b"aaa"]}
    outcome = await initialize("scripted://x", tmp_path / "t", "dataset")
    assert (outcome.word, provider.reads) == ("", ["a", "a"])
    assert outcome.said("a has a wrong MD5; fetching a once more")
    assert tree(tmp_path / "t") == {"a": b"aaa"}


async def test_two_different_wrong_contents_are_damaged(provider: type[Scripted], tmp_path: Path) -> None:
    provider.listing, provider.sent = {"a": (3, md5(b"aaa"))}, {"a": [b"aab", b"aac"]}
    assert (await initialize("scripted://x", tmp_path / "t", "dataset")).word == "Damaged"
    assert tree(tmp_path / "t") == {}


async def test_an_etag_of_an_encrypted_object_is_not_its_md5(provider: type[Scripted], tmp_path: Path) -> None:
    """Amazon S3 with its key service: the ETag has 32 digits and is something else."""
    provider.listing = {"a": (3, md5(b"other")), "b": (2, md5(b"another"))}
    provider.sent = {"a": [b"aaa"], "b": [b"bb"]}
    outcome = await initialize("scripted://x", tmp_path / "t", "dataset", {"TRAINWRIGHT_CONNECTIONS": "1"})
    assert outcome.word == ""
    assert outcome.said("the ETag of a is not the MD5 of its bytes")
    # What the first file has told need not be found out again.
    assert provider.reads == ["a", "a", "b"]
    assert tree(tmp_path / "t") == {"a": b"aaa", "b": b"bb"}


async def test_a_large_file_goes_to_the_disk_while_it_comes(
    provider: type[Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BLOCK", 10)
    monkeypatch.setattr(transfer, "FLUSH_BLOCK", 30)
    sizes = sizes_of_flushes(monkeypatch)
    content = bytes(range(100))
    provider.listing, provider.sent = {"a": (100, md5(content))}, {"a": [content]}
    monkeypatch.setattr(provider, "read", in_tens(sizes))
    assert (await initialize("scripted://x", tmp_path / "t", "dataset")).word == ""
    assert tree(tmp_path / "t") == {"a": content}
    assert sizes[0] < 100  # long before its end
    assert sizes[-1] == 100  # and at its end, before it gets its name


async def test_a_disk_that_fails_while_a_file_comes_is_not_overheard(
    provider: type[Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of it once: a later fsync succeeds, although bytes are lost."""
    monkeypatch.setattr(transfer, "BLOCK", 10)
    monkeypatch.setattr(transfer, "FLUSH_BLOCK", 30)
    sizes = sizes_of_flushes(monkeypatch, fail=True)
    content = bytes(range(100))
    provider.listing, provider.sent = {"a": (100, "etag")}, {"a": [content]}
    monkeypatch.setattr(provider, "read", in_tens(sizes))
    outcome = await initialize("scripted://x", tmp_path / "t", "dataset")
    assert sizes
    assert outcome.word == "NoSpace"
    assert not (tmp_path / "t" / "a").exists()
    # The next start goes on with what is there: no byte may be there twice.
    (part,) = (tmp_path / "t" / PARTS).iterdir()
    assert content.startswith(part.read_bytes())


def in_tens(sizes: list[int]) -> Callable[..., AsyncGenerator[bytes, None]]:
    """Reads a file ten bytes at a time; the last ones come when the file was flushed, which another thread does."""

    async def read(self: Scripted, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:
        for begin in range(offset, file.size, 10):
            if begin + 10 == file.size:
                await eventually(lambda: sizes, what="a flush")
            yield self.sent[file.path][0][begin : begin + 10]

    return read


def sizes_of_flushes(monkeypatch: pytest.MonkeyPatch, *, fail: bool = False) -> list[int]:
    """The sizes of unfinished files at their flushes from now on. The first flush can fail."""
    sizes: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        if PARTS in str(Path(f"/proc/self/fd/{descriptor}").readlink()) and os.fstat(descriptor).st_size:
            sizes.append(os.fstat(descriptor).st_size)
            if fail and len(sizes) == 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return sizes
