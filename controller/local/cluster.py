# SPDX-License-Identifier: Apache-2.0
"""A cluster in this process: the API server, the controllers and the node, put together.

Whoever uses it adds what is to run on it: a manager of an operator, with `transport` as its way to the API server.
"""

import base64
import os
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import yaml

from trainwright.api.objects import Document
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.bindings import Bindings
from trainwright.controller.local.apiserver.built_in import serve_built_in
from trainwright.controller.local.apiserver.definitions import Definitions
from trainwright.controller.local.apiserver.identity import TokenAuthenticator
from trainwright.controller.local.apiserver.pages import DiscoveryPages, health, version
from trainwright.controller.local.apiserver.presets import add_presets
from trainwright.controller.local.apiserver.resources import Registry
from trainwright.controller.local.apiserver.server import APIServer
from trainwright.controller.local.apiserver.serving import HOST, served
from trainwright.controller.local.apiserver.store import Store
from trainwright.controller.local.apiserver.transport import InProcessTransport
from trainwright.controller.runtime.certificates import authority
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.tasks import TaskScope

_LIFETIME = timedelta(days=365)
_COMPACT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    """An API server that answers."""

    server: APIServer
    config: ClusterConfig
    """How to reach it over HTTPS as the administrator."""
    kubeconfig: Path

    def transport(self) -> InProcessTransport:
        """The administrator's way to it without a socket."""
        assert self.config.token is not None
        return InProcessTransport(self.server, self.config.token)


@asynccontextmanager
async def api_server(
    folder: Path, *, port: int = 0, memory: bool = False, now: Now = wall_clock
) -> AsyncIterator[RunningServer]:
    """Run an API server for the length of the block.

    Args:
        folder: where its state, certificates and kubeconfig are.
        port: to listen on; 0 for a free one.
        memory: keep no state file.
        now: the time of day.

    Raises:
        StateFileError: the state file cannot be used.
        ConfigurationError: the port cannot be used.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = Store(None if memory else folder / "state.db")
    registry = Registry()
    serve_built_in(registry)
    token = secrets.token_hex(32)
    definitions = Definitions(store, registry, now=now)
    server = APIServer(
        store,
        registry,
        TokenAuthenticator(token),
        pages=(health, version, DiscoveryPages(registry)),
        now=now,
    )
    server.handle_specially("", "pods", "binding", Bindings(server.writes).create)
    definitions.load()
    await add_presets(server.writes, registry, now=now)
    bundle, tls = _certificate(folder, now)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        tasks = await stack.enter_async_context(TaskScope("api server"))
        following = tasks.start("definitions", definitions.run())
        stack.callback(following.cancel)
        used = await stack.enter_async_context(served(server, tls, port))
        url = f"https://{HOST}:{used}"
        kubeconfig = _kubeconfig(folder, url, bundle, token)
        yield RunningServer(server, ClusterConfig(server=url, ca_data=bundle, token=token), kubeconfig)


def _certificate(folder: Path, now: Now) -> tuple[bytes, ssl.SSLContext]:
    pair = authority.make_authority("trainwright local", now=now(), lifetime=_LIFETIME)
    leaf = authority.issue(pair, [HOST, "localhost"], now=now(), lifetime=_LIFETIME)
    pki = folder / "pki"
    pki.mkdir(mode=0o700, exist_ok=True)
    bundle = authority.certificate_pem(pair.certificate)
    _write(pki / "ca.crt", bundle)
    _write(pki / "server.crt", authority.certificate_pem(leaf.certificate))
    _write(pki / "server.key", authority.key_pem(leaf.key))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    return bundle, context


def _kubeconfig(folder: Path, url: str, bundle: bytes, token: str) -> Path:
    name = f"trainwright-{folder.name}"
    document: Document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(bundle).decode()},
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    path = folder / "kubeconfig"
    _write(path, yaml.safe_dump(document, sort_keys=False).encode())
    return path


def _write(path: Path, content: bytes) -> None:
    """Write a file that only this user may read, from its first moment on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)
