# SPDX-License-Identifier: Apache-2.0
"""`zip:///path/archive.zip`: the files in an archive that lies in the container."""

import asyncio
import zipfile
from collections.abc import AsyncGenerator, Sequence
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from trainwright.controller.initialize import InitializeError, ProviderRequest, RemoteFile

BLOCK = 2**20


class Archive:
    """Reads one archive, which may have a password."""

    variables: ClassVar[Sequence[str]] = ("ZIP_PASSWORD",)
    secrets: ClassVar[Sequence[str]] = ("ZIP_PASSWORD",)

    def __init__(self, request: ProviderRequest) -> None:
        self._path = unquote(urlsplit(request.address).path)
        if not self._path.endswith(".zip"):
            raise InitializeError("WrongAddress", f"{request.address} names no archive: write zip:///path/archive.zip")
        self._password = request.variables.get("ZIP_PASSWORD", "").encode() or None
        self.source = f"zip://{self._path}"
        self.allow: Sequence[str] = ()

    async def resolve(self) -> str:
        return ""

    async def files(self, revision: str) -> Sequence[RemoteFile]:  # noqa: ARG002
        try:
            with zipfile.ZipFile(self._path) as archive:
                return [
                    RemoteFile(one.filename, one.file_size, etag=f"{one.CRC:08x}")
                    for one in archive.infolist()
                    if not one.is_dir()
                ]
        except FileNotFoundError:
            raise InitializeError("NotFound", f"there is no {self._path} in this container") from None
        except zipfile.BadZipFile as error:
            raise InitializeError("Damaged", f"{self._path} is not a zip archive: {error}") from None

    async def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(file.path, pwd=self._password) as stream:
                stream.seek(offset)
                while data := await asyncio.to_thread(stream.read, BLOCK):
                    yield data
        except RuntimeError as error:
            raise InitializeError("TokenRefused", f"{self._path} cannot be opened: {error}") from None
        except zipfile.BadZipFile as error:
            raise InitializeError("Damaged", f"{file.path} in {self._path} is damaged: {error}") from None

    async def close(self) -> None:
        pass
