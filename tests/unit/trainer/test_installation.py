# SPDX-License-Identifier: Apache-2.0
"""Where pods reach the status server, and what verifies it."""

import ssl
from pathlib import Path

import pytest
import yaml

from trainwright.api.config.v1alpha1 import CertManagement, Configuration, StatusServer
from trainwright.controller.runtime import ClusterConfig
from trainwright.controller.runtime.certificates.authority import covers, signed_by
from trainwright.controller.runtime.certificates.material import certificates_in
from trainwright.controller.runtime.client.config import SERVICE_ACCOUNT
from trainwright.controller.runtime.manager.supervisor import GRACE_SECONDS, Drainable
from trainwright.controller.runtime.webhook.webhooks import Webhooks
from trainwright.controller.trainer.assembly.manager import (
    DRAIN_SECONDS,
    ProcessPlace,
    drain_of,
    place_of,
)
from trainwright.controller.trainer.assembly.settings import settings_of, shipped_installation
from trainwright.controller.trainer.progress.server import ProgressService
from trainwright.plugins.contract import Installation

ROOT = Path(__file__).parents[3]
CONFIGURATION = Configuration(
    cert_management=CertManagement(webhook_service_name="trainer", webhook_secret_name="cert"),
    status_server=StatusServer(port=1234),
    feature_gates={"TrainJobStatus": True},
)
OUTSIDE = ClusterConfig(server="https://127.0.0.1:6443", namespace="mine")


INSIDE = ClusterConfig(server="https://10.0.0.1", namespace="mine", token_file=str(SERVICE_ACCOUNT / "token"))


async def place(
    cluster: ClusterConfig = OUTSIDE, *, url: str | None = None, local: bool = False, gate: bool = True
) -> ProcessPlace:
    configuration = CONFIGURATION.deepcopy()
    configuration.feature_gates = {"TrainJobStatus": gate}
    return await place_of(cluster, settings_of(configuration), webhook_url=url, is_local=local)


async def test_in_a_cluster_pods_reach_the_service() -> None:
    expected = Installation(host="trainer.mine.svc", port=1234, namespace="mine", secret="cert")
    assert await place(INSIDE) == ProcessPlace(expected)


async def test_outside_of_a_cluster_the_namespace_is_the_shipped_one() -> None:
    expected = Installation(host="trainer.kubeflow-system.svc", port=1234, namespace="kubeflow-system", secret="cert")
    assert await place() == ProcessPlace(expected)
    assert await place(url="https://laptop:9443", gate=False) == ProcessPlace(expected)
    assert shipped_installation(CONFIGURATION) == expected


async def test_pods_on_this_machine_reach_the_loopback() -> None:
    expected = Installation(host="127.0.0.1", port=1234, namespace="kubeflow-system", secret="cert")
    assert await place(local=True) == ProcessPlace(expected)


@pytest.mark.parametrize(
    ("host", "shown"), [("laptop.example", "laptop.example"), ("10.1.2.3", "10.1.2.3"), ("[::1]", "[::1]")]
)
async def test_a_manager_with_a_url_is_reached_there_and_makes_its_certificate(host: str, shown: str) -> None:
    found = await place(url=f"https://{host}:9443")
    assert found.installation.host == shown
    assert found.own is not None
    assert covers(found.own.leaf.certificate, [host.strip("[]")])
    (authority,) = certificates_in(found.installation.authority.encode())
    assert signed_by(found.own.leaf.certificate, authority)
    ssl.create_default_context(cadata=found.installation.authority)


@pytest.mark.parametrize(
    ("cluster", "url", "local", "seconds"),
    [
        pytest.param(INSIDE, None, False, DRAIN_SECONDS, id="behind a Service"),
        pytest.param(INSIDE, "https://10.1.2.3:9443", False, 0.0, id="in a cluster, by URL"),
        pytest.param(OUTSIDE, None, False, 0.0, id="at a terminal"),
        pytest.param(OUTSIDE, "https://laptop:9443", False, 0.0, id="at a terminal, by URL"),
        pytest.param(OUTSIDE, None, True, 0.0, id="local"),
        pytest.param(INSIDE, None, True, 0.0, id="local in a pod"),
    ],
)
def test_only_a_manager_behind_a_service_serves_on_when_it_is_stopped(
    cluster: ClusterConfig, url: str | None, local: bool, seconds: float
) -> None:
    assert drain_of(cluster, webhook_url=url, is_local=local) == seconds


def test_the_deployment_gives_the_manager_the_time_of_its_stop() -> None:
    (deployment,) = yaml.safe_load_all((ROOT / "config/manager/deployment.yaml").read_text())
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > GRACE_SECONDS > DRAIN_SECONDS


def test_what_answers_in_a_cluster_can_drain() -> None:
    assert issubclass(Webhooks, Drainable)
    assert issubclass(ProgressService, Drainable)
