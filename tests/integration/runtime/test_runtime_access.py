# SPDX-License-Identifier: Apache-2.0
"""A protected metrics port over TLS, with tokens and permissions of a real API server."""

import secrets
import ssl
from pathlib import Path

import aiohttp
import pytest

from tests.integration.runtime.conftest import quiet_manager, running
from trainwright.controller.runtime import Client, ClusterConfig, ServerSettings
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import eventually


@pytest.fixture
def scraper(control_plane: ControlPlane, namespace: str) -> str:
    """Token of an account that may get /metrics and nothing else."""
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    return control_plane.users.add_service_account("scraper", namespace, rules=rules)


async def test_scrapers_need_a_token_with_permission(
    config: ClusterConfig, control_plane: ControlPlane, client: Client, namespace: str, scraper: str, tmp_path: Path
) -> None:
    stranger = control_plane.users.add_service_account("stranger", namespace)
    authority = Authority(tmp_path)
    certificate, key = authority.server("metrics")

    def tls() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    agent = f"metrics-{secrets.token_hex(4)}"
    servers = ServerSettings(metrics="127.0.0.1:0", metrics_access=True, metrics_tls=tls, probes=None)
    manager = quiet_manager(config, servers=servers, user_agent=agent)
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    async with running(manager), aiohttp.ClientSession() as session:
        server = manager.servers["metrics"]
        await server.listening.wait()
        host = f"127.0.0.1:{server.port}/metrics"

        async def scrape(token: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(f"https://{host}", headers=headers, ssl=trusting) as answer:
                return answer.status, await answer.text()

        assert (await scrape(""))[0] == 401
        assert (await scrape("wrong"))[0] == 401
        assert await scrape(stranger) == (403, "")
        for _ in range(2):
            status, text = await scrape(scraper)
            assert status == 200
            assert "rest_client_requests_total" in text
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{host}")

    def asked() -> list[str]:
        return [call.resource for call in control_plane.audit_log.calls() if call.user_agent.endswith(agent)]

    # The scraper's second visit asked nobody.
    await eventually(asked, lambda calls: len(calls) >= 5)
    assert sorted(asked()) == ["subjectaccessreviews"] * 2 + ["tokenreviews"] * 3
