# SPDX-License-Identifier: Apache-2.0
"""versitygw, an object storage that checks signatures, regions and conditions; and a proxy with faults."""

import contextlib
import hashlib
import hmac
import io
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import aiohttp
from aiohttp import web
from yarl import URL

from trainwright.controller.runtime.testing import build
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import eventually_sync

KEY, SECRET, REGION = "AKIATEST", "secret/of+the=test", "eu-test-1"
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class ObjectServer:
    """A running server. Buckets are folders."""

    root: Path
    host: str
    scheme: str = "http"
    ca: Path | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def variables(self) -> dict[str, str]:
        return {"ENDPOINT": self.url, "ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "REGION": REGION}

    def bucket(self, name: str) -> str:
        (self.root / name).mkdir()
        return name

    async def put(self, bucket: str, key: str, data: bytes) -> None:
        await self._send("PUT", f"/{bucket}/{quote(key)}", "", data)

    async def publish(self, bucket: str) -> None:
        """Let everybody read it."""
        resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
        rule = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": resources}
        policy = {"Version": "2012-10-17", "Statement": [rule]}
        await self._send("PUT", f"/{bucket}", "policy=", json.dumps(policy).encode())

    async def _send(self, method: str, path: str, query: str, data: bytes) -> None:
        now = datetime.now(UTC)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        digest = hashlib.sha256(data).hexdigest()
        headers = {"host": self.host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        names = ";".join(headers)
        canonical = "\n".join([method, path, query, *(f"{k}:{v}" for k, v in headers.items()), "", names, digest])
        scope = f"{day}/{REGION}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{SECRET}".encode()
        for part in (day, REGION, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        url = URL(f"{self.url}{path}{'?' if query else ''}{query}", encoded=True)
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=io.BytesIO(data), headers=headers) as done,
        ):
            assert done.status < 300, await done.text()


@contextlib.contextmanager
def object_server(folder: Path, *, tls: bool = False) -> Iterator[ObjectServer]:
    """A server of its own. Raises CalledProcessError if it ends at once."""
    root, sidecar = folder / "root", folder / "sidecar"
    root.mkdir(parents=True)
    sidecar.mkdir()
    port = free_port()
    options = [f"--port=127.0.0.1:{port}", f"--access={KEY}", f"--secret={SECRET}", f"--region={REGION}"]
    server = ObjectServer(root, f"127.0.0.1:{port}")
    if tls:
        authority = Authority(folder / "pki")
        certificate, key = authority.server("versitygw")
        options += [f"--cert={certificate}", f"--key={key}"]
        server.scheme, server.ca = "https", authority.certificate
    program = build.provide(["versitygw"])["versitygw"]
    command = [str(program), *options, "--health=/health", "--quiet", "posix", f"--sidecar={sidecar}", str(root)]
    with (
        (folder / "output").open("wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, env={"PATH": os.environ["PATH"], "HOME": str(folder)}
        ) as process,
    ):
        try:
            _wait(process, server)
            yield server
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[bytes], server: ObjectServer) -> None:
    host, _, port = server.host.partition(":")

    def listens() -> bool:
        assert process.poll() is None, f"versitygw has ended with code {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
            return True
        return False

    eventually_sync(listens, what="versitygw")


@dataclass
class FaultyProxy:
    """Passes requests on to a server, as they are, unless a fault answers them."""

    server: ObjectServer
    host: str = ""
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    bytes_sent: int = 0
    _session: aiohttp.ClientSession | None = None

    @property
    def variables(self) -> dict[str, str]:
        return {**self.server.variables, "ENDPOINT": f"http://{self.host}"}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        for fault in self.faults:
            if (answer := await fault(request)) is not None:
                return answer
        return await self.passed_on(request)

    async def passed_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        url = URL(f"{self.server.url}{request.raw_path}", encoded=True)
        async with self._session.request(request.method, url, headers=request.headers, allow_redirects=False) as found:
            data = await found.read()
            self.bytes_sent += len(data)
            kept = {k: v for k, v in found.headers.items() if k.lower() not in ("transfer-encoding", "connection")}
            if request.method != "HEAD":
                kept.pop("Content-Length", None)
            return web.Response(status=found.status, body=data, headers=kept)

    def read(self, key: str) -> int:
        """How many requests for bytes of an object."""
        return sum(one.startswith("GET") and one.endswith(key) for one in self.requests)


@asynccontextmanager
async def proxied(server: ObjectServer) -> AsyncIterator[FaultyProxy]:
    proxy = FaultyProxy(server)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", proxy.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy.host = f"127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        proxy._session = session
        try:
            yield proxy
        finally:
            await runner.cleanup()
