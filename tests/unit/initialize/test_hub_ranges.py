# SPDX-License-Identifier: Apache-2.0
"""Large files of a hub: several ranges at once, in order, and never of two contents."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.initialize.hub import Hub, Repository, serving
from tests.unit.initialize.runs import Outcome, initialize, part_of_the_largest
from trainwright.controller.initialize import huggingface

PIECE = 1000
NAME = "model.safetensors"
WEIGHTS = bytes(number % 251 for number in range(20 * PIECE + 7))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface, "PIECE", PIECE)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with serving(Hub({"models/o/n": Repository({NAME: WEIGHTS, "config.json": b"{}"}, large=(NAME,))})) as it:
        yield it


async def fetch(hub: Hub, target: Path, **variables: str) -> Outcome:
    return await initialize("hf://o/n", target, "model", {"HF_ENDPOINT": hub.url, **variables})


def asked(hub: Hub, path: str) -> int:
    return sum(path in one for one in hub.requests)


async def test_ranges_come_side_by_side_and_arrive_in_order(hub: Hub, tmp_path: Path) -> None:
    """Each range but the first is held until three others have been asked for."""
    waiting, most = 0, 0
    enough = asyncio.Event()

    async def hold(request: web.Request) -> web.StreamResponse | None:
        nonlocal waiting, most
        if request.path.startswith("/cdn/") and request.headers["Range"] != f"bytes=0-{PIECE - 1}":
            waiting += 1
            most = max(most, waiting)
            if waiting == 4:
                enough.set()
            await enough.wait()
            waiting -= 1
        return None

    hub.faults.append(hold)
    outcome = await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")
    assert outcome.error is None
    assert (tmp_path / NAME).read_bytes() == WEIGHTS
    assert most == 4
    # One redirect serves all ranges, and no byte comes twice.
    assert asked(hub, f"/resolve/{'a' * 40}/{NAME}") == 1
    assert hub.bytes_sent == len(WEIGHTS) + 2


async def test_one_connection_is_one_request(hub: Hub, tmp_path: Path) -> None:
    assert (await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="1")).error is None
    assert asked(hub, "/cdn/") == 1
    assert (tmp_path / NAME).read_bytes() == WEIGHTS


@pytest.mark.parametrize("status", [403, 503])
async def test_a_range_that_fails_is_asked_for_again(hub: Hub, tmp_path: Path, status: int) -> None:
    """A signature that has expired costs one more redirect."""
    left = [1]

    async def fail(request: web.Request) -> web.StreamResponse | None:
        if left[0] and request.headers.get("Range") == f"bytes={9 * PIECE}-{10 * PIECE - 1}":
            left[0] -= 1
            return web.Response(status=status)
        return None

    hub.faults.append(fail)
    outcome = await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")
    assert outcome.error is None
    assert left == [0]
    assert (tmp_path / NAME).read_bytes() == WEIGHTS
    assert asked(hub, "/resolve/") == 1 + 2
    # What is fetched twice is no more than what was on its way.
    assert hub.bytes_sent <= len(WEIGHTS) + 2 + 4 * PIECE


async def test_a_range_that_breaks_off_leaves_a_part_that_goes_on(hub: Hub, tmp_path: Path) -> None:
    async def cut(request: web.Request) -> web.StreamResponse | None:
        start = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start < 5 * PIECE:
            return None
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    hub.faults.append(cut)
    assert (await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")).word == "Unreachable"
    assert part_of_the_largest(tmp_path).read_bytes() == WEIGHTS[: 5 * PIECE]
    hub.faults.clear()
    sent = hub.bytes_sent
    assert (await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")).error is None
    assert (tmp_path / NAME).read_bytes() == WEIGHTS
    assert hub.bytes_sent - sent <= len(WEIGHTS) - 5 * PIECE + 2


async def test_a_server_without_ranges_sends_the_file_once(hub: Hub, tmp_path: Path) -> None:
    async def whole(request: web.Request) -> web.StreamResponse | None:
        return web.Response(body=WEIGHTS) if request.path.startswith("/cdn/") else None

    hub.faults.append(whole)
    assert (await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")).error is None
    assert asked(hub, "/cdn/") == 1
    assert (tmp_path / NAME).read_bytes() == WEIGHTS


async def test_a_server_that_ignores_where_a_range_ends(hub: Hub, tmp_path: Path) -> None:
    """Its first answer has all that is missing, so no other is asked for."""

    async def to_the_end(request: web.Request) -> web.StreamResponse | None:
        if not request.path.startswith("/cdn/"):
            return None
        start = int(request.headers["Range"].removeprefix("bytes=").partition("-")[0])
        span = f"bytes {start}-{len(WEIGHTS) - 1}/{len(WEIGHTS)}"
        return web.Response(status=206, body=WEIGHTS[start:], headers={"Content-Range": span})

    hub.faults.append(to_the_end)
    assert (await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")).error is None
    assert asked(hub, "/cdn/") == 1
    assert (tmp_path / NAME).read_bytes() == WEIGHTS


async def test_a_range_of_other_bytes_is_found_by_the_hash(hub: Hub, tmp_path: Path) -> None:
    async def other(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Range") != f"bytes={7 * PIECE}-{8 * PIECE - 1}":
            return None
        span = f"bytes {7 * PIECE}-{8 * PIECE - 1}/{len(WEIGHTS)}"
        return web.Response(status=206, body=bytes(PIECE), headers={"Content-Range": span})

    hub.faults.append(other)
    outcome = await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")
    assert outcome.word == "Damaged"
    assert not (tmp_path / NAME).exists()


async def test_a_longer_range_than_asked_for_is_refused(hub: Hub, tmp_path: Path) -> None:
    async def longer(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Range") != f"bytes={7 * PIECE}-{8 * PIECE - 1}":
            return None
        span = f"bytes {7 * PIECE}-{9 * PIECE - 1}/{len(WEIGHTS)}"
        return web.Response(status=206, body=WEIGHTS[7 * PIECE : 9 * PIECE], headers={"Content-Range": span})

    hub.faults.append(longer)
    outcome = await fetch(hub, tmp_path, TRAINWRIGHT_CONNECTIONS="4")
    assert outcome.word == "Damaged"
    assert "sent a longer range" in outcome.sentence
