# SPDX-License-Identifier: Apache-2.0
"""`file:///path`: a file or a folder of the container, such as another claim."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from trainwright.controller.initialize.contract import Digest, InitializeError, ProviderRequest, RemoteFile, hasher
from trainwright.controller.initialize.selection import OWN

_BLOCK = 2**20
_NOT_DATA = ("lost+found", OWN)


class LocalFolder:
    """Copies from a folder. If that is the target itself, its files are hashed, and nothing is copied."""

    variables: ClassVar[Sequence[str]] = ()
    secrets: ClassVar[Sequence[str]] = ()

    def __init__(self, request: ProviderRequest) -> None:
        parts = urlsplit(request.address)
        path = unquote(parts.path)
        if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
            raise InitializeError("WrongAddress", f"{request.address} is not file:///path with an absolute path")
        self._path = Path(path)
        self._root = Path(os.path.realpath(path))
        target = Path(os.path.realpath(request.target))
        # One volume may be mounted at two paths.
        self.is_target = self._root == target or _is_same(self._root, target)
        if not self.is_target and (self._root in target.parents or target in self._root.parents):
            raise InitializeError("WrongAddress", f"{path} and the target {request.target} lie in each other")
        self.source = f"file://{self._root}"
        self.allow: Sequence[str] = ()

    async def resolve(self) -> str:
        """A folder has no revision."""
        return ""

    async def files(self, revision: str) -> Sequence[RemoteFile]:  # noqa: ARG002 - there is one
        """All files below the folder, or the one file."""
        found = await asyncio.to_thread(lambda: list(self._files()))
        if self.is_target:
            return [await self._with_digest(file) for file in found]
        return found

    def _files(self) -> Iterator[RemoteFile]:
        if self._root.is_file():
            yield self._file(self._root, self._path.name)
            return
        if not self._root.is_dir():
            raise InitializeError("NotFound", f"there is no {self._path} in this container: is its volume mounted?")
        try:
            for folder, below, names in os.walk(self._root, onerror=_raise):
                # `..data` and its like are how kubelets replace files of a volume; the names beside them lead there.
                below[:] = sorted(name for name in below if not name.startswith(".."))
                if folder == str(self._root):
                    below[:] = [name for name in below if name not in _NOT_DATA]
                for name in below:
                    if os.path.islink(os.path.join(folder, name)):  # noqa: PTH114, PTH118 - strings of os.walk
                        raise InitializeError("BadName", f"{name} in {folder} is a link to a folder: name that folder")
                for name in sorted(names):
                    path = Path(folder, name)
                    yield self._file(path, path.relative_to(self._root).as_posix())
        except OSError as error:
            raise InitializeError("NotFound", f"{error.filename} cannot be read: {error.strerror}") from None

    def _file(self, path: Path, name: str) -> RemoteFile:
        real = Path(os.path.realpath(path))
        if real != path and self._root not in real.parents:
            raise InitializeError("BadName", f"{name} in {self._root} is a link that leads out of this folder")
        if not real.is_file():
            raise InitializeError("BadName", f"{name} in {self._root} is not a file")
        state = real.stat()
        return RemoteFile(name, state.st_size, etag=f"{state.st_size}-{state.st_mtime_ns}")

    async def _with_digest(self, file: RemoteFile) -> RemoteFile:
        digest = hasher("sha256", file.size)
        async for piece in self.read(file, "", 0):
            await asyncio.to_thread(digest.update, piece)
        return RemoteFile(file.path, file.size, Digest("sha256", digest.hexdigest()), file.etag)

    async def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """The bytes of a file. A file that changed since it was listed is refused."""
        path = self._root if self._root.is_file() else self._root / file.path
        try:
            with path.open("rb") as stream:
                stream.seek(offset)
                while data := await asyncio.to_thread(stream.read, _BLOCK):
                    yield data
                state = os.fstat(stream.fileno())
        except OSError as error:
            raise InitializeError("NotFound", f"{path} cannot be read: {error.strerror}") from None
        if file.etag != f"{state.st_size}-{state.st_mtime_ns}":
            raise InitializeError("Damaged", f"{path} was changed while it was copied")

    async def close(self) -> None:
        """Nothing stays open."""


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _raise(error: OSError) -> None:
    raise error
