# SPDX-License-Identifier: Apache-2.0
"""An API server in memory with a clock of its own, and short forms to ask it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import pytest

from trainwright.controller.local.apiserver.identity.tokens import ISSUER
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime.testing.clock import ManualClock

Document: TypeAlias = dict[str, Any]
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
AUDIENCE = ISSUER


class Asker:
    """Asks a server, as the administrator, as a user whom it impersonates, or with the token that is given."""

    def __init__(self, api: RunningServer, user: str = "", *groups: str) -> None:
        self.api = api
        self.admin = str(api.config.token)
        self._impersonation = [("impersonate-user", user)] if user else []
        self._impersonation += [("impersonate-group", group) for group in groups]

    async def __call__(
        self, method: str, path: str, body: Document | None = None, *, token: str | None = None, accept: str = ""
    ) -> tuple[int, Document]:
        """Status and document, empty where the answer is none. An empty token sends none."""
        token = self.admin if token is None else token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if accept:
            headers["accept"] = accept
        bare, _, query = path.partition("?")
        answer = await self.api.server.handle(
            ServerRequest(
                method=method,
                path=bare,
                query=parse_qsl(query),
                headers=headers,
                impersonation=self._impersonation,
                body=b"" if body is None else json.dumps(body).encode(),
            )
        )
        return answer.status, json.loads(answer.body) if "json" in answer.content_type else {}

    async def token(self, name: str = "a", **spec: Any) -> str:
        """A token of an account in the namespace `default`."""
        status, made = await self("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
        assert status == 201, made
        return str(made["status"]["token"])

    async def review(self, token: str, *audiences: str) -> Document:
        """What a TokenReview says of a token."""
        body = {"spec": {"token": token, **({"audiences": list(audiences)} if audiences else {})}}
        status, made = await self("POST", f"/apis/{AUTHENTICATION}/tokenreviews", body)
        assert status == 201
        found: Document = made["status"]
        return found


ACCOUNTS, PODS = "/api/v1/namespaces/default/serviceaccounts", "/api/v1/namespaces/default/pods"
Create: TypeAlias = Callable[..., Awaitable[Document]]


@pytest.fixture
def clock() -> ManualClock[datetime]:
    """The time of day of the server."""
    return ManualClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
async def api(tmp_path: Path, clock: ManualClock[datetime]) -> AsyncIterator[RunningServer]:
    """A server in memory."""
    async with api_server(tmp_path / "state", memory=True, now=clock) as running:
        yield running


@pytest.fixture
async def ask(api: RunningServer) -> Asker:
    """Asks the server, which has a ServiceAccount `a`."""
    asker = Asker(api)
    status, _ = await asker("POST", ACCOUNTS, {"metadata": {"name": "a"}})
    assert status == 201
    return asker


@pytest.fixture
def create_pod(ask: Asker) -> Create:
    """Creates a pod of the account `a`."""

    async def create(name: str = "p", **spec: Any) -> Document:
        containers = [{"name": "main", "image": "x"}]
        body = {"metadata": {"name": name}, "spec": {"serviceAccountName": "a", "containers": containers, **spec}}
        status, made = await ask("POST", PODS, body)
        assert status == 201, made
        return made

    return create
