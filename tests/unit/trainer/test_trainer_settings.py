# SPDX-License-Identifier: Apache-2.0
"""What each field of the Configuration comes to: an effect, or the reason why it cannot have one. None does nothing."""

import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.assertions import does_not_raise
from tests.cases import cases
from trainwright.api.config.v1alpha1 import Configuration, Plugins, Recovery
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.recovery import Allowed
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.trainer.assembly.features import CREATED_CONDITION, GATES, TRAIN_JOB_STATUS
from trainwright.controller.trainer.assembly.settings import (
    CIPHER_SUITES,
    PROGRESS_WRITES,
    Election,
    ManagerSettings,
    RequestLimit,
    StatusServerSettings,
    settings_of,
)
from trainwright.controller.trainer.job.cleanup import Lifetimes
from trainwright.plugins.registry import Registry, built_in

SCHEMA = Path(__file__).parents[3] / "api" / "config" / "v1alpha1" / "configuration.schema.json"
ELECTED = {"leaderElect": True}
TRAIN_JOB = "TrainJob.trainer.kubeflow.org"

EFFECTS: list[tuple[str, dict[str, Any], str, object]] = [
    # field, Configuration, attribute of Settings, its value
    ("webhook.port", {"webhook": {"port": 9444}}, "webhook_port", 9444),
    ("webhook.host", {"webhook": {"host": "::1"}}, "webhook_host", "::1"),
    ("metrics.bindAddress", {"metrics": {"bindAddress": ":1"}}, "metrics_address", ":1"),
    ("metrics.bindAddress", {"metrics": {"bindAddress": "0"}}, "metrics_address", None),
    ("metrics.bindAddress", {}, "metrics_address", ""),
    ("metrics.secureServing", {"metrics": {"secureServing": False}}, "metrics_tls", False),
    ("metrics.auth.enabled", {"metrics": {"auth": {"enabled": True}}}, "metrics_access", True),
    ("health.healthProbeBindAddress", {"health": {"healthProbeBindAddress": ":2"}}, "probe_address", ":2"),
    ("health.healthProbeBindAddress", {"health": {"healthProbeBindAddress": ""}}, "probe_address", ":8081"),
    ("health.healthProbeBindAddress", {"health": {"healthProbeBindAddress": "0"}}, "probe_address", None),
    ("health.readinessEndpointName", {"health": {"readinessEndpointName": "/r"}}, "readiness_path", "/r"),
    ("health.livenessEndpointName", {"health": {"livenessEndpointName": "l"}}, "liveness_path", "/l"),
    (
        "leaderElection.leaderElect",
        {"leaderElection": ELECTED},
        "election",
        Election(name="trainer.kubeflow.org", namespace="", timing=Timing()),
    ),
    ("leaderElection.leaderElect", {"leaderElection": {"leaderElect": False}}, "election", None),
    ("leaderElection.leaderElect", {}, "election", None),
    (
        "leaderElection.resourceName",
        {"leaderElection": {**ELECTED, "resourceName": "n", "resourceLock": "leases"}},
        "election",
        Election(name="n", namespace="", timing=Timing()),
    ),
    (
        "leaderElection.resourceNamespace",
        {"leaderElection": {**ELECTED, "resourceNamespace": "m"}},
        "election",
        Election(name="trainer.kubeflow.org", namespace="m", timing=Timing()),
    ),
    *(
        (
            f"leaderElection.{field}",
            {"leaderElection": {**ELECTED, field: f"{seconds}s"}},
            "election",
            Election(name="trainer.kubeflow.org", namespace="", timing=Timing(**{name: seconds})),
        )
        for field, name, seconds in (
            ("leaseDuration", "lease", 60.0),
            ("renewDeadline", "renew", 12.0),
            ("retryPeriod", "retry", 3.0),
        )
    ),
    (
        "controller.groupKindConcurrency",
        {"controller": {"groupKindConcurrency": {TRAIN_JOB: 3}}},
        "workers",
        {TRAIN_JOB: 3},
    ),
    ("certManagement.enable", {"certManagement": {"enable": False}}, "own_certificates", False),
    ("certManagement.webhookServiceName", {"certManagement": {"webhookServiceName": "s"}}, "service", "s"),
    ("certManagement.webhookSecretName", {"certManagement": {"webhookSecretName": "s"}}, "secret", "s"),
    ("clientConnection.qps", {}, "limit", None),
    ("clientConnection.qps", {"clientConnection": {"qps": 7}}, "limit", RequestLimit(rate=7.0, burst=100)),
    ("clientConnection.qps", {"clientConnection": {"qps": 0}}, "limit", None),
    ("clientConnection.burst", {"clientConnection": {"burst": 9}}, "limit", RequestLimit(rate=50.0, burst=9)),
    ("cleanup.trainJobTTLSeconds", {"cleanup": {"trainJobTTLSeconds": 5}}, "cleanup", Lifetimes(job=5)),
    ("cleanup.objectTTLSeconds", {"cleanup": {"objectTTLSeconds": 0}}, "cleanup", Lifetimes(objects=0)),
    ("cleanup.objectTTLSeconds", {"cleanup": {}}, "cleanup", Lifetimes()),
    ("cleanup.objectTTLSeconds", {}, "cleanup", None),
    ("statusServer.port", {"statusServer": {"port": 1}}, "status_server", StatusServerSettings(1, PROGRESS_WRITES)),
    (
        "statusServer.qps",
        {"statusServer": {"qps": 5}},
        "status_server",
        StatusServerSettings(10443, RequestLimit(5, 10)),
    ),
    ("statusServer.qps", {"statusServer": {"qps": 0}}, "status_server", StatusServerSettings(10443, None)),
    (
        "statusServer.burst",
        {"statusServer": {"burst": 7}},
        "status_server",
        StatusServerSettings(10443, RequestLimit(5, 7)),
    ),
    ("progress.interval", {}, "progress_interval", 10.0),
    ("progress.stallAfter", {}, "stall_after", None),
    ("progress.stallAfter", {"progress": {"stallAfter": "15m"}}, "stall_after", 900.0),
    ("progress.interval", {"progress": {"interval": "5m"}}, "progress_interval", 300.0),
    ("progress.push.requirePod", {"progress": {"push": {"requirePod": True}}}, "progress_needs_pod", True),
    ("progress.push.requirePod", {}, "progress_needs_pod", False),
    ("progress.history", {"progress": {"history": True}}, "progress_history", True),
    ("progress.history", {}, "progress_history", False),
    ("progress.jobMetrics", {"progress": {"jobMetrics": True}}, "progress_metrics", True),
    ("progress.jobMetrics", {}, "progress_metrics", False),
    ("progress.pull.exec", {"progress": {"pull": {"exec": False}}}, "progress_by_exec", False),
    ("progress.pull.interval", {}, "pull_interval", 30.0),
    ("progress.pull.interval", {"progress": {"pull": {"interval": "1m"}}}, "pull_interval", 60.0),
    ("progress.pull.exec", {}, "progress_by_exec", True),
    ("featureGates", {"featureGates": {"TrainJobStatus": True}}, "features", frozenset({TRAIN_JOB_STATUS})),
    (
        "featureGates",
        {"featureGates": {"AllAlpha": True}},
        "features",
        frozenset(GATES.values()),
    ),
    (
        "featureGates",
        {"featureGates": {"CreatedCondition": True}},
        "features",
        frozenset({CREATED_CONDITION}),
    ),
    ("featureGates", {"featureGates": {"AllAlpha": False}}, "features", frozenset()),
    ("tls.minVersion", {"tls": {"minVersion": "1.3"}}, "minimum_tls", ssl.TLSVersion.TLSv1_3),
    ("tls.minVersion", {}, "minimum_tls", ssl.TLSVersion.TLSv1_2),
    (
        "tls.cipherSuites",
        {
            "tls": {
                "cipherSuites": ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"],
            }
        },
        "ciphers",
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305",
    ),
]

REFUSALS = cases(__file__)["a_refusal"]
"""Field, Configuration, what is said of it."""

ELSEWHERE = {
    "logging.level",
    "logging.format",
    "recovery.avoidNodes",
    "apiVersion",
    "kind",
    "plugins.disabled",
    "plugins.enabled",
    "plugins.settings",
}
"""Fields that are read by the file's reader and by the registry, and tested with them."""


def read(data: dict[str, Any]) -> ManagerSettings:
    return settings_of(msgspec.convert(data, Configuration))


@pytest.mark.parametrize(("field", "data", "attribute", "value"), EFFECTS)
def test_an_effect(field: str, data: dict[str, Any], attribute: str, value: object) -> None:
    assert getattr(read(data), attribute) == value, field


@pytest.mark.parametrize(
    ("data", "elects"),
    [
        ({}, True),
        ({"leaderElection": {"resourceName": "n"}}, True),
        ({"leaderElection": {"leaderElect": False}}, False),
    ],
)
def test_in_a_cluster_only_a_word_turns_the_election_off(data: dict[str, Any], elects: bool) -> None:
    settings = settings_of(msgspec.convert(data, Configuration), in_cluster=True)
    assert (settings.election is not None) == elects


@pytest.mark.parametrize(("field", "data", "message"), REFUSALS)
def test_a_refusal(field: str, data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read(data)
    (line,) = str(refusal.value).splitlines()
    path, _, why = line.partition(": ")
    assert path == field
    assert message in why


def test_every_field_is_in_a_table() -> None:
    tried = ELSEWHERE | {row[0] for row in EFFECTS} | {row[0].partition("[")[0] for row in REFUSALS}
    assert set(fields(json.loads(SCHEMA.read_text()))) <= tried


def fields(schema: dict[str, Any]) -> Iterator[str]:
    """Paths of all values; maps count as one."""
    definitions = schema.get("$defs") or schema.get("definitions") or {}

    def walk(node: dict[str, Any], path: str) -> Iterator[str]:
        resolved = definitions[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        for one in resolved.get("allOf", ()):
            resolved = {**resolved, **(definitions[one["$ref"].rpartition("/")[2]] if "$ref" in one else one)}
        if not resolved.get("properties"):
            yield path
        for name, child in (resolved.get("properties") or {}).items():
            yield from walk(child, f"{path}.{name}" if path else name)

    yield from walk(schema, "")


def test_all_problems_come_at_once() -> None:
    data = {"webhook": {"port": 0}, "tls": {"minVersion": "2"}, "featureGates": {"A": True}}
    with pytest.raises(ConfigurationError) as refusal:
        read(data)
    assert [line.partition(":")[0] for line in str(refusal.value).splitlines()] == [
        "webhook.port",
        "tls.minVersion",
        "featureGates.A",
    ]


def test_the_originals_whole_file_is_taken() -> None:
    """What it ships, with every default spelled out."""
    kinds = {TRAIN_JOB: 5, "TrainingRuntime.trainer.kubeflow.org": 1, "ClusterTrainingRuntime.trainer.kubeflow.org": 1}
    election = {"leaderElect": True, "resourceName": "trainer.kubeflow.org", "resourceNamespace": ""}
    times = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}
    settings = read(
        {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "webhook": {"port": 9443},
            "metrics": {"bindAddress": ":8443", "secureServing": True, "auth": {"enabled": False}},
            "health": {
                "healthProbeBindAddress": ":8081",
                "readinessEndpointName": "readyz",
                "livenessEndpointName": "healthz",
            },
            "leaderElection": {**election, **times},
            "controller": {"groupKindConcurrency": kinds},
            "certManagement": {
                "enable": True,
                "webhookServiceName": "kubeflow-trainer-controller-manager",
                "webhookSecretName": "kubeflow-trainer-webhook-cert",
            },
            "clientConnection": {"qps": 50, "burst": 100},
            "statusServer": {"port": 10443, "qps": 5, "burst": 10},
            "tls": {"nextProtos": ["http/1.1"]},
        }
    )
    assert settings.workers_of(TrainJob, 16) == 5
    assert settings.limit == RequestLimit(rate=50.0, burst=100)
    assert settings.status_server.limit == RequestLimit(rate=5.0, burst=10)


def test_openssl_has_every_suite_that_is_taken() -> None:
    for cipher in CIPHER_SUITES.values():
        with does_not_raise():
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(cipher)


def test_what_jobs_may_ask_for_in_their_recovery_reaches_the_plugin() -> None:
    limits = {"defaultRetries": 1, "maxRetries": 20, "retriesHang": 0, "avoidNodes": True}
    settings = read({"recovery": limits, "featureGates": {"Recovery": True}})
    given = cast("Recovery", settings.plugins.settings["Recovery"])
    wanted = replace(Allowed(), default_retries=1, max_retries=20, retries_hang=0, avoid_nodes=True)
    assert Allowed.of(given) == wanted
    Registry.load(settings.plugins, built_in())  # it takes them


def test_the_gate_turns_its_plugin_on() -> None:
    assert settings_of(Configuration()).plugins.enabled == frozenset()
    on = settings_of(Configuration(feature_gates={"TrainJobStatus": True}))
    assert on.plugins.enabled == frozenset({"TrainJobStatus"})
    without = Plugins(enabled=["TrainJobStatus"])
    with pytest.raises(ConfigurationError, match=r"plugins.enabled: .* set featureGates.TrainJobStatus to true"):
        settings_of(Configuration(plugins=without))
