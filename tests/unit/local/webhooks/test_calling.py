# SPDX-License-Identifier: Apache-2.0
"""Answers of webhooks: read to their end, however they arrive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from trainwright.controller.local.apiserver.admission import calling
from trainwright.controller.local.apiserver.admission.calling import CallError, ServiceAddresses, WebhookCaller
from trainwright.controller.local.apiserver.store import ObjectStore

PIECE = 700


@asynccontextmanager
async def webhook(body: bytes, *, status: str = "200 OK", length: int | None = None) -> AsyncIterator[str]:
    """A webhook that writes its answer in small pieces; yields its URL. `length` is what the header says."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 2\r\n" in head.lower()
        await reader.readexactly(2)
        said = len(body) if length is None else length
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {said}\r\n\r\n".encode())
        with suppress(ConnectionError):  # the caller may have read enough
            for begin in range(0, len(body), PIECE):
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(body[begin : begin + PIECE])
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture
async def caller() -> AsyncIterator[WebhookCaller]:
    made = WebhookCaller(ServiceAddresses(ObjectStore()))
    yield made
    await made.close()


@pytest.mark.parametrize("size", [1, PIECE, 30_083, 500_000])
async def test_an_answer_in_small_pieces_arrives_whole(caller: WebhookCaller, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    async with webhook(body[:size]) as url:
        assert await caller.send({"url": url}, b"{}", 30.0) == body[:size]


async def test_an_answer_over_the_limit_is_refused(caller: WebhookCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "LIMIT", 10_000)
    async with webhook(b"x" * 10_000) as url:
        assert len(await caller.send({"url": url}, b"{}", 30.0)) == 10_000
    async with webhook(b"x" * 10_001) as url:
        with pytest.raises(CallError, match="the answer is longer than 10000 bytes"):
            await caller.send({"url": url}, b"{}", 30.0)


async def test_an_answer_that_breaks_off_is_no_answer(caller: WebhookCaller) -> None:
    async with webhook(b"x" * 5_000, length=6_000) as url:
        with pytest.raises(CallError):
            await caller.send({"url": url}, b"{}", 30.0)


async def test_an_error_says_the_start_of_its_page(caller: WebhookCaller) -> None:
    async with webhook(b"no room\n" + b" " * 5_000, status="507 Insufficient Storage") as url:
        with pytest.raises(CallError, match=r'an error on the server \("no room"\)'):
            await caller.send({"url": url}, b"{}", 30.0)
