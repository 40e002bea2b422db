# SPDX-License-Identifier: Apache-2.0
"""Scraping a protected metrics port over TLS, with tokens and permissions of a real API server (S121)."""

import secrets
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.integration.runtime.conftest import quiet_manager, running
from tests.processes import eventually
from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import ServiceAccount
from trainwright.controller.runtime import Client, ClusterConfig
from trainwright.controller.runtime.objects import Document
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.certificates import Authority
from trainwright.controller.runtime.testing.objects import build

RBAC = "rbac.authorization.k8s.io"
ROLE = Resource(group=RBAC, version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False)
BINDING = Resource(group=RBAC, version="v1", kind="ClusterRoleBinding", plural="clusterrolebindings", namespaced=False)


async def token_of(client: Client, name: str, namespace: str) -> str:
    """A token of a service account, which is made for it."""
    await client.create(build(ServiceAccount, name, namespace))
    request: Document = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.post_subresource(ServiceAccount, name, namespace, "token", request)
    return str(answer["status"]["token"])


@pytest.fixture
async def scraper(client: Client, namespace: str) -> AsyncIterator[str]:
    """Token of an account that may get /metrics and nothing else."""
    name = f"scraper-{secrets.token_hex(4)}"
    token = await token_of(client, name, namespace)
    await client.create(build(ROLE, name, rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]), kind=ROLE)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    await client.create(build(BINDING, name, subjects=[subject], roleRef=reference), kind=BINDING)
    yield token
    await client.delete(BINDING, name)
    await client.delete(ROLE, name)


async def test_scrapers_need_a_token_with_permission(  # S121
    config: ClusterConfig, control_plane: ControlPlane, client: Client, namespace: str, scraper: str, tmp_path: Path
) -> None:
    stranger = await token_of(client, "stranger", namespace)
    authority = Authority(tmp_path)
    certificate, key = authority.server("metrics")

    def tls() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    agent = f"metrics-{secrets.token_hex(4)}"
    manager = quiet_manager(
        config, metrics_address="127.0.0.1:0", metrics_access=True, metrics_tls=tls, user_agent=agent
    )
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
    eventually(lambda: len(asked()) >= 5)
    assert sorted(asked()) == ["subjectaccessreviews"] * 2 + ["tokenreviews"] * 3
