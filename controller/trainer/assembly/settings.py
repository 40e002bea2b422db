# SPDX-License-Identifier: Apache-2.0
"""Reads the Configuration: every field as the manager uses it, or the reason why it cannot be used.

A value that cannot take effect stops the start; the error names every such field. Sections of features that are turned
off are checked and have no effect, so that one file serves with a feature on and off.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TypeVar

from trainwright.api.base import Object
from trainwright.api.config.v1alpha1 import (
    Cleanup,
    ClientConnection,
    Configuration,
    ControllerHealth,
    LeaderElectionConfiguration,
    Progress,
    StatusServer,
    TLSOptions,
)
from trainwright.api.times import parse_duration
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.runtime import ConfigurationError
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.runtime.servers.addresses import parse_address
from trainwright.controller.trainer.admission.configurations import NAMESPACE
from trainwright.controller.trainer.assembly.features import (
    PROGRESS_PULL,
    TRAIN_JOB_STATUS,
    Features,
    features_of,
    selection_of,
)
from trainwright.controller.trainer.job.cleanup import Lifetimes
from trainwright.controller.trainer.job.stall import SHORTEST_SECONDS
from trainwright.plugins.contract import Installation
from trainwright.plugins.registry import Selection

LEASE = "trainer.kubeflow.org"
"""Name of the Lease. Kubeflow Trainer uses the same, so that the two managers never write at the same time."""

RECONCILED = (TrainJob, TrainingRuntime, ClusterTrainingRuntime)

_OFF = "0"
"""The address that turns a server off."""
LOCK = "leases"
PROTOCOL = "http/1.1"
ENDPOINT = re.compile(r"/?[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = ("1.0", "1.1")
CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}
"""OpenSSL's name by IANA's name, for the TLS 1.2 suites that Kubernetes components know and OpenSSL 3 still has."""
_SUITES_OF_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
OLD_NAMES = {
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    name: str = LEASE
    namespace: str = ""
    """Empty: the namespace of the manager."""
    timing: Timing = dataclass_field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """Requests to the API server: `burst` at once, then `rate` per second."""

    rate: float
    burst: int


@dataclass(frozen=True, slots=True)
class StatusServerSettings:
    port: int
    limit: RequestLimit | None
    """Of the writes of progress, for each replica; None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The Configuration with all defaults, except for those that depend on where the process runs."""

    webhook_host: str
    """Empty: not set."""
    webhook_port: int | None
    """None: not set."""
    metrics_address: str | None
    """`host:port`; empty: not set; None: serve no metrics."""
    metrics_tls: bool
    metrics_access: bool
    """Whether readers of the metrics need a token and the right to `get` them."""
    probe_address: str | None
    readiness_path: str
    liveness_path: str
    election: Election | None
    workers: Mapping[str, int]
    """Number of workers by `Kind.group`, for the kinds that the file names."""
    own_certificates: bool
    service: str
    secret: str
    limit: RequestLimit | None
    cleanup: Lifetimes | None
    """Times after the end of jobs; None: nothing is deleted, whatever annotations say."""
    status_server: StatusServerSettings
    stall_after: float | None
    """Seconds without a report after which a job without the annotation counts as stalled; None: never."""
    progress_interval: float
    """Seconds between two writes of a job's progress."""
    progress_history: bool
    """Whether the course of each job's progress is kept in a ConfigMap."""
    progress_metrics: bool
    """Whether metrics show the progress of single jobs."""
    progress_needs_pod: bool
    """Whether the token of a report must name a pod."""
    progress_by_exec: bool
    """Whether files are read in pods; else last reports only."""
    pull_interval: float
    """Seconds between two reads of the file of a job."""
    features: Features
    plugins: Selection
    minimum_tls: ssl.TLSVersion
    ciphers: str
    """OpenSSL's names of the suites for TLS 1.2; empty: OpenSSL's default."""

    @property
    def takes_progress(self) -> bool:
        """Whether this manager stores progress, however it comes."""
        return TRAIN_JOB_STATUS in self.features or PROGRESS_PULL in self.features

    def workers_of(self, kind: type[Object], default: int) -> int:
        """How many objects of the kind are reconciled at the same time."""
        return self.workers.get(group_kind(kind), default)


PROGRESS_WRITES = RequestLimit(rate=20, burst=40)
"""Writes of progress, for each replica, where the Configuration sets no limit."""
PROGRESS_INTERVALS = (2.0, 300.0)
"""The shortest and the longest `progress.interval`, in seconds."""
PULL_INTERVALS = (10.0, 3600.0)

T = TypeVar("T")
Complain = Callable[[str, str], None]
"""Takes the path of a field and what is wrong with it."""


def settings_of(configuration: Configuration, *, in_cluster: bool = False) -> ManagerSettings:
    """Read a Configuration without defaults: for some fields it matters whether the file sets them.

    In a cluster there may be more replicas than one, so there is an election unless the Configuration turns it off.

    Raises ConfigurationError: one line for each field that cannot take effect.
    """
    problems: list[str] = []

    def complain(path: str, why: str) -> None:
        problems.append(f"{path}: {why}")

    full = configuration.deepcopy()
    full.set_defaults()
    # The defaults of the schema fill in these sections.
    assert full.webhook and full.metrics and full.health and full.cert_management and full.client_connection  # noqa: PT018
    assert full.metrics.auth and full.status_server and full.progress and full.progress.push and full.progress.pull  # noqa: PT018
    unsaid = LeaderElectionConfiguration(leader_elect=True) if in_cluster else None
    _check_port("webhook.port", full.webhook.port, complain)
    minimum, ciphers = _tls(full.tls or TLSOptions(), complain)
    readiness, liveness = _endpoints(full.health, complain)
    metrics = _address("metrics.bindAddress", full.metrics.bind_address, complain)
    if full.metrics.auth.enabled and not full.metrics.secure_serving:
        complain("metrics.auth.enabled", "needs metrics.secureServing; without TLS, tokens would be sent in plain text")
    features = _or_complain(lambda: features_of(full.feature_gates or {}), Features(), complain, "featureGates.")
    settings = ManagerSettings(
        webhook_host=full.webhook.host or "",
        webhook_port=configuration.webhook.port if configuration.webhook else None,
        metrics_address=metrics if configuration.metrics and configuration.metrics.bind_address else "",
        metrics_tls=bool(full.metrics.secure_serving),
        metrics_access=bool(full.metrics.auth.enabled),
        probe_address=_address("health.healthProbeBindAddress", full.health.health_probe_bind_address, complain),
        readiness_path=readiness,
        liveness_path=liveness,
        election=_election(full.leader_election or unsaid, complain),
        workers=_workers(full.controller.group_kind_concurrency if full.controller else None, complain),
        own_certificates=bool(full.cert_management.enable),
        service=_name("certManagement.webhookServiceName", full.cert_management.webhook_service_name, complain),
        secret=_name("certManagement.webhookSecretName", full.cert_management.webhook_secret_name, complain),
        cleanup=_cleanup(full.cleanup, complain),
        limit=_limit("clientConnection", configuration.client_connection, full.client_connection, None, complain),
        status_server=_status_server(configuration.status_server, full.status_server, complain),
        stall_after=_stall_after(full.progress, complain),
        progress_interval=_within("progress.interval", full.progress.interval, PROGRESS_INTERVALS, complain),
        progress_history=bool(full.progress.history),
        progress_metrics=bool(full.progress.job_metrics),
        progress_needs_pod=bool(full.progress.push.require_pod),
        progress_by_exec=bool(full.progress.pull.exec),
        pull_interval=_within("progress.pull.interval", full.progress.pull.interval, PULL_INTERVALS, complain),
        features=features,
        plugins=_or_complain(
            lambda: selection_of(configuration.plugins, configuration.recovery, features), Selection(), complain
        ),
        minimum_tls=minimum,
        ciphers=ciphers,
    )
    if problems:
        raise ConfigurationError("\n".join(problems))
    return settings


def _check_port(path: str, port: int | None, complain: Complain) -> None:
    if port is not None and not 1 <= port <= 65535:
        complain(path, f"{port} is not a port; use a number from 1 to 65535")


def _address(path: str, address: str | None, complain: Complain) -> str | None:
    """The address; None if the value turns the server off."""
    if not address or address == _OFF:
        return None
    try:
        parse_address(address)
    except ConfigurationError as error:
        complain(path, str(error))
    return address


def _name(path: str, name: str | None, complain: Complain) -> str:
    if not name:
        complain(path, "must not be empty")
    return name or ""


def _endpoints(health: ControllerHealth, complain: Complain) -> tuple[str, str]:
    paths = []
    for field, name in (
        ("readinessEndpointName", health.readiness_endpoint_name or ""),
        ("livenessEndpointName", health.liveness_endpoint_name or ""),
    ):
        if not ENDPOINT.fullmatch(name):
            complain(f"health.{field}", f"{name!r} is not a path; use letters, digits and -._~, such as readyz")
        paths.append("/" + name.removeprefix("/"))
    if paths[0] == paths[1]:
        complain(
            "health.livenessEndpointName", f"{paths[1]} is already the path of the readiness probe; use another one"
        )
    return paths[0], paths[1]


def _election(section: LeaderElectionConfiguration | None, complain: Complain) -> Election | None:
    if section is None:
        return None
    if section.resource_lock not in {None, "", LOCK}:
        complain("leaderElection.resourceLock", f"{section.resource_lock!r} is not supported; use {LOCK}")
    default = Timing()
    seconds = {
        "lease": _seconds("leaderElection.leaseDuration", section.lease_duration, default.lease, complain),
        "renew": _seconds("leaderElection.renewDeadline", section.renew_deadline, default.renew, complain),
        "retry": _seconds("leaderElection.retryPeriod", section.retry_period, default.retry, complain),
    }
    try:
        timing = Timing(**seconds)
    except ConfigurationError as error:
        complain("leaderElection", str(error).removeprefix("leader election: "))
        return None
    if not section.leader_elect:
        return None
    return Election(name=section.resource_name or LEASE, namespace=section.resource_namespace or "", timing=timing)


def _seconds(path: str, text: str | None, default: float, complain: Complain) -> float:
    if not text:
        return default
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        complain(path, str(error))
        return default


def _workers(concurrency: Mapping[str, int] | None, complain: Complain) -> Mapping[str, int]:
    known = [group_kind(kind) for kind in RECONCILED]
    for name, workers in (concurrency or {}).items():
        path = f"controller.groupKindConcurrency[{name}]"
        if name not in known:
            complain(path, f"this kind has no controller; use one of {', '.join(known)}")
        elif workers < 1:
            complain(path, f"{workers} is too few; use 1 or more")
    return concurrency or {}


def group_kind(kind: type[Object]) -> str:
    """The name of a kind in `groupKindConcurrency`."""
    return f"{kind.RESOURCE.kind}.{kind.RESOURCE.group}"


def _limit(
    section: str,
    given: ClientConnection | StatusServer | None,
    full: ClientConnection | StatusServer,
    unset: RequestLimit | None,
    complain: Complain,
) -> RequestLimit | None:
    """The limit if the file sets one, else `unset`: Kubeflow Trainer's defaults, which the schema has, are too low."""
    assert full.qps is not None
    assert full.burst is not None
    if full.qps < 0:
        complain(f"{section}.qps", f"{full.qps:g} is negative; use 0 for no limit")
    if full.burst < 0 or (full.burst == 0 and full.qps > 0):
        complain(f"{section}.burst", f"{full.burst} is too few to send any request; use 1 or more")
    if given is None or (given.qps is None and given.burst is None):
        return unset
    return RequestLimit(rate=full.qps, burst=full.burst) if full.qps > 0 else None


def _cleanup(section: Cleanup | None, complain: Complain) -> Lifetimes | None:
    if section is None:
        return None
    for field, seconds in (
        ("trainJobTTLSeconds", section.train_job_ttl_seconds),
        ("objectTTLSeconds", section.object_ttl_seconds),
    ):
        if seconds is not None and seconds < 0:
            complain(f"cleanup.{field}", f"{seconds} is negative; use 0 or more")
    return Lifetimes(job=section.train_job_ttl_seconds, objects=section.object_ttl_seconds)


def _status_server(given: StatusServer | None, full: StatusServer, complain: Complain) -> StatusServerSettings:
    assert full.port is not None
    _check_port("statusServer.port", full.port, complain)
    return StatusServerSettings(port=full.port, limit=_limit("statusServer", given, full, PROGRESS_WRITES, complain))


def _stall_after(section: Progress, complain: Complain) -> float | None:
    if not section.stall_after:
        return None
    seconds = _seconds("progress.stallAfter", section.stall_after, SHORTEST_SECONDS, complain)
    if seconds < SHORTEST_SECONDS:
        complain("progress.stallAfter", f"{section.stall_after} is too short; use {SHORTEST_SECONDS:g}s or more")
    return seconds


def _within(path: str, text: str | None, limits: tuple[float, float], complain: Complain) -> float:
    low, high = limits
    seconds = _seconds(path, text, low, complain)
    if not low <= seconds <= high:
        complain(path, f"{text} is out of range; use {low:g}s to {high:g}s")
    return seconds


def _or_complain(read: Callable[[], T], otherwise: T, complain: Complain, prefix: str = "") -> T:
    """What is read, `otherwise` if that is refused; the error has a line for each field, whose path gets the prefix."""
    try:
        return read()
    except ConfigurationError as error:
        for line in str(error).splitlines():
            path, _, why = line.partition(": ")
            complain(prefix + path, why)
        return otherwise


def _tls(options: TLSOptions, complain: Complain) -> tuple[ssl.TLSVersion, str]:
    version = options.min_version or "1.2"
    if version in _OLD_VERSIONS:
        complain("tls.minVersion", f"TLS {version} is not supported by OpenSSL 3; use 1.2 or 1.3")
    elif version not in VERSIONS:
        complain("tls.minVersion", f"{version!r} is not a version of TLS; use 1.2 or 1.3")
    suites = options.cipher_suites or ()
    if suites and version == "1.3":
        complain("tls.cipherSuites", "has no effect with tls.minVersion 1.3, whose suites cannot be chosen; remove it")
    ciphers = [_cipher(index, name, complain) for index, name in enumerate(suites)]
    for index, name in enumerate(options.next_protos or ()):
        if name != PROTOCOL:
            complain(f"tls.nextProtos[{index}]", f"{name} is not supported; use {PROTOCOL}")
    return VERSIONS.get(version, ssl.TLSVersion.TLSv1_2), ":".join(filter(None, ciphers))


def _cipher(index: int, name: str, complain: Complain) -> str:
    path = f"tls.cipherSuites[{index}]"
    cipher = CIPHER_SUITES.get(OLD_NAMES.get(name, name), "")
    if name in _SUITES_OF_1_3:
        complain(path, f"{name} is a suite of TLS 1.3, which is always offered; remove it")
    elif not cipher:
        complain(path, f"{name} is unknown, or too weak for OpenSSL 3; use {', '.join(CIPHER_SUITES)}")
    return cipher


def installation_in(namespace: str, *, service: str, secret: str, port: int) -> Installation:
    """The installation of a manager in that namespace of a cluster."""
    return Installation(host=f"{service}.{namespace}.svc", port=port, namespace=namespace, secret=secret)


def shipped_installation(configuration: Configuration) -> Installation:
    """The installation of a manager with this Configuration, for commands that are not the manager."""
    full = configuration.deepcopy()
    full.set_defaults()
    certificates, server = full.cert_management, full.status_server
    assert certificates is not None and server is not None and server.port is not None  # noqa: PT018 - defaults
    return installation_in(
        NAMESPACE,
        service=certificates.webhook_service_name or "",
        secret=certificates.webhook_secret_name or "",
        port=server.port,
    )
