# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of config.trainer.kubeflow.org/v1alpha1; import them from the package."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from msgspec import field

from trainwright.api.base import Merge, OrEmpty, Struct


class CertManagement(Struct, kw_only=True):
    """The certificates of the webhook and status servers."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "enable": True,
        "webhook_service_name": "kubeflow-trainer-controller-manager",
        "webhook_secret_name": "kubeflow-trainer-webhook-cert",
    }

    enable: bool | None = None
    """Whether the manager makes and renews them itself. Otherwise they are files in /tmp/k8s-webhook-
    server/serving-certs.
    """
    webhook_service_name: str | None = field(name="webhookServiceName", default=None)
    """The Service in front of the manager; its name is in the certificates."""
    webhook_secret_name: str | None = field(name="webhookSecretName", default=None)
    """The Secret that holds them."""


class Cleanup(Struct, kw_only=True):
    """What is deleted some time after TrainJobs have ended. The manager needs rights for it that it does not have
    otherwise.
    """

    train_job_ttl_seconds: int | None = field(name="trainJobTTLSeconds", default=None)
    """Seconds after its end at which a TrainJob is deleted with all its objects, unless its annotation
    trainwright.dev/ttl-seconds-after-finished says otherwise. Unset means never.
    """
    object_ttl_seconds: int | None = field(name="objectTTLSeconds", default=None)
    """Seconds after the end of a TrainJob at which its PodGroups and Secrets are deleted, unless its annotation
    trainwright.dev/objects-ttl-seconds-after-finished says otherwise. Unset means with the job.
    """


class ClientConnection(Struct, kw_only=True):
    """A limit on the requests to the API server."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "qps": 50,
        "burst": 100,
    }

    qps: float | None = None
    """Requests a second, on average. 0 means no limit."""
    burst: int | None = None
    """Requests at once."""


class ControllerConfigurationSpec(Struct, kw_only=True):
    """How objects are reconciled."""

    group_kind_concurrency: dict[str, int] | None = field(name="groupKindConcurrency", default=None)
    """Objects of a kind that are reconciled at once, by Kind.group. Unset means 16 of
    TrainJob.trainer.kubeflow.org, and 1 of TrainingRuntime and of ClusterTrainingRuntime.
    """


class ControllerHealth(Struct, kw_only=True):
    """The server of health probes."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "health_probe_bind_address": ":8081",
        "readiness_endpoint_name": "readyz",
        "liveness_endpoint_name": "healthz",
    }

    health_probe_bind_address: str | None = field(name="healthProbeBindAddress", default=None)
    """Address and port, such as :8081; "0" turns the server off."""
    readiness_endpoint_name: str | None = field(name="readinessEndpointName", default=None)
    """Path of the readiness probe."""
    liveness_endpoint_name: str | None = field(name="livenessEndpointName", default=None)
    """Path of the liveness probe."""

    def set_defaults(self) -> None:
        Struct.set_defaults(self)
        from trainwright.api.config.v1alpha1.defaulting import default_ControllerHealth

        default_ControllerHealth(self)


class ControllerWebhook(Struct, kw_only=True):
    """The server that the API server asks."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "port": 9443,
    }

    port: int | None = None
    """Its port. With --webhook-url it is the URL's, unless it is set here."""
    host: str | None = None
    """The address that it listens on. Unset means all."""


class LeaderElectionConfiguration(Struct, kw_only=True):
    """How one of several managers is elected."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "leader_elect": True,
    }

    leader_elect: bool | None = field(name="leaderElect", default=None)
    """Whether there is an election. Without one, run a single replica."""
    lease_duration: str | None = field(name="leaseDuration", default=None)
    """How long others wait for a leader that is silent, such as 15s, which is what unset means."""
    renew_deadline: str | None = field(name="renewDeadline", default=None)
    """How long a leader that cannot renew goes on, such as 10s, which is what unset means."""
    retry_period: str | None = field(name="retryPeriod", default=None)
    """Time between attempts, such as 2s, which is what unset means."""
    resource_lock: str | None = field(name="resourceLock", default=None)
    """Kind of the lock; only leases are supported."""
    resource_name: str | None = field(name="resourceName", default=None)
    """Name of the Lease. Unset means trainer.kubeflow.org."""
    resource_namespace: str | None = field(name="resourceNamespace", default=None)
    """Its namespace. Empty means the manager's own."""


class Logging(Struct, kw_only=True):
    """What the manager logs. Options of its command line take precedence."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "level": "info",
        "format": "auto",
    }

    level: Literal["debug", "info", "warning", "error"] | None = None
    """The lowest level that is logged."""
    format: Literal["auto", "json", "text"] | None = None
    """Format of each line; auto is json in a cluster and text elsewhere."""


class MetricsAuth(Struct, kw_only=True):
    """Who may read the metrics."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "enabled": False,
    }

    enabled: bool | None = None
    """Whether the API server is asked if the caller may. Needs secureServing."""


class Plugins(Struct, kw_only=True):
    """Which plugins run, and their settings."""

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "disabled": Merge("set"),
        "enabled": Merge("set"),
    }

    disabled: list[str] | None = None
    """Installed plugins that do not run, by name."""
    enabled: list[str] | None = None
    """Plugins that run although they are off by default, by name."""
    settings: dict[str, dict[str, Any]] | None = None
    """Settings of each plugin, by its name; the plugin says what it knows."""


class ProgressPull(Struct, kw_only=True):
    """Reports that the manager reads in pods."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "exec": True,
        "interval": "30s",
    }

    exec: bool | None = None
    """Whether files are read while a TrainJob runs, which needs rights on pods/exec. Without it only the last
    report is read, from the termination message of the container.
    """
    interval: str | None = None
    """Time between two reads of a TrainJob's file, from 10s to 1h. With more than 300 TrainJobs the manager reads
    less often.
    """


class ProgressPush(Struct, kw_only=True):
    """Reports that training processes send."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "require_pod": False,
    }

    require_pod: bool | None = field(name="requirePod", default=None)
    """Whether the token of a report must name a pod of the TrainJob. Tokens of kubelets do. Otherwise also tokens
    that are requested for a service account are taken.
    """


class Recovery(Struct, kw_only=True):
    """What TrainJobs may ask for in annotations about their recovery, with the feature gate Recovery."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "default_retries": 3,
        "max_retries": 100,
        "retries_memory": 1,
        "retries_infrastructure": 50,
        "retries_hang": 2,
        "avoid_nodes": False,
    }

    default_retries: int | None = field(name="defaultRetries", default=None)
    """Failures that a TrainJob with the annotation trainwright.dev/recovery survives, unless its annotation
    trainwright.dev/retries says otherwise. At most maxRetries.
    """
    max_retries: int | None = field(name="maxRetries", default=None)
    """The most that the annotation trainwright.dev/retries may ask for."""
    retries_memory: int | None = field(name="retriesMemory", default=None)
    """How many of these failures may be for lack of memory, unless the TrainJob has the annotation
    trainwright.dev/retries.
    """
    retries_infrastructure: int | None = field(name="retriesInfrastructure", default=None)
    """Ends by the cluster that such a TrainJob survives beside its retries; not fewer than its annotation
    trainwright.dev/retries.
    """
    retries_hang: int | None = field(name="retriesHang", default=None)
    """How many of these failures may be hangs, unless the TrainJob has the annotation trainwright.dev/retries."""
    avoid_nodes: bool | None = field(name="avoidNodes", default=None)
    """Whether the next attempt of such a TrainJob avoids a node whose hardware is broken, or on which two attempts
    failed first and none anywhere else.
    """


class StatusServer(Struct, kw_only=True):
    """The server that training processes report to."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "port": 10443,
        "qps": 5,
        "burst": 10,
    }

    port: int | None = None
    """Its port."""
    qps: float | None = None
    """Writes of progress a second to the API server, on average, for each replica; 0 means no limit. Where neither
    qps nor burst is written, the limit is 20 a second and a burst of 40.
    """
    burst: int | None = None
    """Writes of progress at once."""


class TLSOptions(Struct, kw_only=True):
    """TLS of all servers."""

    min_version: str | None = field(name="minVersion", default=None)
    """1.2 or 1.3. Unset means 1.2."""
    cipher_suites: list[str] | None = field(name="cipherSuites", default=None)
    """Names of suites of TLS 1.2, as IANA has them. Unset means the platform's. Those of TLS 1.3 cannot be chosen."""
    next_protos: list[str] | None = field(name="nextProtos", default=None)
    """Protocols that are offered. Only http/1.1 can be."""


class ControllerMetrics(Struct, kw_only=True):
    """The server of metrics."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "bind_address": ":8443",
        "secure_serving": True,
        "auth": {},
    }

    bind_address: str | None = field(name="bindAddress", default=None)
    """Address and port, such as :8443; "0" turns the server off. Outside of a cluster there is none unless it is
    set.
    """
    secure_serving: bool | None = field(name="secureServing", default=None)
    """Whether it speaks TLS, with the certificate of the webhook server, or where there is none with one made for
    the process.
    """
    auth: MetricsAuth | None = None
    """Who may read the metrics."""

    auth_or_empty = OrEmpty(MetricsAuth)


class Progress(Struct, kw_only=True):
    """How reported progress is taken and stored."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "interval": "10s",
        "history": False,
        "job_metrics": False,
        "push": {},
        "pull": {},
    }

    interval: str | None = None
    """Time between two writes of a TrainJob's progress, from 2s to 300s. The first values and 100 % are written at
    once.
    """
    stall_after: str | None = field(name="stallAfter", default=None)
    """Time without a report after which a TrainJob whose pods run gets the condition Stalled, such as 15m, unless
    its annotation trainwright.dev/progress-stall-after says otherwise. At least 2m. Unset means never.
    """
    history: bool | None = None
    """Whether the course of each TrainJob's progress is kept in a ConfigMap of the TrainJob, named after it with
    -progress at the end, for views that are opened later.
    """
    job_metrics: bool | None = field(name="jobMetrics", default=None)
    """Whether metrics show the progress of single TrainJobs, by namespace and name; of 200 at most."""
    push: ProgressPush | None = None
    """Reports that training processes send."""
    pull: ProgressPull | None = None
    """Reports that the manager reads in pods."""

    push_or_empty = OrEmpty(ProgressPush)
    pull_or_empty = OrEmpty(ProgressPull)


class Configuration(Struct, kw_only=True):
    """How the manager runs."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "webhook": {},
        "metrics": {},
        "health": {},
        "cert_management": {},
        "client_connection": {},
        "status_server": {},
        "progress": {},
        "logging": {},
        "recovery": {},
    }

    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    webhook: ControllerWebhook | None = None
    """The server that the API server asks."""
    metrics: ControllerMetrics | None = None
    """The server of metrics."""
    health: ControllerHealth | None = None
    """The server of health probes."""
    leader_election: LeaderElectionConfiguration | None = field(name="leaderElection", default=None)
    """How one of several managers is elected. Unset means an election where the manager is a pod of the cluster."""
    controller: ControllerConfigurationSpec | None = None
    """How objects are reconciled."""
    cert_management: CertManagement | None = field(name="certManagement", default=None)
    """The certificates of the webhook and status servers."""
    client_connection: ClientConnection | None = field(name="clientConnection", default=None)
    """A limit on the requests to the API server. Unset means none; its own fairness decides then."""
    status_server: StatusServer | None = field(name="statusServer", default=None)
    """The server that training processes report their progress to. It runs with the feature gate TrainJobStatus."""
    progress: Progress | None = None
    """How reported progress is taken and stored."""
    feature_gates: dict[str, bool] | None = field(name="featureGates", default=None)
    """Features to turn on or off, by name, such as CreatedCondition, or AllAlpha for all of a stage. Unknown names
    are refused.
    """
    tls: TLSOptions | None = None
    """TLS of all servers."""
    logging: Logging | None = None
    """What the manager logs. An edit takes effect while it runs, within a minute or two."""
    cleanup: Cleanup | None = None
    """What is deleted some time after TrainJobs have ended. Unset means nothing, whatever annotations of TrainJobs
    say.
    """
    recovery: Recovery | None = None
    """What TrainJobs may ask for in annotations about their recovery, with the feature gate Recovery."""
    plugins: Plugins | None = None
    """Which plugins run, and their settings."""

    webhook_or_empty = OrEmpty(ControllerWebhook)
    metrics_or_empty = OrEmpty(ControllerMetrics)
    health_or_empty = OrEmpty(ControllerHealth)
    leader_election_or_empty = OrEmpty(LeaderElectionConfiguration)
    controller_or_empty = OrEmpty(ControllerConfigurationSpec)
    cert_management_or_empty = OrEmpty(CertManagement)
    client_connection_or_empty = OrEmpty(ClientConnection)
    status_server_or_empty = OrEmpty(StatusServer)
    progress_or_empty = OrEmpty(Progress)
    tls_or_empty = OrEmpty(TLSOptions)
    logging_or_empty = OrEmpty(Logging)
    cleanup_or_empty = OrEmpty(Cleanup)
    recovery_or_empty = OrEmpty(Recovery)
    plugins_or_empty = OrEmpty(Plugins)
