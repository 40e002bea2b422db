# SPDX-License-Identifier: Apache-2.0
"""A cluster in this process: the API server, the controllers and the node, put together.

Whoever uses it adds what is to run on it: a manager of an operator, with `transport` as its way to the API server.
"""

import asyncio
import base64
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
import yaml

from trainwright.api.objects import Document
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.bindings import Bindings
from trainwright.controller.local.apiserver.built_in import serve_built_in
from trainwright.controller.local.apiserver.definitions import Definitions
from trainwright.controller.local.apiserver.identity import TokenAuthenticator
from trainwright.controller.local.apiserver.pages import DiscoveryPages, OpenAPIPages, health, version
from trainwright.controller.local.apiserver.podaccess import LogRequest, LogSource, PodLogs, UnavailableLogError
from trainwright.controller.local.apiserver.presets import add_presets
from trainwright.controller.local.apiserver.resources import Registry
from trainwright.controller.local.apiserver.server import APIServer
from trainwright.controller.local.apiserver.serving import HOST, served
from trainwright.controller.local.apiserver.store import Store
from trainwright.controller.local.apiserver.transport import InProcessTransport
from trainwright.controller.local.apiserver.webhooks import WebhookCaller, Webhooks
from trainwright.controller.local.node.interface import LogOptions, UnavailableError
from trainwright.controller.local.node.node import Node
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.reviews import answerer
from trainwright.controller.local.workloads import WorkloadSettings, declare_workloads
from trainwright.controller.local.workloads.jobset import webhooks as jobset_webhooks
from trainwright.controller.runtime import Client, Manager
from trainwright.controller.runtime.certificates import authority
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.manager.settings import NO_SERVERS
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.webhook.configurations import by_url

_LIFETIME = timedelta(days=365)
_COMPACT_SECONDS = 30.0
_JOBSET_WEBHOOKS = "https://jobset.local"
"""Nothing listens there: these webhooks are answered in the process."""
_JOBSET_DEFINITION = Path(jobset_webhooks.__file__).parent / "jobsets.crd.json"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """An API server that answers."""

    server: APIServer
    config: ClusterConfig
    """How to reach it over HTTPS as the administrator."""
    kubeconfig: Path
    webhooks: WebhookCaller

    def transport(self) -> InProcessTransport:
        """The administrator's way to it without a socket."""
        assert self.config.token is not None
        return InProcessTransport(self.server, self.config.token)


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that runs pods."""

    api: RunningServer
    manager: Manager
    """Runs the controllers and the node."""
    node: Node


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
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    store = Store(None if memory else folder / "state.db")
    registry = Registry()
    serve_built_in(registry)
    token = secrets.token_hex(32)
    definitions = Definitions(store, registry, now=now)
    caller = WebhookCaller()
    discovered = DiscoveryPages(registry)
    server = APIServer(
        store,
        registry,
        TokenAuthenticator(token),
        Webhooks(store, registry, caller),
        pages=(health, version, discovered, OpenAPIPages(discovered, registry)),
        now=now,
    )
    server.handle_specially("", "pods", "binding", Bindings(server.writes).create)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        stack.push_async_callback(caller.close)
        definitions.load()
        await add_presets(server.writes, registry, now=now)
        bundle, tls = await asyncio.to_thread(_certificate, folder, now)
        tasks = await stack.enter_async_context(TaskScope("api server"))
        tasks.start("definitions", definitions.run())
        tasks.start("compaction", _compact(store))
        used = await stack.enter_async_context(served(server, tls, port))
        url = f"https://{HOST}:{used}"
        kubeconfig = await asyncio.to_thread(_kubeconfig, folder, url, bundle, token)
        yield RunningServer(server, ClusterConfig(server=url, ca_data=bundle, token=token), kubeconfig, caller)


@asynccontextmanager
async def local_cluster(
    settings: NodeSettings, *, port: int = 0, memory: bool = False, now: Now = wall_clock
) -> AsyncIterator[RunningCluster]:
    """Run a whole cluster for the length of the block: the API server, JobSet and the other controllers, one node.

    Args:
        settings: of the node; its folder holds everything.
        port: of the API server; 0 for a free one.
        memory: keep no state file.
        now: the time of day.

    Raises:
        StateFileError: the state file cannot be used.
        ConfigurationError: the port cannot be used.
    """
    async with api_server(settings.folder, port=port, memory=memory, now=now) as api:
        api.webhooks.answer_here(_JOBSET_WEBHOOKS, answerer(jobset_webhooks.handlers()))
        manager = Manager(api.config, user_agent="trainwright-local", servers=NO_SERVERS, transport=api.transport())
        await _install(manager.client)
        authority_text = (api.config.ca_data or b"").decode()
        workloads = WorkloadSettings(now=now, authority=authority_text, volumes=settings.folder / "volumes")
        declare_workloads(manager, settings=workloads)
        node = Node(manager.client, settings, server=api.config.server, now=now)
        node.declare(manager)
        logs = PodLogs(api.server.store, _logs_of(node))
        api.server.handle_specially("", "pods", "log", logs.get)
        async with TaskScope("local cluster") as tasks:
            running = tasks.start("controllers", manager.run())
            try:
                await manager.wait_ready()
                yield RunningCluster(api, manager, node)
            finally:
                # Pods end with their grace while the API server still answers.
                manager.stop()
                await asyncio.wait({running})


def _logs_of(node: Node) -> LogSource:
    async def logs(namespace: str, pod: str, request: LogRequest) -> AsyncIterator[bytes]:
        options = LogOptions(
            follow=request.follow,
            previous=request.previous,
            timestamps=request.timestamps,
            tail_lines=request.tail_lines,
            since_seconds=request.since_seconds,
            since_time=request.since_time,
            limit_bytes=request.limit_bytes,
        )
        try:
            return await node.logs(namespace, pod, request.container, options)
        except UnavailableError as error:
            raise UnavailableLogError(str(error)) from error

    return logs


async def install(client: Client, documents: Iterable[Document], *, owner: str) -> None:
    """Apply documents, and wait until the definitions among them are served. Raises KubernetesError."""
    discovery = Discovery(client)
    for document in documents:
        resource = await discovery.resource_of(document)
        await client.apply(document, kind=resource, field_manager=owner, force=True)


async def _install(client: Client) -> None:
    """JobSet, as its own installation has it: the definition and the webhooks."""
    definition = msgspec.json.decode(_JOBSET_DEFINITION.read_bytes())
    definition.pop("//")
    hooks = [by_url(one, _JOBSET_WEBHOOKS, b"", {}) for one in jobset_webhooks.configurations()]
    await install(client, [definition, *hooks], owner="trainwright-local")


async def _compact(store: Store) -> None:
    while True:
        await asyncio.sleep(_COMPACT_SECONDS)
        store.compact()


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
