# SPDX-License-Identifier: Apache-2.0
"""Settings of a manager: what it serves over HTTP, and how its process behaves.

Addresses are `host:port`; `:port` listens on all interfaces, None serves nothing. Servers of webhooks have settings of
their own; see `webhook`.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from trainwright.controller.runtime.manager.supervisor import GRACE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The servers of metrics, health probes and debug information."""

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
