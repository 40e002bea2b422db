# SPDX-License-Identifier: Apache-2.0
"""Everything that one controller process needs: client, cache, appliers, controllers, servers.

    def make() -> Manager:
        manager = Manager(load_config(), field_manager="web-operator")
        manager.controller().for_(Web).owns(Deployment).reconcile(reconcile)
        return manager

    run(make)

Everything that is added to a manager before `run` starts in the order of `Group`; `supervisor` describes the stop.
"""

import asyncio
import functools
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from trainwright.api.objects import Document
from trainwright.controller.runtime.apply.applier import Applier
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.session import WriteDefaults
from trainwright.controller.runtime.client.transport import Transport, WritePermission, permission
from trainwright.controller.runtime.collector import freeze_collector, tune_collector
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.controller.controller import Controller
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import LeadershipLost
from trainwright.controller.runtime.events.recorder import EventRecorder
from trainwright.controller.runtime.lag import LoopLag
from trainwright.controller.runtime.leaderelection.statistics import ElectionStatistics, election_metrics
from trainwright.controller.runtime.manager.supervisor import GRACE_SECONDS, Group, Runnable, Supervisor
from trainwright.controller.runtime.metrics.registry import (
    CONTENT_TYPE,
    EventCollector,
    Metrics,
    RequestCounts,
    StatisticsCollector,
)
from trainwright.controller.runtime.servers.access import BearerAccess
from trainwright.controller.runtime.servers.http import HTTPServer, guarded, json_route, probe_routes, text_route
from trainwright.controller.runtime.servers.probes import Checks

if TYPE_CHECKING:
    from trainwright.controller.runtime.webhook.webhooks import Certificates, Webhooks

log = logging.getLogger(__name__)

STALL_SECONDS = 30.0
"""Liveness fails when the event loop has been blocked for this long."""
FAILING_SECONDS = 60.0
"""Readiness fails when a watch that worked before has had no contact for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The servers of metrics, health probes and debug information.

    Addresses are `host:port`; `:port` listens on all interfaces, None serves nothing. Servers of webhooks have settings
    of their own; see `webhook`.
    """

    metrics: str | None = "127.0.0.1:8080"
    """Address of `/metrics`."""
    metrics_access: bool = False
    """Require a bearer token whose user may get `/metrics`; the API server is asked."""
    metrics_tls: Callable[[], ssl.SSLContext] | None = None
    """Gives the TLS context of `/metrics`; None: plain HTTP."""
    probes: str | None = "127.0.0.1:8081"
    """Address of the health probes."""
    liveness_path: str = "/healthz"
    readiness_path: str = "/readyz"
    debug: str | None = None
    """Address of `/debug/statistics`."""


NO_SERVERS = ServerSettings(metrics=None, probes=None)
"""Serve nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How the process lists, stops and manages its memory."""

    grace: float = GRACE_SECONDS
    """Seconds that the whole stop may take."""
    drain: float = 0.0
    """Seconds of them that this process goes on serving after the request to stop, while it is not ready. Right behind
    a Service: the nodes of a cluster learn a moment later that the process is not ready, and send requests until then.
    Leader-elected work ends at once."""
    streaming_lists: bool = True
    """Fill caches with a streaming list where the API server supports it; False: always with paged lists."""
    tune_collector: bool = False
    """Tune the garbage collector of the whole process. Right for a process that only runs this manager."""
    watchdog: bool = True
    """Watch the event loop from a thread of its own. False where time is virtual, so that nothing can be late."""
    detect_mutation: bool = False
    """Fail when code changes an object of the cache. For tests: it keeps a copy of each object."""


class Elector(Protocol):
    """Decides which replica leads, independently of the event loop; see `leaderelection.elector`."""

    @property
    def permission(self) -> WritePermission:
        """Checked by leader-elected work before each write."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this replica leads now."""
        ...

    def watch_loop(self, silence: Callable[[], float]) -> None:
        """`silence` returns the seconds since the event loop last ran; it is called from another thread."""
        ...

    async def wait_elected(self) -> None:
        """Wait until this replica leads."""
        ...

    async def wait_lost(self) -> str:
        """Wait until this replica no longer leads; returns the reason."""
        ...

    async def close(self, *, release: bool) -> None:
        """Leave the election; `release` gives the lease back."""
        ...

    def unready(self) -> str | None:
        """Why this replica is not ready; None: it is."""
        ...

    def statistics(self) -> ElectionStatistics:
        """The election as this replica sees it."""
        ...


class Manager:
    """One process. Create it inside a running event loop; run it once."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        field_manager: str = "trainwright",
        namespace: str = "",
        user_agent: str = "",
        servers: ServerSettings = ServerSettings(),
        process: ProcessSettings = ProcessSettings(),
        transport: Transport | None = None,
        elector: Elector | None = None,
    ) -> None:
        """Args:
        config: how to reach the API server.
        field_manager: owner of the fields that the applier and the client write.
        namespace: the cache holds objects of this namespace only; empty: of the whole cluster.
        user_agent: name of this process in the User-Agent of its requests.
        servers: what is served over HTTP.
        process: how the process lists, stops and manages its memory.
        transport: sends the requests; None: HTTP to the API server of `config`.
        elector: leader election; None: this process always leads.
        """
        self.config = config
        self.metrics = Metrics()
        host = urlsplit(config.server).netloc
        self.client = Client(
            transport if transport is not None else HTTPTransport(config),
            user_agent=user_agent,
            defaults=WriteDefaults(field_manager=field_manager),
            requests=RequestCounts(self.metrics, host),
        )
        self.cache = Cache(
            self.client,
            field_manager=field_manager,
            namespace=namespace,
            streaming=process.streaming_lists,
            detect_mutation=process.detect_mutation,
        )
        self.client.observe_writes(self.cache)
        self.applier = Applier(self.client, self.cache, field_manager=field_manager)
        self.healthz = Checks(servers.liveness_path)
        self.readyz = Checks(servers.readiness_path)
        self.controllers: list[Controller] = []
        self.lag = LoopLag()
        self.servers: dict[str, HTTPServer] = {}
        self._name = user_agent or field_manager
        self._elector = elector
        self._tune = process.tune_collector
        self._watchdog = process.watchdog
        self._supervisor = Supervisor(
            grace=process.grace, drain=process.drain, before=self._before, after=self._after, enter=self._enter
        )
        self._leadership = _Leadership(elector, self._supervisor) if elector is not None else None
        self._serve_all(servers)
        self._wire_up()

    def _serve_all(self, settings: ServerSettings) -> None:
        if settings.metrics is not None:
            metrics = text_route(self.metrics.render, CONTENT_TYPE)
            route = guarded(metrics, BearerAccess(self.client).decide) if settings.metrics_access else metrics
            self.serve("metrics", settings.metrics, tls=settings.metrics_tls).add_route("/metrics", route)
        if settings.probes is not None:
            server = self.serve("probes", settings.probes)
            for path, handler in probe_routes(self.healthz, self.readyz).items():
                server.add_route(path, handler)
        if settings.debug is not None:
            self.serve("debug", settings.debug).add_route("/debug/statistics", json_route(self.statistics))

    def _wire_up(self) -> None:
        self.metrics.informers = self.cache.statistics
        self.metrics.lag = self.lag
        self.healthz.add("event-loop", self._stalled)
        self.readyz.add("caches", self._caches_unready)
        self.readyz.add("watches", self._watches_failing)
        self.readyz.add("shutdown", lambda: "the process is stopping" if self._supervisor.stopping else None)
        if self._watchdog:
            self._supervisor.add(self.lag, Group.SERVERS, "loop-lag")
        self._supervisor.add(self.cache, Group.CACHES, "cache")
        self._supervisor.add(_AfterSync(self), Group.CACHES, "after-sync")
        if self._elector is not None:
            self._elector.watch_loop(self.lag.silence)
            self.readyz.add("leader-election", self._elector.unready)
            election = self._elector.statistics
            self.metrics.registry.register(StatisticsCollector(lambda: election_metrics(election())))
            assert self._leadership is not None
            self._supervisor.add(self._leadership, Group.SERVERS, "leadership")

    # ------------------------------------------------------------------ putting together

    def controller(self, name: str = "", uses: Uses | None = None) -> Builder:
        """Declare a controller; see Builder. Its `reconcile` adds the controller to this manager."""
        return Builder(
            self.cache,
            name,
            uses=uses,
            register=self._register,
            queue_observer=self.metrics.queue,
            observer=self.metrics.controller,
        )

    def _register(self, controller: Controller) -> None:
        self.metrics.watch_controller(controller)
        self.controllers.append(controller)
        group = Group.LEADER if controller.needs_leader else Group.OTHERS
        self._supervisor.add(controller, group, f"controller:{controller.name}")

    def add(self, runnable: Runnable, group: Group = Group.OTHERS, name: str = "") -> None:
        """Add another runnable to this process. Raises ConfigurationError while stopping."""
        self._supervisor.add(runnable, group, name)

    def serve(self, name: str, address: str, *, tls: Callable[[], ssl.SSLContext] | None = None) -> HTTPServer:
        """Add an HTTP server that runs as long as the process."""
        server = HTTPServer(name, address, {}, tls=tls)
        self.servers[name] = server
        self._supervisor.add(server, Group.SERVERS, f"server:{name}")
        return server

    @functools.cached_property
    def recorder(self) -> EventRecorder:
        """Events of this process. Its first use adds it to the process, with its metrics; it ends last.

        The events name `user_agent`, or else the field manager, as their source.
        """
        recorder = EventRecorder(self.client, self._name)
        self.add(recorder, Group.SERVERS, "events")
        self.metrics.registry.register(EventCollector(recorder.statistics))
        return recorder

    def webhooks(
        self, configurations: Sequence[Document], certificates: "Certificates", *, address: str = ":9443"
    ) -> "Webhooks":
        """Serve these webhook configurations; add the handlers to `server` of what is returned.

        `certificates_for` says which certificates a process uses. Readiness has a check of it. See `Webhooks`.
        """
        # Certificates need an extra library, which processes without webhooks need not have.
        from trainwright.controller.runtime.webhook.webhooks import Webhooks  # noqa: PLC0415

        hooks = Webhooks(
            self.client, self.metrics.registry, address, configurations=configurations, certificates=certificates
        )
        self.add(hooks, Group.WEBHOOKS, "webhooks")
        self.readyz.add("webhooks", hooks.unready)
        return hooks

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Start everything, run until `stop` or a failure, stop everything, close the client.

        Raises the first failure, or GraceExceeded.
        """
        if self._tune:
            tune_collector()
        try:
            await self._supervisor.run()
        finally:
            if self._leadership is not None:
                await self._leadership.leave(release=self._supervisor.ended(Group.LEADER))
            await self.client.close()

    def stop(self) -> None:
        """Request the stop; `run` returns when everything has ended. Call it only from the thread of the event loop."""
        self._supervisor.stop()

    @property
    def ready(self) -> bool:
        """Whether all caches are filled."""
        return self._caches_unready() is None

    @property
    def leads(self) -> bool:
        """Whether this process leads; without an election it always does."""
        return self._elector is None or self._elector.leads

    async def wait_ready(self) -> None:
        """Wait for the first lists of all declared kinds."""
        await self.cache.wait_synced()

    async def _before(self, group: Group) -> None:
        if group is Group.LEADER and self._elector is not None:
            await self._elector.wait_elected()

    async def _after(self, group: Group) -> None:
        """The lease is left before the other groups end, which can take time."""
        if group is Group.LEADER and self._leadership is not None and self._supervisor.ended(group):
            await self._leadership.leave(release=True)

    def _enter(self, group: Group) -> None:
        if group is Group.LEADER and self._elector is not None:
            permission.set(self._elector.permission)

    # ------------------------------------------------------------------ looking in

    def statistics(self) -> dict[str, object]:
        """Statistics of all parts as plain data, for the debug page."""
        return {
            "running": self._supervisor.running(),
            "controllers": [asdict(controller.statistics()) for controller in self.controllers],
            "informers": [asdict(informer) for informer in self.cache.statistics()],
            "loop": {"worst_lag_seconds": self.lag.worst, "stalls": self.lag.stalls},
            "applier": {"remembered": len(self.applier.memory)},
            "election": asdict(self._elector.statistics()) if self._elector is not None else None,
        }

    def _stalled(self) -> str | None:
        silence = self.lag.silence()
        return f"the event loop has been blocked for {silence:.0f} s" if silence > STALL_SECONDS else None

    def _caches_unready(self) -> str | None:
        waiting = [s for s in self.cache.statistics() if not s.synced]
        if not waiting:
            return None
        return "; ".join(f"{s.kind} ({s.scope}): {s.last_error or 'waiting for the first list'}" for s in waiting)

    def _watches_failing(self) -> str | None:
        now = asyncio.get_running_loop().time()
        failing = [
            s for s in self.cache.statistics() if s.synced and s.last_error and now - s.last_contact > FAILING_SECONDS
        ]
        return "; ".join(f"{s.kind}: {s.last_error}" for s in failing) or None


class _Leadership:
    """Stops the process at once when leadership is lost, because it must not write any more."""

    def __init__(self, elector: Elector, supervisor: Supervisor) -> None:
        self._elector = elector
        self._supervisor = supervisor
        self._left = False

    async def run(self) -> None:
        reason = await self._elector.wait_lost()
        if self._left:
            return
        self._supervisor.hurry()
        raise LeadershipLost(reason)

    async def leave(self, *, release: bool) -> None:
        """Leave the election, once. `release` gives the lease back."""
        if not self._left:
            self._left = True
            await self._elector.close(release=release)


class _AfterSync:
    """Runs once when all caches are filled: logs it, and freezes the garbage collector."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def run(self) -> None:
        await self._manager.cache.wait_synced()
        held = sum(s.objects for s in self._manager.cache.statistics())
        log.info("caches are filled: %d objects in %d caches", held, len(self._manager.cache.statistics()))
        if self._manager._tune:  # noqa: SLF001 - one class in two parts
            freeze_collector()
