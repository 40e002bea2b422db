# SPDX-License-Identifier: Apache-2.0
"""Webhooks of scenarios: an HTTPS server that answers by the script of a scenario and remembers what it was asked.

A script is what the response of the review holds; `patch` is a list of operations. `seconds` delays the answer,
`code` is another HTTP status, `text` is a body of its own, and `uid` is another uid than the one asked with.
"""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from trainwright.controller.runtime.certificates import authority

_LIFETIME = timedelta(days=1)


class Hooks:
    """The webhooks of one scenario."""

    def __init__(self, scripts: Mapping[str, Mapping[str, Any]]) -> None:
        self._scripts = scripts
        self.reviews: list[dict[str, Any]] = []
        self.closed = asyncio.Event()
        """Ends answers that are delayed."""
        self.url = ""
        self.bundle = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one review."""
        name = request.path.strip("/")
        review = json.loads(await request.read())
        self.reviews.append({"hook": name, "query": dict(request.query), **review})
        script = dict(self._scripts[name])
        if seconds := script.pop("seconds", 0):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.closed.wait()
        if "text" in script or "code" in script:
            return web.Response(status=script.get("code", 200), text=script.get("text", ""))
        response = {"uid": review["request"]["uid"], "allowed": True, **script}
        if "patch" in response:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
        return web.json_response({**_kind(review), "response": response})


def _kind(review: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": review["apiVersion"], "kind": review["kind"]}


def _tls(leaf: authority.KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(authority.certificate_pem(leaf.certificate))
        key.write_bytes(authority.key_pem(leaf.key))
        context.load_cert_chain(certificate, key)
    return context


@asynccontextmanager
async def serving(scripts: Mapping[str, Mapping[str, Any]]) -> AsyncIterator[Hooks]:
    """Serve webhooks for the length of the block."""
    hooks = Hooks(scripts)
    pair = authority.make_authority("scenarios", now=datetime.now(UTC), lifetime=_LIFETIME)
    leaf = authority.issue_certificate(pair, ["127.0.0.1", "localhost"], now=datetime.now(UTC), lifetime=_LIFETIME)
    context = _tls(leaf)
    application = web.Application()
    application.router.add_post("/{path:.*}", hooks.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    hooks.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    hooks.bundle = base64.b64encode(authority.certificate_pem(pair.certificate)).decode()
    try:
        yield hooks
    finally:
        hooks.closed.set()
        await runner.cleanup()
