# SPDX-License-Identifier: Apache-2.0
"""Scraping a protected metrics port, with permissions of a real API server."""

import aiohttp

from tests.integration.runtime.conftest import quiet_manager, running
from trainwright.controller.runtime import ClusterConfig


async def test_scrapers_need_a_token_with_permission(config: ClusterConfig) -> None:
    manager = quiet_manager(config, metrics_address="127.0.0.1:0", metrics_access=True)
    async with running(manager), aiohttp.ClientSession() as session:
        server = manager.servers["metrics"]
        await server.listening.wait()
        url = f"http://127.0.0.1:{server.port}/metrics"

        async def scrape(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(url, headers=headers) as answer:
                return answer.status

        assert await scrape("") == 401
        assert await scrape("wrong") == 401
        assert await scrape(config.token or "") == 200
