# SPDX-License-Identifier: Apache-2.0
"""Webhooks of scenarios: an HTTPS server that answers by the script of a scenario and remembers what it was asked.

A script is what the response of the review holds; `patch` is a list of operations. `seconds` delays the answer,
`code` is another HTTP status, `text` is a body of its own, and `uid` is another uid than the one asked with. With
`converts` it converts rods between `v1` and `v2`, or says that it cannot.
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
        if "converts" in script:
            return web.json_response({**_kind(review), "response": _converted(review["request"], script["converts"])})
        response = {"uid": review["request"]["uid"], "allowed": True, **script}
        if "patch" in response:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
        return web.json_response({**_kind(review), "response": response})


async def _close_after(_: web.Request, response: web.StreamResponse) -> None:
    """An API server must know that a connection is closed: else it uses it for its next request."""
    response.force_close()
    response.headers["Connection"] = "close"


def _converted(asked: Mapping[str, Any], can: bool) -> dict[str, Any]:
    if not can:
        return {"uid": asked["uid"], "result": {"status": "Failure", "message": "out of order"}}
    made = [_rod(one, asked["desiredAPIVersion"]) for one in asked["objects"]]
    return {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": made}


def _rod(document: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    spec = document["spec"]
    if wanted.endswith("/v2"):
        length, _, unit = spec["size"].partition(" ")
        return {**document, "apiVersion": wanted, "spec": {"length": int(length), "unit": unit}}
    return {**document, "apiVersion": wanted, "spec": {"size": f"{spec['length']} {spec['unit']}"}}


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
    application.on_response_prepare.append(_close_after)
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
