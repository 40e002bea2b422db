# SPDX-License-Identifier: Apache-2.0
"""What helm says to values that are wrong, and to a cluster that is too old."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.charts import MANAGER, RUNTIMES, Helm, nested
from tests.repository import ROOT

pytestmark = pytest.mark.parity

WRONG: Mapping[str, tuple[Path, Mapping[str, Any], str]] = {
    "an unknown value": (MANAGER, {"replica": 1}, "additional properties 'replica' not allowed"),
    "another type": (MANAGER, {"replicas": "two"}, "at '/replicas': got string, want integer"),
    "an image without a name": (MANAGER, {"image.repository": ""}, "image.repository is empty: set it to the name"),
    "a tag in the name": (
        MANAGER,
        {"image.repository": "localhost:5000/trainer:1"},
        'image.repository: "localhost:5000/trainer:1" has a tag or a digest: put them into image.tag and image.digest',
    ),
    "an address as a name": (
        MANAGER,
        {"image.repository": "https://example.com/trainer"},
        'image.repository: "https://example.com/trainer" is not the name of an image: write it as registry.example.com',
    ),
    "a tag that is a number": (
        MANAGER,
        {"image.tag": 1.1},
        "image.tag is the number 1.1, and numbers lose zeros (1.10 is 1.1): write tag:",
    ),
    "a tag with a blank": (MANAGER, {"image.tag": "a b"}, 'image.tag: "a b" is not a tag: use letters, digits and ._-'),
    "a digest without an algorithm": (
        MANAGER,
        {"image.digest": "0000"},
        'image.digest: "0000" is not a digest: write sha256: and 64 digits from 0 to f',
    ),
    "no replica": (
        MANAGER,
        {"replicas": 0},
        "replicas: without a manager, no TrainJob can be created or changed: set 1 or more",
    ),
    "replicas that all work": (
        MANAGER,
        {"config.leaderElection.leaderElect": False},
        "config.leaderElection.leaderElect is off with 2 replicas, so all would work on the same TrainJobs",
    ),
    "two makers of certificates": (
        MANAGER,
        {"certManager.enabled": True, "config.certManagement.enable": True},
        "certManager.enabled and config.certManagement.enable exclude each other: set the second to false",
    ),
    "an address without a colon": (
        MANAGER,
        {"config.health.healthProbeBindAddress": "8081"},
        'config.health.healthProbeBindAddress: "8081" has no port up to 65535: write it as :8443',
    ),
    "a time without a unit": (
        MANAGER,
        {"config.progress.interval": "10"},
        'config.progress.interval: "10" is not a duration: write a number with its unit, such as 15s',
    ),
    "a time out of range": (
        MANAGER,
        {"config.progress.interval": "1s"},
        "config.progress.interval: 1s is out of range: use 2s or more, at most 300s",
    ),
    "one path for two probes": (
        MANAGER,
        {"config.health.livenessEndpointName": "readyz"},
        "config.health.livenessEndpointName: /readyz is already the path of the readiness probe",
    ),
    "tokens in plain text": (
        MANAGER,
        {"config.metrics.auth.enabled": True, "config.metrics.secureServing": False},
        "config.metrics.auth.enabled: without config.metrics.secureServing, tokens would be sent in plain text",
    ),
    "suites that nothing uses": (
        MANAGER,
        {"config.tls": {"minVersion": "1.3", "cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]}},
        "config.tls.cipherSuites: has no effect with minVersion 1.3",
    ),
    "a limit that lets nothing through": (
        MANAGER,
        {"config.clientConnection": {"qps": 5, "burst": 0}},
        "config.clientConnection.burst: 0 would let nothing through: use 1 or more",
    ),
    "more retries than allowed": (
        MANAGER,
        {"config.recovery": {"defaultRetries": 5, "maxRetries": 2}},
        "config.recovery.defaultRetries: is greater than maxRetries",
    ),
    "settings in the wrong place": (
        MANAGER,
        {"config.plugins": {"settings": {"Recovery": {}}}},
        "config.plugins.settings.Recovery: use the section config.recovery",
    ),
    "a port for two": (
        MANAGER,
        {"config.webhook.port": 8443},
        "config: the servers metrics and webhook cannot both use port 8443: change one of webhook.port",
    ),
    "a monitor of nothing": (
        MANAGER,
        {"prometheus.serviceMonitor": True, "config.metrics.bindAddress": "0"},
        'prometheus.serviceMonitor: there is nothing to scrape while config.metrics.bindAddress is "0"',
    ),
    "a section that a file leaves empty": (MANAGER, {"config": None}, "missing property 'config'"),
    "a misspelt limit": (
        MANAGER,
        {"resources.limit": {"memory": "1Gi"}},
        "at '/resources': additional properties 'limit' not allowed",
    ),
    "a pull policy": (MANAGER, {"image.pullPolicy": "Sometimes"}, "at '/image/pullPolicy': value must be one of"),
    "an unknown gate": (
        MANAGER,
        {"config.featureGates": {"Progress": True}},
        "value must be one of 'AllAlpha', 'AllBeta', 'CreatedCondition', 'Explain', 'OptimizationJob'",
    ),
    "searches without metrics": (
        MANAGER,
        {"config.featureGates": {"OptimizationJob": True}},
        "config.featureGates.OptimizationJob: the value of a trial is a metric that its TrainJob reports",
    ),
    "an unknown field of the Configuration": (
        MANAGER,
        {"config.metrics.port": 8443},
        "at '/config/metrics': additional properties 'port' not allowed",
    ),
    "a port": (MANAGER, {"config.webhook.port": 0}, "at '/config/webhook/port': minimum: got 0, want 1"),
    "a namespace": (MANAGER, {"onlyNamespace": "Team_1"}, 'onlyNamespace: "Team_1" is not the name of a namespace'),
    "a rule without verbs": (
        MANAGER,
        {"extraRules": [{"apiGroups": [""], "resources": ["pods"]}]},
        "at '/extraRules/0'",
    ),
    "an unknown runtime": (
        RUNTIMES,
        {"runtimes.torch": True},
        "value must be one of 'deepspeed-distributed', 'flux-distributed'",
    ),
    "JobSet that is not there": (MANAGER, {"jobset.install": True}, "this copy of the chart does not hold JobSet"),
}
EMPTIED = ("image.tag", "podAnnotations", "onlyNamespace", "extraRules", "config.featureGates", "resources.limits")
REFUSALS = cases(str(ROOT / "tests" / "unit" / "trainer" / "test_trainer_settings.py"))["a_refusal"]
"""Fields of the Configuration, values, and what the manager says of them."""


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_by_name(helm: Helm, name: str) -> None:
    chart, values, message = WRONG[name]
    assert message in helm.refusal(chart, nested(values))


@pytest.mark.parametrize(("field", "configuration", "_message"), REFUSALS)
def test_what_the_manager_refuses_the_chart_refuses(
    helm: Helm, field: str, configuration: Mapping[str, Any], _message: str
) -> None:
    name = field.partition("[")[0].rpartition(".")[2]
    assert name in helm.refusal(MANAGER, {"config": configuration})


def test_an_old_kubernetes_is_refused(helm: Helm) -> None:
    said = helm.tried("template", "release", MANAGER, "--kube-version=1.30.9").stderr
    assert "chart requires kubeVersion: >=1.31.0-0 which is incompatible with Kubernetes v1.30.9" in said


@pytest.mark.parametrize("path", EMPTIED)
def test_a_default_can_be_taken_away(helm: Helm, path: str) -> None:
    # As a file of values does that has the key and nothing after it.
    kinds = {one["kind"] for one in helm.template(MANAGER, nested({path: None}))}
    assert "Deployment" in kinds
