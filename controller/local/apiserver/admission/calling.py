# SPDX-License-Identifier: Apache-2.0
"""Asks a webhook, over HTTPS or in this process. One of the modules that import the HTTP library."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from typing import TypeAlias
from urllib.parse import urlsplit

import aiohttp

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.store import ObjectStore

LIMIT = 8 * 2**20
"""Bytes of an answer. A longer one is an error: half a patch must not be applied."""
Answerer: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a review: the path and the body in, the body out."""


class CallError(Exception):
    """A webhook was not reached, or did not answer as it should."""


class ServiceAddresses:
    """Where the Services of `clientConfig.service` are reached: Services lead nowhere here.

    An address that was given for a Service counts first (`route`), then its Endpoints, then the pods that it selects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._routes: dict[tuple[str, str], str] = {}

    def route(self, namespace: str, name: str, address: str) -> None:
        """Reach a Service, which need not exist, at `HOST:PORT`."""
        self._routes[namespace, name] = address

    def is_routed(self, namespace: str, name: str) -> bool:
        """Whether an address was given."""
        return (namespace, name) in self._routes

    def find(self, namespace: str, name: str, port: int) -> str:
        """`HOST:PORT` of a port of a Service. Raises CallError."""
        if (routed := self._routes.get((namespace, name))) is not None:
            return routed
        stored = self._store.document("services", name, namespace)
        if stored is None:
            raise CallError(f'service "{name}" not found')
        spec = stored.get("spec") or {}
        entry = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if entry is None:
            raise CallError(f'no service port {port} found for service "{name}"')
        found = next(chain(self._endpoints(namespace, name, entry), self._pods(namespace, spec, entry)), None)
        if found is None:
            raise CallError(f'no endpoints available for service "{name}"')
        return found

    def _endpoints(self, namespace: str, name: str, entry: Document) -> Iterator[str]:
        stored = self._store.document("endpoints", name, namespace) or {}
        for subset in stored.get("subsets") or ():
            ports = [one["port"] for one in subset.get("ports") or () if one.get("name", "") == entry.get("name", "")]
            yield from (f"{one['ip']}:{port}" for one in subset.get("addresses") or () for port in ports)

    def _pods(self, namespace: str, spec: Document, entry: Document) -> Iterator[str]:
        selector = spec.get("selector") or {}
        for stored in self._store.collection("pods").listed(namespace) if selector else ():
            if selector.items() <= stored.labels.items():
                pod = stored.document()
                status, target = pod.get("status") or {}, entry.get("targetPort") or entry["port"]
                conditions = status.get("conditions") or ()
                ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
                named = [port for one in pod["spec"]["containers"] for port in one.get("ports") or ()]
                number = {port.get("name"): port["containerPort"] for port in named}.get(target, target)
                if ready and status.get("podIP") and isinstance(number, int):
                    yield f"{status['podIP']}:{number}"


class WebhookCaller:
    """Asks webhooks by URL or Service. Those of this process are asked without a socket (`answer_here`)."""

    def __init__(self, services: ServiceAddresses) -> None:
        self.services = services
        self._here: dict[str, Answerer] = {}
        self._sessions: dict[str | None, aiohttp.ClientSession] = {}

    def answer_here(self, origin: str, answerer: Answerer) -> None:
        """Ask a function about everything below `https://HOST:PORT`."""
        self._here[origin.rstrip("/")] = answerer

    async def send(self, configuration: Document, body: bytes, seconds: float) -> bytes:
        """The answer's body. Raises CallError, and TimeoutError for a webhook of this process.

        `configuration` is the `clientConfig` of the webhook, `body` the review.
        """
        bundle: str | None = configuration.get("caBundle") or ""
        url, host = configuration.get("url"), None
        if not url:
            service = configuration["service"]
            name, namespace = service["name"], service["namespace"]
            address = self.services.find(namespace, name, service.get("port") or 443)
            url, host = f"https://{address}/{(service.get('path') or '').lstrip('/')}", f"{name}.{namespace}.svc"
            if not bundle and self.services.is_routed(namespace, name):
                bundle = None  # what would write the bundle, such as cert-manager, need not run here
        parts = urlsplit(url)
        here = self._here.get(f"{parts.scheme}://{parts.netloc}")
        if here is not None:
            async with asyncio.timeout(seconds):
                return await here(parts.path, body)
        return await self._post(url, body, seconds, bundle=bundle, host=host)

    async def _post(
        self, url: str, body: bytes, seconds: float, *, bundle: str | None, host: str | None, again: bool = True
    ) -> bytes:
        """`host` is the name that the certificate must have, if not that of the URL."""
        asked = f"{url}{'&' if '?' in url else '?'}timeout={seconds:g}s"
        try:
            async with self._session(bundle).post(
                asked,
                data=body,
                headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
                server_hostname=host,
            ) as answer:
                content = await _whole(answer)
                if answer.status != 200:
                    raise CallError(
                        f'an error on the server ("{content[:200].decode(errors="replace").strip()}") '
                        "has prevented the request from succeeding"
                    )
                if not content:
                    raise CallError("0-length response")
                return content
        except aiohttp.ServerDisconnectedError as error:
            if again:
                # As Go's client: an idle connection that the server has closed meanwhile says nothing about the server.
                return await self._post(url, body, seconds, bundle=bundle, host=host, again=False)
            raise CallError(f'Post "{asked}": EOF') from error
        except TimeoutError as error:
            raise CallError(f'Post "{asked}": context deadline exceeded') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallError(f'Post "{asked}": {_reason(error)}') from error

    def _session(self, bundle: str | None) -> aiohttp.ClientSession:
        """Without a bundle, even an empty one, the certificate is not verified."""
        session = self._sessions.get(bundle)
        if session is None:
            context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as real API servers, which are written in Go
            if bundle is None:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connector = aiohttp.TCPConnector(limit=0, ssl=context, keepalive_timeout=30)
            session = self._sessions[bundle] = aiohttp.ClientSession(connector=connector)
        return session

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """The body up to its end, however it arrives. Raises ValueError for one over the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > LIMIT:
            raise ValueError(f"the answer is longer than {LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    return str(error) or type(error).__name__
