# SPDX-License-Identifier: Apache-2.0
"""A server that speaks the protocol of the Hugging Face hub, and one that serves single files; both can misbehave.

The requests and the answers are those of huggingface_hub's `snapshot_download`: revision, tree in pages, and files, of
which large ones come by a redirect to a host of another name.
"""

import functools
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

from aiohttp import web

COMMIT = "a" * 40
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@functools.lru_cache(maxsize=16)
def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@functools.lru_cache(maxsize=16)  # of a large file, each request for a range would take as long as its hash
def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Repository:
    files: dict[str, bytes]
    commit: str = COMMIT
    revisions: tuple[str, ...] = ("main",)
    large: tuple[str, ...] = ()
    """Files that come by the CDN."""
    token: str = ""
    """Who may see it; empty: everybody."""
    gated_for: tuple[str, ...] = ()
    """Tokens without access; `` is nobody's."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes in the listing that are not true."""
    sent: dict[str, bytes] = field(default_factory=dict)
    """Bytes that are sent instead of the listed ones."""


@dataclass
class Hub:
    repositories: dict[str, Repository] = field(default_factory=dict)
    """By kind and name: `models/o/n`."""
    tokens: tuple[str, ...] = ()
    """Those that the hub knows."""
    page: int = 1000
    faults: list[Fault] = field(default_factory=list)
    """Asked before each answer. One that answers None lets the request pass."""
    requests: list[str] = field(default_factory=list)
    headers: list[tuple[str, str, str]] = field(default_factory=list)
    """Host, path and authorization of each request."""
    port: int = 0
    next_host: str = ""
    """A host that the links to further pages name, as a mirror passes them on."""
    bytes_sent: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path, raw = request.path, request.raw_path.partition("?")[0]
        self.requests.append(f"{request.method} {path}")
        self.headers.append((request.host, path, request.headers.get("Authorization", "")))
        for fault in self.faults:
            if (answer := await fault(request)) is not None:
                return answer
        if path == "/api/whoami-v2":
            return web.json_response({"name": "u"}) if self._is_known(request) else web.Response(status=401)
        if path == "/api/agent-harnesses":
            return web.Response(status=404)
        if path.startswith("/cdn/"):
            _, _, kind, owner, name, file = path.split("/", 5)
            return await self.send(request, self.repositories[f"{kind}/{owner}/{name}"], file)
        if path.startswith("/api/"):
            kind, owner, name, what, rest = (*raw.removeprefix("/api/").split("/", 4), "", "", "")[:5]
        else:
            kind = "datasets" if path.startswith("/datasets/") else "models"
            owner, name, what, rest = (*raw.removeprefix("/datasets").lstrip("/").split("/", 3), "", "", "")[:4]
        return await self._of_repository(request, f"{kind}/{owner}/{name}", what, rest)

    def _is_known(self, request: web.Request) -> bool:
        return self._token(request) in self.tokens

    def _token(self, request: web.Request) -> str:
        return request.headers.get("Authorization", "").removeprefix("Bearer ")

    async def _of_repository(self, request: web.Request, key: str, what: str, rest: str) -> web.StreamResponse:  # noqa: PLR0911
        token = self._token(request)
        if token and token not in self.tokens:
            return error(401, "", "Invalid credentials in Authorization header")
        repository = self.repositories.get(key)
        if repository is None or (repository.token and repository.token != token):
            return error(404 if token else 401, "RepoNotFound", "Repository not found")
        # A revision with a slash comes as one part.
        revision, file = (unquote(part) for part in rest.partition("/")[::2])
        if revision not in (*repository.revisions, repository.commit):
            return error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if what == "revision":
            return web.json_response({"id": key.partition("/")[2], "sha": repository.commit})
        if what == "tree":
            return self._tree(request, repository)
        if token in repository.gated_for:
            return error(403 if token else 401, "GatedRepo", "Access to this resource is restricted")
        if file not in repository.files:
            return error(404, "EntryNotFound", "Entry not found")
        if file in repository.large:
            data = repository.files[file]
            # Another name of the same server: it must not see the token.
            place = f"http://localhost:{self.port}/cdn/{key}/{file}?signature=secret-signature"
            linked = {"X-Linked-Etag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data))}
            return web.Response(status=302, headers={"Location": place, "X-Repo-Commit": repository.commit, **linked})
        return await self.send(request, repository, file)

    def _tree(self, request: web.Request, repository: Repository) -> web.Response:
        begin = int(request.query.get("cursor", "0"))
        names = sorted(repository.files)
        entries: list[dict[str, object]] = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "folder"}]
        for name in names[begin : begin + self.page]:
            data = repository.files[name]
            size = repository.sizes.get(name, len(data))
            entry: dict[str, object] = {"type": "file", "oid": git_hash(data), "size": size, "path": name}
            if name in repository.large:
                entry["lfs"] = {"oid": sha256(data), "size": size, "pointerSize": 134}
            entries.append(entry)
        headers = {}
        if begin + self.page < len(names):
            host = self.next_host or self.url
            link = f"{host}{request.path}?recursive=true&expand=false&cursor={begin + self.page}"
            headers["Link"] = f'<{link}>; rel="next"'
        return web.json_response(entries, headers=headers)

    async def send(self, request: web.Request, repository: Repository, name: str) -> web.StreamResponse:
        data = repository.sent.get(name, repository.files[name])
        etag = sha256(data) if name in repository.large else git_hash(data)
        answer = ranged(request, data, {"ETag": f'"{etag}"', "X-Repo-Commit": repository.commit})
        self.bytes_sent += len(answer.body) if isinstance(answer.body, bytes) else 0
        return answer


def ranged(request: web.Request, data: bytes, headers: dict[str, str]) -> web.Response:
    """Whole, or the range that the request asks for."""
    if "Range" not in request.headers:
        return web.Response(body=data, headers=headers)
    first, _, last = request.headers["Range"].removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last) if last else len(data), len(data) - 1)
    if start >= len(data):
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{len(data)}"})
    span = {"Content-Range": f"bytes {start}-{end}/{len(data)}"}
    return web.Response(status=206, body=data[start : end + 1], headers={**headers, **span})


def error(status: int, code: str, message: str) -> web.Response:
    headers = {"X-Error-Message": message}
    if code:
        headers["X-Error-Code"] = code
    return web.json_response({"error": message}, status=status, headers=headers)


def cut_after(data: bytes, bytes_sent: int, *, times: int, path: str) -> Fault:
    """Promises the whole rest of a file, and closes the connection after some bytes of it."""
    left = [times]

    async def fault(request: web.Request) -> web.StreamResponse | None:
        if path not in request.path or not left[0] or "tree" in request.path or request.method != "GET":
            return None
        asked = request.headers.get("Range", "bytes=0-").removeprefix("bytes=")
        first, _, last = asked.partition("-")
        if last:
            return None
        left[0] -= 1
        start = int(first)
        headers = {"Content-Length": str(len(data) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        answer = web.StreamResponse(status=206 if start else 200, headers=headers)
        await answer.prepare(request)
        await answer.write(data[start : start + bytes_sent])
        assert request.transport is not None
        request.transport.close()
        return answer

    return fault


def answering(path: str, *answers: Callable[[], web.Response]) -> Fault:
    """Gives these answers, one for each request for the path, before the right ones."""
    left = list(answers)

    async def fault(request: web.Request) -> web.StreamResponse | None:
        return left.pop(0)() if left and path in request.path else None

    return fault


@asynccontextmanager
async def serving(hub: Hub) -> AsyncIterator[Hub]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", hub.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    # All names of this machine: the redirect goes to `localhost`.
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    hub.port = runner.addresses[0][1]
    try:
        yield hub
    finally:
        await runner.cleanup()
