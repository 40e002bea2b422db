# SPDX-License-Identifier: Apache-2.0
"""`hf://owner/name@revision`: a repository of the Hugging Face hub, or of a mirror that speaks its protocol.

Three kinds of requests: the revision gives a commit, the tree gives sizes and hashes of all files, and each file is one
more. huggingface_hub asks for each file twice. Few large files come in several ranges at once.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, urljoin, urlsplit, urlunsplit

import msgspec

from trainwright.controller.initialize.contract import Digest, InitializeError, ProviderRequest, RemoteFile
from trainwright.controller.initialize.web import IDLE_SECONDS, Answer, Web, origin_of, refused

HUB = "https://huggingface.co"
MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.gguf")
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "ACCESS_TOKEN")
"""The first that is set counts, as for huggingface_hub."""
PIECE = 2**22
"""Bytes of one range of a large file, which are in memory at once for each connection."""
_PAGE_BYTES = 2**26
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TRUE = ("1", "on", "true", "yes")
_PART = re.compile(r"[\w.-]+")


class _LFS(msgspec.Struct):
    oid: str
    size: int


class _Entry(msgspec.Struct):
    type: str
    path: str
    oid: str = ""
    size: int = 0
    lfs: _LFS | None = None


class _Revision(msgspec.Struct):
    sha: str = ""


class HuggingFace:
    """Reads one repository."""

    variables: ClassVar[Sequence[str]] = (*_TOKENS, "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT")
    secrets: ClassVar[Sequence[str]] = _TOKENS

    def __init__(self, request: ProviderRequest) -> None:
        self._kind = request.kind
        self._repository, self._revision = _repository(request)
        self._noun = "model" if self._kind == "model" else "data set"
        self._name = f"{self._noun} {self._repository}"
        variables = request.variables
        self._endpoint = variables.get("HF_ENDPOINT", HUB).rstrip("/")
        parts = urlsplit(self._endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InitializeError("WrongAddress", f"HF_ENDPOINT is {self._endpoint}: it must be https://host")
        self._host = parts.hostname
        self._offline = variables.get("HF_HUB_OFFLINE", "").lower() in _TRUE
        self._connections = request.connections
        self._at_once = 1
        self._token_name = next((name for name in _TOKENS if variables.get(name, "").strip()), "")
        token = variables.get(self._token_name, "").strip()
        self._web = self._web_with(token, request)
        # Kubeflow Trainer logs in with it, so a bad one ends its run also where another one is used.
        other = variables.get("ACCESS_TOKEN", "").strip()
        self._unchecked = self._web_with(other, request) if other not in ("", token) else None
        origin = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        self.source = f"hf://{self._kind}/{self._repository}@{self._revision} of {origin}"
        self.allow: Sequence[str] = MODEL_FILES if self._kind == "model" else ()

    def _web_with(self, token: str, request: ProviderRequest) -> Web:
        return Web(
            self._endpoint,
            connections=request.connections,
            authorization=f"Bearer {token}" if token else "",
            plain=urlsplit(self._endpoint).scheme == "http",
            idle=_seconds(request.variables.get("HF_HUB_DOWNLOAD_TIMEOUT", "")),
        )

    async def _check_other_token(self) -> None:
        """Raises InitializeError if the hub refuses the token that is set and not used. A mirror may not know users."""
        if self._unchecked is None:
            return
        async with self._unchecked.get(f"{self._endpoint}/api/whoami-v2") as answer:
            if answer.status == 401:
                used = f"{self._token_name} is used: correct ACCESS_TOKEN, or remove it"
                raise InitializeError("TokenRefused", f"the hub does not accept the token in ACCESS_TOKEN; {used}")
        await self._unchecked.close()
        self._unchecked = None

    async def resolve(self) -> str:
        """The commit of the revision. A commit needs no request."""
        if _COMMIT.fullmatch(self._revision):
            return self._revision
        if self._offline:
            raise self._is_offline()
        await self._check_other_token()
        url = f"{self._api()}/revision/{quote(self._revision, safe='')}"
        async with self._web.get(url) as answer:
            if answer.status != 200:
                raise self._refused(answer, self._name)
            found: _Revision = await self._decoded(answer, _Revision)
        # A mirror may not know commits: then the files tell what changed.
        return found.sha

    async def files(self, revision: str) -> Sequence[RemoteFile]:
        """All files, page by page."""
        if self._offline:
            raise self._is_offline()
        await self._check_other_token()
        url = f"{self._api()}/tree/{quote(revision or self._revision, safe='')}?recursive=true&expand=false"
        files: list[RemoteFile] = []
        pages: set[str] = set()
        paths: set[str] = set()
        while url not in pages:
            pages.add(url)
            async with self._web.get(url) as answer:
                if answer.status != 200:
                    raise self._refused(answer, self._name)
                entries: list[_Entry] = await self._decoded(answer, list[_Entry])
                found = [_file(entry) for entry in entries if entry.type == "file"]
                if not paths.isdisjoint(file.path for file in found):
                    break
                files += found
                paths.update(file.path for file in found)
                link = answer.links["next"]["url"] if "next" in answer.links else None
            if link is None:
                self._at_once = max(1, self._connections // max(1, sum(file.size > PIECE for file in files)))
                return files
            url = self._here(urljoin(url, str(link)))
        raise InitializeError(
            "ServerError", f"{self._host} lists {self._name} without an end: a next page is one that was read before"
        )

    async def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:
        """The bytes of a file. Large ones come by a redirect to another host, which does not get the token."""
        if self._offline:
            raise self._is_offline()
        folder = "" if self._kind == "model" else "/datasets"
        commit, path = quote(revision or self._revision, safe=""), quote(file.path)
        url = f"{self._endpoint}{folder}/{self._repository}/resolve/{commit}/{path}"
        # Without a hash, ranges of two different contents would go unnoticed.
        in_ranges = self._at_once > 1 and bool(file.identity) and file.size - offset > PIECE
        end = offset + PIECE if in_ranges else file.size
        async with self._web.get(url, _range(file, offset, end)) as answer:
            self._check(answer, file)
            # A server that knows no ranges sends all of it in this answer.
            in_ranges = in_ranges and answer.status == 206
            async with contextlib.aclosing(self._web.range(url, file, offset, answer)) as pieces:
                async for piece in pieces:
                    offset += len(piece)
                    yield piece
            # Without another redirect for each range. Its signature may expire: the core's next try gets another one.
            url = str(answer.url)
        if in_ranges and offset == end:
            async with contextlib.aclosing(self._ranges(url, file, offset)) as rest:
                async for piece in rest:
                    yield piece

    async def _ranges(self, url: str, file: RemoteFile, offset: int) -> AsyncGenerator[bytes, None]:
        """The bytes from an offset on, in order, by several requests at once. Ends where one of them is short."""
        starts = iter(range(offset, file.size, PIECE))
        running: deque[asyncio.Task[bytes]] = deque()
        try:
            while True:
                while len(running) < self._at_once and (start := next(starts, None)) is not None:
                    running.append(asyncio.create_task(self._piece(url, file, start), name="initialize-range"))
                if not running:
                    return
                data = await running.popleft()
                offset += len(data)
                yield data
                if offset < file.size and len(data) < PIECE:
                    return
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _piece(self, url: str, file: RemoteFile, start: int) -> bytes:
        """One range, whole or as far as the server sends it."""
        end = min(start + PIECE, file.size)
        data = bytearray()
        async with self._web.get(url, _range(file, start, end)) as answer:
            self._check(answer, file)
            if answer.status != 206:
                raise InitializeError(
                    "ServerError", f"{answer.url.host} sends only some ranges of {file.path}", retry=True
                )
            async with contextlib.aclosing(self._web.range(url, file, start, answer)) as pieces:
                async for piece in pieces:
                    data += piece
                    if start + len(data) > end:
                        raise InitializeError(
                            "Damaged", f"{answer.url.host} sent a longer range of {file.path} than asked"
                        )
        return bytes(data)

    def _check(self, answer: Answer, file: RemoteFile) -> None:
        """Raises InitializeError unless the answer has bytes of the file."""
        if answer.status in (200, 206):
            return
        elsewhere = origin_of(str(answer.url)) != origin_of(self._endpoint)
        if answer.status == 403 and elsewhere:
            # Signatures of redirects expire: the next try gets another one.
            raise InitializeError(
                "AccessNotGranted", f"{answer.url.host} refuses the signed address of {file.path}", retry=True
            )
        raise self._refused(answer, f"{file.path} of {self._name}")

    async def close(self) -> None:
        """Close the connections."""
        await self._web.close()
        if self._unchecked is not None:
            await self._unchecked.close()

    def _api(self) -> str:
        return f"{self._endpoint}/api/{self._kind}s/{self._repository}"

    def _here(self, url: str) -> str:
        """The next page, on our host: mirrors pass the links of the hub on."""
        parts, ours = urlsplit(url), urlsplit(self._endpoint)
        path = parts.path if parts.path.startswith(f"{ours.path}/") else f"{ours.path}{parts.path}"
        return urlunsplit((ours.scheme, ours.netloc, path, parts.query, ""))

    async def _decoded(self, answer: Answer, kind: Any) -> Any:
        try:
            return msgspec.json.decode(await self._web.text(answer, _PAGE_BYTES), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise InitializeError(
                "ServerError",
                f"{self._host} does not answer as a hub: the answer is not the JSON of its API",
                retry=True,
            ) from None

    def _is_offline(self) -> InitializeError:
        return InitializeError("Unreachable", f"HF_HUB_OFFLINE is set, so {self._host} is not asked for {self._name}")

    def _refused(self, answer: Answer, what: str) -> InitializeError:  # noqa: PLR0911 - one for each answer
        code = answer.headers.get("X-Error-Code", "")
        if answer.status == 404 and code == "RevisionNotFound":
            return InitializeError("RevisionNotFound", f"{self._repository} has no revision {self._revision}")
        if code == "GatedRepo" and self._token_name:
            return InitializeError(
                "AccessNotGranted",
                f"{self._repository} is gated and this token's user has no access yet: ask for it on its page",
            )
        if answer.status in (401, 403) and not self._token_name:
            reason = "is gated: it" if code == "GatedRepo" else "is private or does not exist: if it is private, it"
            return InitializeError(
                "TokenMissing",
                f"{self._name} {reason} needs a token: put ACCESS_TOKEN into a Secret and name it in "
                f"spec.initializer.{self._kind}.secretRef",
            )
        if answer.status == 401 and code != "RepoNotFound":
            return InitializeError("TokenRefused", f"the hub does not accept the token in {self._token_name}")
        if answer.status == 403:
            return InitializeError("AccessNotGranted", f"the token in {self._token_name} has no right to read {what}")
        if answer.status in (401, 404) and (code == "RepoNotFound" or what == self._name):
            seen = "this token can see" if self._token_name else "everybody can see"
            return InitializeError("NotFound", f"there is no {self._name} that {seen} on {self._host}")
        return refused(answer, what)


def _range(file: RemoteFile, start: int, end: int) -> dict[str, str]:
    """The header that asks for these bytes; none for a whole file."""
    if end < file.size:
        return {"Range": f"bytes={start}-{end - 1}"}
    return {"Range": f"bytes={start}-"} if start else {}


def _file(entry: _Entry) -> RemoteFile:
    if entry.lfs is not None:
        return RemoteFile(entry.path, entry.lfs.size, Digest("sha256", entry.lfs.oid.removeprefix("sha256:").lower()))
    digest = Digest("git", entry.oid.lower()) if _COMMIT.fullmatch(entry.oid.lower()) else None
    return RemoteFile(entry.path, entry.size, digest)


def _repository(request: ProviderRequest) -> tuple[str, str]:
    """The name of the repository and the revision of an address."""
    address = request.address
    rest, _, query = address.partition("://")[2].partition("?")
    wanted = parse_qs(query, keep_blank_values=True)
    if wanted.keys() - {"revision"} or len(wanted.get("revision", [])) > 1:
        raise InitializeError("WrongAddress", f"{address} has other parameters than one revision")
    revision = wanted.get("revision", [""])[0]
    path, at, pinned = rest.partition("@")
    if (at and not pinned) or (wanted and not revision) or (pinned and revision):
        raise InitializeError("WrongAddress", f"{address} must name one revision, or none")
    parts = path.strip("/").split("/")
    if request.kind == "dataset":
        parts = parts[:2]
    if len(parts) > 2 or not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        raise InitializeError("WrongAddress", f"{address} does not name a repository: write hf://owner/name")
    return "/".join(parts), pinned or revision or "main"


def _seconds(text: str) -> float:
    try:
        return max(1.0, float(text)) if text.strip() else IDLE_SECONDS
    except ValueError:
        raise InitializeError("WrongSetting", f"HF_HUB_DOWNLOAD_TIMEOUT is {text}: it must be seconds") from None
