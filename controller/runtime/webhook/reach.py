# SPDX-License-Identifier: Apache-2.0
"""Checks whether the API server can reach this webhook server with the CA bundle of its configuration.

A readiness check. For each registered webhook it makes a TLS handshake with this server. It trusts only the bundle in
the configuration and expects the host name that the API server expects. If the caller passes a proof (a request to the
API server that calls this webhook), the proof is repeated until it succeeds once per certificate.

A proof is for a server that is registered by URL. Behind a Service the API server calls any ready replica, which says
nothing about this one. And while no replica is ready, the proof fails, so none would become ready.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from trainwright.api.base import Resource
from trainwright.api.objects import Document
from trainwright.controller.runtime.certificates.configurations import (
    InjectionTarget,
    bundles,
    fetch_configuration,
    names_reached,
)
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import (
    AlreadyExists,
    ApiError,
    KubernetesError,
    ServerError,
    TooManyRequests,
    Unauthorized,
)

log = logging.getLogger(__name__)

LIMIT_SECONDS = 10.0
_DENIED = "denied the request"
"""Part of the API server's message when a webhook has refused a request."""
LOOK_SECONDS = 30.0
"""Time between two reads of the configurations while all checks pass."""

Proof: TypeAlias = Callable[[], Awaitable[object]]
"""Raises KubernetesError if the API server could not call the webhook."""


def dry_run_proof(client: Client, document: Document, *, kind: Resource) -> Proof:
    """A proof: create the document as a dry run.

    The webhooks must match the document (by kind, namespace and labels) and have `failurePolicy: Fail`. If the API
    server cannot call them, it answers 500 with the reason. Every answer after admission proves that it can, also a
    refusal by the webhook. Without the right to create the object nothing is known; that is logged and counts as a
    success.
    """

    async def ask() -> None:
        try:
            await client.create(document, kind=kind, dry_run=True)
        except AlreadyExists:
            return
        except ApiError as error:
            if _DENIED in error.message:
                return
            if isinstance(error, (ServerError, TooManyRequests, Unauthorized)):
                raise
            log.warning("webhook: cannot check whether the API server reaches this server: %s", error)

    return ask


class Reach:
    def __init__(
        self,
        client: Client,
        targets: Sequence[InjectionTarget],
        address: Callable[[], tuple[str, int]],
        *,
        proof: Proof | None = None,
    ) -> None:
        """`address` returns the host and port of this server."""
        self._client = client
        self._targets = targets
        self._address = address
        self._proof = proof
        self._proved: tuple[object, ...] | None = None
        self._looked_at = float("-inf")
        self._expected: list[tuple[str, str, bytes]] = []

    async def check(self) -> str | None:
        """Why the API server cannot reach this server; None if it can."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_SECONDS:
            if reason := await self._look():
                return reason
            self._looked_at = now
        for label, host, bundle in self._expected:
            if reason := await self._dial(host, bundle):
                self._looked_at = float("-inf")  # the bundle may have been renewed
                return f"{label}: {reason}"
        return await self._prove()

    async def _look(self) -> str | None:
        expected = []
        for target in self._targets:
            try:
                configuration = await fetch_configuration(self._client, target)
            except KubernetesError as error:
                return f"{target}: {error}"
            if configuration is None:
                return f"{target} does not exist, so the API server does not call this server"
            held = bundles(configuration)
            for name, host in names_reached(configuration):
                if not held.get(name):
                    return f"{target}: {name} has no CA bundle"
                expected.append((f"{target}: {name}", host, held[name]))
        self._expected = expected
        return None

    async def _dial(self, host: str, bundle: bytes) -> str | None:
        address, port = self._address()
        try:
            context = ssl.create_default_context(cadata=bundle.decode())
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as API servers, which are written in Go
            async with asyncio.timeout(LIMIT_SECONDS):
                _, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=host)
                writer.transport.abort()
        except (OSError, ValueError, TimeoutError) as error:
            return f"{host} at port {port}: {type(error).__name__} {error}"
        await asyncio.sleep(0)  # the socket is closed in the next iteration of the loop
        return None

    async def _prove(self) -> str | None:
        state = tuple(self._expected)
        if self._proof is None or self._proved == state:
            return None
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await self._proof()
        except (KubernetesError, TimeoutError) as error:
            return f"the API server cannot reach this server: {str(error) or 'no answer'}"
        self._proved = state
        return None
