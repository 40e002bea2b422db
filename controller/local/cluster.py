# SPDX-License-Identifier: Apache-2.0
"""A cluster in this process: the API server, the controllers and the node, put together.

Whoever uses it adds what is to run on it: a manager of an operator, with `transport` as its way to the API server.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import yaml

from trainwright.api.objects import Document, name_of, namespace_of
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.admission.calling import ServiceAddresses, WebhookCaller
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.plugins import BuiltInPlugins
from trainwright.controller.local.apiserver.admission.pod_security import PodSecurity
from trainwright.controller.local.apiserver.admission.policies import Policies
from trainwright.controller.local.apiserver.admission.request import Chain, Plugin
from trainwright.controller.local.apiserver.admission.webhooks import Webhooks
from trainwright.controller.local.apiserver.authorization.authorizer import Authorizer
from trainwright.controller.local.apiserver.authorization.rbac import Escalation, RBACAuthorizer
from trainwright.controller.local.apiserver.http.pages import (
    METRICS,
    ServedDefinitions,
    health,
    pod_metrics,
    version,
)
from trainwright.controller.local.apiserver.http.requestlog import RequestLog
from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.http.serving import HOST, served
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.identity.presets import add_presets
from trainwright.controller.local.apiserver.identity.reviews import serve_identity
from trainwright.controller.local.apiserver.identity.tokens import (
    AccountTokens,
    SigningKey,
    TokenAuthenticator,
    issuer_page,
)
from trainwright.controller.local.apiserver.kinds.built_in import serve_built_in
from trainwright.controller.local.apiserver.kinds.definitions import Definitions, DefinitionsState
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.store import ObjectStore, StoredObject
from trainwright.controller.local.apiserver.store.store import expire_events
from trainwright.controller.local.apiserver.verbs.deletes import Deletes
from trainwright.controller.local.apiserver.verbs.pods import bind, connect_exec, evict, forward_ports, stream_log
from trainwright.controller.local.controllers import declare_controllers, jobset_objects
from trainwright.controller.local.controllers.base import ControllerSettings
from trainwright.controller.local.credentials import Credentials, write_private
from trainwright.controller.local.node.node import STOP_SECONDS, LocalNode
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.podaccess import ExecSource, GonePods, LogSource, PortSource, UnavailableError
from trainwright.controller.local.reviews import answerer
from trainwright.controller.runtime import (
    NO_SERVERS,
    Client,
    ClusterConfig,
    ConfigurationError,
    Discovery,
    Manager,
    NotFound,
    ProcessSettings,
)
from trainwright.controller.runtime.certificates.configurations import webhooks_by_url
from trainwright.controller.runtime.manager.supervisor import GRACE_SECONDS
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)

_HOSTS = (HOST, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_RENEW_SECONDS = 300.0
"""Often, for certificates expire also while the machine sleeps, and timers stand still then."""
_COMPACT_SECONDS = 30.0
JOBSET_WEBHOOKS = "https://jobset.local"
"""Nothing listens there: these webhooks are answered in the process."""
_NO_PORT = "node(s) didn't have free ports for the requested pod ports"
"""As kube-scheduler says it."""
_JOBSET_DEFINITION = Path(jobset_objects.__file__).parent / "jobsets.crd.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an API server holds and serves at a moment, with which others in memory can begin."""

    objects: tuple[tuple[str, StoredObject], ...]
    definitions: DefinitionsState


@dataclass(frozen=True, slots=True)
class AssembledServer:
    """An API server that answers in the process, and what has to run beside it."""

    server: APIServer
    definitions: Definitions
    """To be run."""
    webhooks: WebhookCaller
    """To be closed."""

    def snapshot(self) -> Snapshot:
        """What it holds now, for others to begin with."""
        return Snapshot(tuple(self.server.store.objects()), self.definitions.state())


@dataclass(frozen=True, slots=True)
class RunningServer(AssembledServer):
    config: ClusterConfig
    """How to reach it over HTTPS as the administrator."""
    kubeconfig: Path

    def transport(self) -> InProcessTransport:
        """The administrator's way to it without a socket."""
        assert self.config.token is not None
        return InProcessTransport(self.server, self.config.token)


@dataclass(frozen=True, slots=True)
class RunningCluster:
    api: RunningServer
    manager: Manager
    """Runs the controllers and the node."""
    node: LocalNode


async def assembled(
    store: ObjectStore,
    *,
    token: str,
    signing_key: SigningKey,
    address: Callable[[], str],
    now: Now,
    authority: bytes = b"",
    service_accounts: bool = False,
    for_others: bool = False,
    rbac: bool = False,
    snapshot: Snapshot | None = None,
    requests: RequestLog | None = None,
) -> AssembledServer:
    """Put an API server together; see `api_server`. `address` gives its URL, once it has one."""
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=for_others, rbac=rbac)
    definitions = Definitions(store, registry, now=now)
    caller = WebhookCaller(ServiceAddresses(store))
    conversions = Conversions(caller)
    tokens = AccountTokens(store, signing_key, now=now)
    authenticator = TokenAuthenticator(token, tokens.check)
    plugins = BuiltInPlugins(store, service_accounts=service_accounts)
    roles = RBACAuthorizer(store)
    authorizer = roles if rbac else Authorizer()
    escalation: tuple[Plugin, ...] = (Escalation(roles).check,) if rbac else ()
    policies, webhooks = Policies(store, registry, conversions), Webhooks(store, registry, caller, conversions)
    admission = Chain(
        (*escalation, plugins.mutate, webhooks.mutate),
        (plugins.validate, PodSecurity(store).validate, policies.validate, webhooks.validate),
        again=plugins.mutate,
    )
    server = APIServer(
        store,
        registry,
        authenticator.user,
        admission,
        pages=(
            health,
            version,
            ServedDefinitions(registry),
            partial(issuer_page, signing_key, tokens.issuer, address),
        ),
        conversions=conversions,
        authorizer=authorizer,
        requests=requests,
        now=now,
    )
    serve_identity(server, tokens, authenticator, authorizer, Chain((plugins.mutate,)))
    server.register_handler("", "pods", "binding", partial(bind, server.writes, admission))
    _serve_pods(server, _no_node, _no_node, _no_node)
    evictions = partial(evict, server.writes, Deletes(store, Chain(), conversions), admission)
    server.register_handler("", "pods", "eviction", evictions)
    if snapshot is not None:
        store.begin_with(snapshot.objects)
        definitions.restore(snapshot.definitions)
    else:
        definitions.load()
        await add_presets(server.writes, registry, authority=authority, volumes=service_accounts, rbac=rbac, now=now)
    return AssembledServer(server, definitions, caller)


@asynccontextmanager
async def api_server(
    folder: Path,
    *,
    port: int = 0,
    memory: bool = False,
    service_accounts: bool = False,
    for_others: bool = True,
    rbac: bool = False,
    snapshot: Snapshot | None = None,
    request_log: Path | None = None,
    now: Now = wall_clock,
) -> AsyncIterator[RunningServer]:
    """Run an API server for the length of the block.

    Args:
        folder: where its state, certificates and kubeconfig are.
        port: to listen on; 0 for that of the last run, or a free one.
        memory: keep no state file.
        service_accounts: refuse pods whose service account does not exist, and give them its token; and give claims
            the class `local`. Controllers must create the accounts and the volumes.
        for_others: serve kinds, such as StatefulSets, that only controllers from elsewhere act on.
        rbac: authorize by roles and bindings. Else all users with credentials may do everything.
        snapshot: begin with it, instead of what is in the folder; with `memory`, and the same keys and `rbac`.
        request_log: file for a line about each request (`http/requestlog.py`).
        now: the time of day.

    Raises:
        StateFileError: the state file cannot be used.
        StateLostError: the state file can no longer be written; the block is cancelled.
        ConfigurationError: the port cannot be used; or a secret in the folder is damaged, or others may read it.
        OSError: the request log cannot be written.
    """
    credentials = await asyncio.to_thread(Credentials.provide, folder, _HOSTS, now())
    async with AsyncExitStack() as stack:
        requests = None
        if request_log is not None:
            requests = RequestLog(request_log, now=now)
            stack.callback(requests.close)
        store = _store(None if memory else folder / "state.db", now)
        stack.push_async_callback(store.close)
        url = ""
        made = await assembled(
            store,
            token=credentials.token,
            signing_key=credentials.signing_key,
            authority=credentials.bundle,
            service_accounts=service_accounts,
            for_others=for_others,
            rbac=rbac,
            snapshot=snapshot,
            requests=requests,
            address=lambda: url,
            now=now,
        )
        stack.push_async_callback(made.webhooks.close)
        server = made.server
        tasks = await stack.enter_async_context(TaskScope("api server"))
        tasks.start("state file", store.watch_file())
        tasks.start("definitions", made.definitions.run())
        tasks.start("compaction", compacting(store, now))
        tasks.start("certificate", _renew(credentials, now))
        url = f"https://{HOST}:{await _listen(stack, server, credentials, folder, port)}"
        kubeconfig = await asyncio.to_thread(_kubeconfig, folder, url, credentials)
        config = ClusterConfig(server=url, ca_data=credentials.bundle, token=credentials.token)
        yield RunningServer(server, made.definitions, made.webhooks, config, kubeconfig)


def _store(path: Path | None, now: Now) -> ObjectStore:
    """Raises StateFileError."""

    def seconds() -> float:
        return now().timestamp()

    # Without a file the versions of an earlier run are not known. The clock's microseconds are above all of them, so a
    # client that asks for changes since one of them is told that it is too old, and lists again. A version of the
    # future would be waited for in silence.
    return ObjectStore(path, now=seconds, first=1 if path else int(seconds() * 1_000_000))


async def _listen(stack: AsyncExitStack, server: APIServer, credentials: Credentials, folder: Path, port: int) -> int:
    """Listen on the wanted port, else on that of the last run, else on a free one. Returns it."""
    kept = folder / "port"
    known = port or await asyncio.to_thread(_read_port, kept)
    try:
        used = await stack.enter_async_context(served(server, credentials.tls, known))
    except ConfigurationError as error:
        if port or not known:
            raise
        log.warning("another program uses the port of the last run; the kubeconfig will name a new one: %s", error)
        used = await stack.enter_async_context(served(server, credentials.tls, 0))
    await asyncio.to_thread(write_private, kept, str(used).encode())
    return used


def _read_port(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return 0
    return int(text) if text.isdecimal() and int(text) <= 65535 else 0


@asynccontextmanager
async def local_cluster(
    settings: NodeSettings,
    *,
    port: int = 0,
    memory: bool = False,
    rbac: bool = False,
    for_others: bool = False,
    snapshot: Snapshot | None = None,
    request_log: Path | None = None,
    beside: Callable[[RunningServer], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
    now: Now = wall_clock,
) -> AsyncIterator[RunningCluster]:
    """Run a whole cluster for the length of the block: the API server, JobSet and the other controllers, one node.

    Args, beside those of `api_server`, which says what is raised:
        settings: of the node; its folder holds everything.
        beside: runs a manager of an operator. It is entered before the controllers and the node begin, so that it sees
            what becomes of pods that an earlier run left behind, and left before they end.
    """
    async with api_server(
        settings.folder,
        port=port,
        memory=memory,
        service_accounts=True,
        for_others=for_others,
        rbac=rbac,
        snapshot=snapshot,
        request_log=request_log,
        now=now,
    ) as api:
        manager = Manager(
            api.config,
            user_agent="trainwright-local",
            servers=NO_SERVERS,
            # The pods of the node end with their grace.
            process=ProcessSettings(grace=STOP_SECONDS + GRACE_SECONDS),
            transport=api.transport(),
        )
        api.webhooks.answer_here(JOBSET_WEBHOOKS, answerer(jobset_objects.HANDLERS))
        await install_jobset(manager.client)
        node = LocalNode(manager.client, settings, server=api.config.server, now=now)
        controllers = ControllerSettings(
            now=now,
            authority=(api.config.ca_data or b"").decode(),
            volumes=settings.folder / "volumes",
            check=lambda pod, pods: None if node.admit(pod, pods) else _NO_PORT,
        )
        declare_controllers(manager, settings=controllers)
        node.declare(manager)
        _serve_pods(api.server, node.logs, node.exec, node.connect, node.gone)
        api.server.serve_group(METRICS, partial(pod_metrics, api.server.store, node.usage, now))
        async with TaskScope("local cluster") as tasks:
            running: set[asyncio.Task[None]] = set()
            try:
                async with beside(api):
                    running.add(tasks.start("controllers", manager.run()))
                    await manager.wait_ready()
                    await node.wait_running()
                    yield RunningCluster(api, manager, node)
            finally:
                # Pods end with their grace while the API server still answers.
                manager.stop()
                if running:
                    await asyncio.wait(running)


async def _no_node(*_: Any, **__: Any) -> NoReturn:
    raise UnavailableError("no node of this API server runs pods")


def _serve_pods(
    server: APIServer,
    logs: LogSource,
    execs: ExecSource,
    ports: PortSource,
    gone: GonePods | None = None,
) -> None:
    store, admission = server.store, server.admission
    for name, handler in (
        ("log", partial(stream_log, store, logs, gone=gone)),
        ("exec", partial(connect_exec, store, execs, admission)),
        ("portforward", partial(forward_ports, store, ports, admission)),
    ):
        server.register_handler("", "pods", name, handler)


async def install(client: Client, documents: Iterable[Document], *, owner: str) -> None:
    """Apply documents, but for those that the cluster holds already. Raises KubernetesError."""
    discovery = Discovery(client)
    for document in documents:
        resource = await discovery.resource_of(document)
        with suppress(NotFound):
            if _holds(await client.get(resource, name_of(document), namespace_of(document)), document):
                continue
        await client.apply(document, kind=resource, field_manager=owner, force=True)


def _holds(stored: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is stored; the server adds defaults and more."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(
            name in stored and _holds(stored[name], inner) for name, inner in wanted.items()
        )
    if isinstance(wanted, list):
        same = isinstance(stored, list) and len(stored) == len(wanted)
        return same and all(_holds(one, inner) for one, inner in zip(stored, wanted, strict=True))
    return bool(stored == wanted)


async def install_jobset(client: Client) -> None:
    """JobSet, as its own installation has it: the definition, and the webhooks, which `JOBSET_WEBHOOKS` stands for."""
    definition = msgspec.json.decode(_JOBSET_DEFINITION.read_bytes())
    definition.pop("//")
    hooks = [webhooks_by_url(one, JOBSET_WEBHOOKS, b"", {}) for one in jobset_objects.configurations()]
    await install(client, [definition, *hooks], owner="trainwright-local")


async def compacting(store: ObjectStore, now: Now) -> None:
    """Forget old changes and events until cancelled."""
    while True:
        await asyncio.sleep(_COMPACT_SECONDS)
        expire_events(store, now())
        await store.compact()


async def _renew(credentials: Credentials, now: Now) -> None:
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        await asyncio.to_thread(credentials.renew, now())


def _kubeconfig(folder: Path, url: str, credentials: Credentials) -> Path:
    name = f"trainwright-{folder.name}"
    document: Document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(credentials.bundle).decode()},
            }
        ],
        "users": [{"name": name, "user": {"token": credentials.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    path = folder / "kubeconfig"
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
    return path
