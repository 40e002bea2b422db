# SPDX-License-Identifier: Apache-2.0
"""Whether the API server can reach this server with the CA that it was given (M-45).

Asked for readiness: for each registered webhook a TLS handshake with this server, trusting exactly the bundle that the
configuration holds and expecting the name that the API server expects. Where the caller gives a proof (a request to the
API server that leads back here), that is asked as well until it succeeds once per certificate.

A proof is for a server that is registered by URL. Behind a Service the API server asks whichever replica is ready
already, which says nothing about this one, and while none is ready it asks nobody, so none would ever become ready.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from trainwright.api.base import Resource
from trainwright.controller.runtime.certificates.injection import Target, bundles, fetch
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import (
    AlreadyExists,
    ApiError,
    KubernetesError,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from trainwright.controller.runtime.objects import Document
from trainwright.controller.runtime.webhook.configurations import names_reached

log = logging.getLogger(__name__)

LIMIT_SECONDS = 10.0
_DENIED = "denied the request"
"""What the API server says when a webhook was asked and refused."""
LOOK_SECONDS = 30.0
"""The configurations are read again no more often than this while all is well."""

Proof: TypeAlias = Callable[[], Awaitable[object]]
"""Raises KubernetesError if the API server did not get through."""


def dry_run(client: Client, document: Document, *, kind: Resource) -> Proof:
    """A proof: ask the API server to create the document, without storing it.

    The document is one that the webhooks are asked about (by kind, namespace and labels), and these fail closed
    (`failurePolicy: Fail`): the API server answers 500 and says why, if it could not get through to them. Every answer
    that comes after admission means that it did, a refusal by the webhook itself too. Who may not create such objects
    learns nothing; that is said in the log and taken for good.
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
            log.warning("webhook: whether the API server gets through is not known, it was not asked: %s", error)

    return ask


class Reach:
    """A readiness check for one server and its configurations."""

    def __init__(
        self,
        client: Client,
        targets: Sequence[Target],
        address: Callable[[], tuple[str, int]],
        *,
        proof: Proof | None = None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`address` gives the host and port to dial, this server's own."""
        self._client = client
        self._targets = targets
        self._address = address
        self._proof = proof
        self._proved: tuple[object, ...] | None = None
        self._look_seconds = look_seconds
        self._looked_at = float("-inf")
        self._expected: list[tuple[str, str, bytes]] = []

    async def check(self) -> str | None:
        """Why the API server would not get through; None if it would."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= self._look_seconds:
            if reason := await self._look():
                return reason
            self._looked_at = now
        for label, host, bundle in self._expected:
            if reason := await self._dial(host, bundle):
                self._looked_at = float("-inf")  # the bundle may have been renewed meanwhile
                return f"{label}: {reason}"
        return await self._prove()

    async def _look(self) -> str | None:
        expected = []
        for target in self._targets:
            try:
                configuration = await fetch(self._client, target)
            except KubernetesError as error:
                return f"{target}: {error}"
            if configuration is None:
                return f"{target} does not exist: the API server does not ask"
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
            async with asyncio.timeout(LIMIT_SECONDS):
                _, writer = await asyncio.open_connection(address, port, ssl=context, server_hostname=host)
                writer.transport.abort()
        except (OSError, ValueError, TimeoutError) as error:
            return f"{host} at port {port}: {type(error).__name__} {error}"
        await asyncio.sleep(0)  # the socket is closed in the next turn of the loop
        return None

    async def _prove(self) -> str | None:
        state = tuple(self._expected)
        if self._proof is None or self._proved == state:
            return None
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await self._proof()
        except (KubernetesError, TimeoutError) as error:
            return f"the API server does not get through: {str(error) or 'no answer'}"
        self._proved = state
        return None
