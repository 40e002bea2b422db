# SPDX-License-Identifier: Apache-2.0
"""https:// against a server on loopback, where plain http is allowed."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.initialize.hub import Hub, answering, cut_after, ranged, serving, sha256
from tests.unit.initialize.runs import initialize, tree

DATA = bytes(range(256)) * 8192


class Server(Hub):
    """Serves one file, with ranges and an etag."""

    etag: str = '"1"'
    data: bytes = DATA
    takes_ranges: bool = True

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path} {request.headers.get('Range', '')}".strip())
        self.headers.append((request.host, request.path, request.headers.get("Authorization", "")))
        for fault in self.faults:
            if (answer := await fault(request)) is not None:
                return answer
        if not self.takes_ranges or request.headers.get("If-Range", self.etag) != self.etag:
            return web.Response(body=self.data, headers={"ETag": self.etag})
        return ranged(request, self.data, {"ETag": self.etag})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with serving(server):
        yield server


def address(server: Server, data: bytes | None = DATA, path: str = "folder/data%20set.tar") -> str:
    return f"{server.url}/{path}" + (f"#sha256={sha256(data).upper()}" if data is not None else "")


async def test_a_file_with_its_hash(server: Server, tmp_path: Path) -> None:
    outcome = await initialize(address(server), tmp_path, "dataset")
    assert (outcome.error, tree(tmp_path)) == (None, {"data set.tar": DATA})
    assert not outcome.said("is not checked")
    server.requests.clear()
    assert (await initialize(address(server), tmp_path, "dataset")).said("nothing to fetch")
    assert server.requests == ["GET /folder/data set.tar bytes=0-0"]


async def test_without_a_hash_there_is_a_warning_and_the_etag_tells_a_change(server: Server, tmp_path: Path) -> None:
    assert (await initialize(address(server, None), tmp_path, "dataset")).said("add #sha256=HEX")
    assert (await initialize(address(server, None), tmp_path, "dataset")).said("nothing to fetch")
    server.data, server.etag = b"new", '"2"'
    assert (await initialize(address(server, None), tmp_path, "dataset")).error is None
    assert tree(tmp_path) == {"data set.tar": b"new"}


async def test_a_wrong_hash(server: Server, tmp_path: Path) -> None:
    outcome = await initialize(address(server, b"other"), tmp_path, "dataset")
    assert outcome.sentence == "data set.tar arrived twice: data set.tar has a wrong SHA-256"
    assert tree(tmp_path) == {}


async def test_an_empty_file(server: Server, tmp_path: Path) -> None:
    server.data = b""
    assert (await initialize(address(server, b""), tmp_path, "dataset")).error is None
    assert tree(tmp_path) == {"data set.tar": b""}


@pytest.mark.parametrize("takes_ranges", [True, False])
async def test_a_cut_connection(server: Server, tmp_path: Path, takes_ranges: bool) -> None:
    server.takes_ranges = takes_ranges
    server.faults.append(cut_after(DATA, 2**20 + 3, times=1, path="data"))
    outcome = await initialize(address(server), tmp_path, "dataset")
    assert (outcome.error, len(outcome.pauses)) == (None, 1)
    assert tree(tmp_path) == {"data set.tar": DATA}


async def test_a_file_that_changes_in_between_is_never_mixed(server: Server, tmp_path: Path) -> None:
    async def change(request: web.Request) -> web.StreamResponse | None:
        if len(server.requests) == 3:
            server.data, server.etag = DATA[::-1], '"2"'
        return None

    server.faults += [change, cut_after(DATA, 2**20, times=1, path="data")]
    outcome = await initialize(address(server, None), tmp_path, "dataset")
    assert outcome.word == "Damaged"
    assert "was changed on 127.0.0.1" in outcome.sentence
    assert tree(tmp_path) == {}
    assert (await initialize(address(server, None), tmp_path, "dataset")).error is None
    assert tree(tmp_path) == {"data set.tar": DATA[::-1]}


async def test_a_file_without_hash_and_etag_starts_again_at_its_first_byte(server: Server, tmp_path: Path) -> None:
    server.etag = 'W/"1"'
    server.faults.append(cut_after(DATA, 2**20, times=1, path="data"))
    assert (await initialize(address(server, None), tmp_path, "dataset")).error is None
    assert server.requests[-1] == "GET /folder/data set.tar"
    assert tree(tmp_path) == {"data set.tar": DATA}


async def test_another_range_than_asked_for_is_refused(server: Server, tmp_path: Path) -> None:
    async def shifted(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Range") not in (None, "bytes=0-0"):
            return web.Response(
                status=206, body=DATA, headers={"Content-Range": f"bytes 0-{len(DATA) - 1}/{len(DATA)}"}
            )
        return None

    server.faults += [cut_after(DATA, 2**20, times=1, path="data"), shifted]
    outcome = await initialize(address(server), tmp_path, "dataset")
    assert outcome.error is None
    assert outcome.said("sent another range than asked for")
    assert tree(tmp_path) == {"data set.tar": DATA}


@pytest.mark.parametrize(
    ("status", "word", "tries"),
    [
        *[(401, "AccessNotGranted", 1), (403, "AccessNotGranted", 1), (404, "NotFound", 1), (410, "NotFound", 1)],
        *[(408, "TooManyRequests", 5), (429, "TooManyRequests", 5), (500, "ServerError", 5), (503, "ServerError", 5)],
    ],
)
async def test_statuses(server: Server, tmp_path: Path, status: int, word: str, tries: int) -> None:
    server.faults.append(answering("data", *[lambda: web.Response(status=status)] * 9))
    outcome = await initialize(address(server), tmp_path / "target", "dataset")
    assert (outcome.word, len(server.requests)) == (word, tries)
    assert str(status) in outcome.sentence
    assert not (tmp_path / "target").exists()


async def test_retry_after_is_obeyed_for_the_file_as_well(server: Server, tmp_path: Path) -> None:
    async def busy(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=429, headers={"Retry-After": "33"}) if len(server.requests) == 2 else None

    server.faults.append(busy)
    outcome = await initialize(address(server), tmp_path, "dataset")
    assert (outcome.error, outcome.pauses) == (None, [33])


async def test_user_and_password_go_to_their_host_only(server: Server, tmp_path: Path) -> None:
    place = f"http://localhost:{server.port}/cdn?signature=x"
    with_user = address(server).replace("://", "://me:pass%40word@")

    async def elsewhere(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=302, headers={"Location": place}) if request.path != "/cdn" else None

    server.faults.append(elsewhere)
    assert (await initialize(with_user, tmp_path, "dataset")).error is None
    basic = f"Basic {base64.b64encode(b'me:pass@word').decode()}"
    assert {(host.partition(":")[0], given) for host, _, given in server.headers} == {
        ("127.0.0.1", basic),
        ("localhost", ""),
    }
    assert b"pass" not in (tmp_path / ".trainwright/manifest.json").read_bytes()


@pytest.mark.parametrize("place", ["http://example.com/x", "ftp://example.com/x"])
async def test_redirects_that_are_not_safe(server: Server, tmp_path: Path, place: str) -> None:
    server.faults.append(answering("data", lambda: web.Response(status=302, headers={"Location": place})))
    outcome = await initialize(address(server), tmp_path, "dataset")
    assert (outcome.word, "is refused" in outcome.sentence) == ("WrongAddress", True)


async def test_a_redirect_in_a_circle(server: Server, tmp_path: Path) -> None:
    async def around(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=307, headers={"Location": request.path})

    server.faults.append(around)
    assert (await initialize(address(server), tmp_path, "dataset")).word == "ServerError"


@pytest.mark.parametrize(
    "wrong",
    [
        "http://example.com/file",
        "https://example.com",
        "https://example.com/folder/",
        "https:///file",
        "https://example.com/file#sha256=12",
        "https://example.com/file#md5=12",
        "https://example.com:port/file",
    ],
)
async def test_addresses(tmp_path: Path, wrong: str) -> None:
    assert (await initialize(wrong, tmp_path, "dataset")).word == "WrongAddress"
