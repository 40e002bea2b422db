# SPDX-License-Identifier: Apache-2.0
"""The address and the sessions of a local cluster's dashboard outlive its process, and count nowhere else."""

import hashlib
import hmac
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dashboards import Browser, Faulty, dashboard
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.keys import FILE, KeptKeys, Keys


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Browser]:
    async with dashboard(Faulty(lost=True), kept=KeptKeys(folder)) as (browser, _):
        yield browser


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


async def status(browser: Browser, like: Browser) -> int:
    """What a page with the cookie of another browser is answered."""
    cookie = (await like.enter()).headers["Set-Cookie"].partition(";")[0]
    async with Browser(browser.server) as page:
        page.place = like.place
        return (await page.get("/api/v1/session", Cookie=cookie)).status


@pytest.mark.asyncio
async def test_address_and_session_outlive_the_process(tmp_path: Path) -> None:
    async with served(tmp_path) as first:
        address, place = first.server.address, first.place
        cookie = (await first.enter()).headers["Set-Cookie"].partition(";")[0]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    async with served(tmp_path) as second:
        assert second.server.address == address
        async with Browser(second.server) as page:
            page.place = place
            assert (await page.get("/api/v1/session", Cookie=cookie)).status == 200


@pytest.mark.asyncio
async def test_a_session_counts_at_no_other_server(tmp_path: Path) -> None:
    async with served(folder(tmp_path, "a")) as one, served(folder(tmp_path, "b")) as other:
        assert one.server.port != other.server.port
        assert await status(other, one) == 403
        assert await status(one, one) == 200


@pytest.mark.asyncio
async def test_another_program_on_the_port_makes_a_new_address_and_new_sessions(tmp_path: Path) -> None:
    async with served(tmp_path) as first:
        keys = first.server.keys
        # The same folder while the port is taken, as by another program.
        async with served(tmp_path) as second:
            assert second.server.port != first.server.port
            assert second.place != first.place
            assert await status(second, first) == 403
            assert keys.token not in second.server.address
    async with served(tmp_path) as third:
        assert third.server.port == second.server.port


@pytest.mark.asyncio
async def test_a_new_token_ends_what_was_before_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as browser:
        old = browser.server.address
        async with browser.stream("/api/v1/jobs/stream") as stream:
            await stream.next("snapshot")
            made = KeptKeys(tmp_path).renew()
            assert (await browser.get("/api/v1/session")).problem.reason == "NoToken"
            assert browser.server.address != old
            assert browser.server.address.endswith(f"?token={made.token}")
        assert (await browser.enter()).status == 303
        assert (await browser.get("/api/v1/session")).status == 200


@pytest.mark.asyncio
async def test_a_page_can_tell_the_server_from_another_program(tmp_path: Path) -> None:
    async with served(tmp_path) as browser:
        key = (await browser.get("/api/v1/session")).as_(contract.PageSession).proof_key
        async with Browser(browser.server) as page:  # without cookie and place
            nonce = "n" * 22
            got = await page.get(f"/proof?nonce={nonce}")
            assert got.body.decode() == hmac.new(key.encode(), nonce.encode(), hashlib.sha256).hexdigest()
            assert (await page.get("/proof?nonce=short")).status == 400
            assert (await page.get("/proof")).status == 400


def test_what_is_derived_differs_by_purpose_port_and_state() -> None:
    keys = Keys(port=1, state="/a")
    derived = {keys.token, keys.session, keys.place[1:], keys.action, keys.proof_key}
    assert len(derived) == 5
    for other in (replace(keys, port=2), replace(keys, state="/b"), Keys(port=1, state="/a")):
        assert not derived & {other.token, other.session, other.place[1:], other.action, other.proof_key}


@pytest.mark.parametrize("damage", ["open to others", "no JSON", "short", "no secret"])
def test_a_file_that_is_not_a_secret_any_more_is_replaced(tmp_path: Path, damage: str) -> None:
    kept = KeptKeys(tmp_path)
    keys = kept.listens(kept.read(), 4711)
    file = tmp_path / FILE
    if damage == "open to others":
        file.chmod(0o644)
    elif damage == "no JSON":
        file.write_text("{")
    else:
        document = json.loads(file.read_text())
        document["secret"] = "AAAA" if damage == "short" else None
        file.write_text(json.dumps(document))
    found = KeptKeys(tmp_path).read()
    assert found.secret != keys.secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if damage in ("open to others", "short"):
        assert found.port == 4711
