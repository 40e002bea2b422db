# SPDX-License-Identifier: Apache-2.0
"""A server that keeps no state file: its clients list again after a restart."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.unit.local.identity.conftest import Asker
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime.testing.clock import ManualClock

MAPS = "/api/v1/namespaces/default/configmaps"


async def first_frame(api: RunningServer, version: str) -> dict[str, object]:
    """What a watch from a version is told first."""
    answer = await api.server.handle(
        ServerRequest(
            method="GET",
            path=MAPS,
            query=[("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", "1")],
            headers={"authorization": f"Bearer {api.config.token}"},
        )
    )
    assert answer.stream is not None
    async for frame in answer.stream:
        found: dict[str, object] = json.loads(frame)
        return found
    return {}


async def test_a_version_of_an_earlier_run_is_too_old(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    async with api_server(tmp_path, memory=True, now=clock) as api:
        ask = Asker(api)
        for number in range(20):
            assert (await ask("POST", MAPS, {"metadata": {"name": f"m{number}"}}))[0] == 201
        version = (await ask("GET", MAPS))[1]["metadata"]["resourceVersion"]
    clock.now += timedelta(seconds=1)
    async with api_server(tmp_path, memory=True, now=clock) as api:
        frame = await first_frame(api, version)
        assert frame["type"] == "ERROR", frame
        status = frame["object"]
        assert isinstance(status, dict)
        assert (status["code"], status["reason"]) == (410, "Expired")


async def test_version_1_is_the_beginning(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True) as api:
        assert (await Asker(api)("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
        frame = await first_frame(api, "1")
        assert frame["type"] == "ADDED", frame


async def test_versions_are_exact_in_every_client(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True) as api:
        assert 0 < api.server.store.version < 2**53, "JavaScript, and Go's float64, hold it"
