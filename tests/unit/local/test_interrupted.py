# SPDX-License-Identifier: Apache-2.0
"""Clients that go before their answer: what they asked for is done, or not begun."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.local.identity.conftest import PODS, Asker, Document
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.cluster import api_server

TURNS = 30
"""Of the event loop, from the request to after the commit is handed to the writer."""


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    """Asks a server with a state file, so that each commit takes turns of the loop."""
    async with api_server(tmp_path / "state") as api:
        yield Asker(api)


async def interrupted(ask: Asker, turns: int, method: str, path: str, body: Document | None) -> None:
    """Send a request, and go after some turns of the loop."""
    request = asyncio.create_task(ask(method, path, body))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait([request])
    await ask.api.server.store.committed()


async def pod_after(ask: Asker, turns: int, method: str, path: str, body: Document | None = None) -> Document | None:
    """The pod `p` after an interrupted request; None if it is gone."""
    made = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await ask("POST", PODS, made))[0] == 201
    await interrupted(ask, turns, method, path, body)
    found = ask.api.server.store.get("pods", ObjectName("default", "p"))
    if found is None:
        return None
    assert (await ask("DELETE", f"{PODS}/p"))[0] == 200
    return found.document()


async def test_a_pod_without_grace_is_not_left_marked(ask: Asker) -> None:
    gone = 0
    for turns in range(TURNS):
        pod = await pod_after(ask, turns, "DELETE", f"{PODS}/p")
        assert pod is None or "deletionTimestamp" not in pod["metadata"], f"left marked after {turns} turns"
        gone += pod is None
    assert 0 < gone < TURNS


async def test_an_evicted_pod_is_not_left_alone(ask: Asker) -> None:
    eviction = {"metadata": {"name": "p"}}
    gone = 0
    for turns in range(TURNS):
        pod = await pod_after(ask, turns, "POST", f"{PODS}/p/eviction", eviction)
        assert pod is None or "conditions" not in pod["status"], f"noted, not deleted, after {turns} turns"
        gone += pod is None
    assert 0 < gone < TURNS


async def test_watchers_see_the_mark_before_the_removal(ask: Asker) -> None:
    made = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await ask("POST", PODS, made))[0] == 201
    store = ask.api.server.store
    watch = store.watch("pods", store.version)
    assert (await ask("DELETE", f"{PODS}/p"))[0] == 200
    seen = await watch.take()
    assert [change.type for change in seen] == ["MODIFIED", "DELETED"]
    assert all("deletionTimestamp" in change.object.document()["metadata"] for change in seen)
    store.unwatch("pods", watch)
