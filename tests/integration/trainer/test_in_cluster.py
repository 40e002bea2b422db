# SPDX-License-Identifier: Apache-2.0
"""The manager as a pod has it: the service account where it is mounted, the Configuration from a file, all servers.

A mount namespace gives each process a /var/run of its own. There is no network of a cluster, so the installed webhook
configurations lead to the manager by URL, and each of two replicas listens on a port of its own.
"""

import base64
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.installation import as_pod
from tests.integration.trainer.conftest import TEMPLATE
from tests.managers import COMMAND
from trainwright.api.times import wall_clock
from trainwright.controller.runtime.certificates.authority import (
    certificate_pem,
    issue_certificate,
    key_pem,
    make_authority,
)
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.users import EVERYTHING
from trainwright.controller.runtime.testing.waiting import contains, equals, eventually_sync
from trainwright.controller.trainer.admission.configurations import webhook_configurations

pytestmark = pytest.mark.real_control_plane("JobSet's manager")

CRDS = Path(__file__).parents[3] / "config" / "crd"
NAMESPACE = "kubeflow-system"
ACCOUNT = "kubeflow-trainer-controller-manager"
SECRET = "kubeflow-trainer-webhook-cert"
LEASE = "trainer.kubeflow.org"


@dataclass(frozen=True)
class Replica:
    """One manager, and the ports that it is to listen on."""

    name: str
    webhook: int = field(default_factory=free_port)
    metrics: int = field(default_factory=free_port)
    health: int = field(default_factory=free_port)
    status: int = field(default_factory=free_port)

    def get(self, server: str, path: str, *, ca: bytes | None = None, token: str = "") -> tuple[int, str]:
        """Status and body; status 0 where nothing answers."""
        secure = server == "metrics"
        url = f"{'https' if secure else 'http'}://127.0.0.1:{getattr(self, server)}{path}"
        context = ssl.create_default_context(cadata=ca.decode()) if ca else None
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def report(self, audience: str, token: str, context: ssl.SSLContext) -> int:
        """The status of the answer to an empty report; 0 where nothing answers, or the certificate is not trusted."""
        url, headers = f"https://127.0.0.1:{self.status}/apis/{audience}", {"Authorization": f"Bearer {token}"}
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        try:
            request = urllib.request.Request(url, b"{}", headers)
            with urllib.request.build_opener(*handlers).open(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def ready(self) -> bool:
        return self.get("health", "/readyz")[0] == 200


class Installation:
    """What an installation makes, on an API server of its own."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        control_plane.kubectl("create", "namespace", NAMESPACE)
        control_plane.users.add_service_account(ACCOUNT, NAMESPACE, rules=EVERYTHING)
        self.temporary = control_plane.folder / "temporary"
        self.temporary.mkdir()
        self.account = control_plane.folder / "account"
        control_plane.users.mount_service_account(ACCOUNT, NAMESPACE, self.account)

    def point_webhooks_at(self, replica: Replica, bundle: bytes = b"") -> None:
        """Install the webhook configurations, without a CA unless one is given."""
        documents = json.loads(json.dumps(webhook_configurations()))
        for document in documents:
            for webhook in document["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                webhook["clientConfig"] = {"url": f"https://127.0.0.1:{replica.webhook}{path}"}
                if bundle:
                    webhook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        self.control_plane.apply(*documents)

    def launch(self, replica: Replica, **more: Any) -> None:
        """Start a replica, as the image does; `more` goes into its Configuration."""
        configuration: dict[str, Any] = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "webhook": {"host": "127.0.0.1", "port": replica.webhook},
            "metrics": {"bindAddress": f"127.0.0.1:{replica.metrics}", "auth": {"enabled": True}},
            "statusServer": {"port": replica.status},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{replica.health}", "livenessEndpointName": "alive"},
            "leaderElection": {"leaderElect": True, "leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"},
            **more,
        }
        file = self.control_plane.folder / f"{replica.name}.json"
        file.write_text(json.dumps(configuration))
        whole = [*as_pod(self.control_plane, self.account), "env", f"TMPDIR={self.temporary}"]
        whole += [*COMMAND, f"--config={file}"]
        self.control_plane.launch(replica.name, whole)

    def log(self, replica: Replica) -> list[dict[str, Any]]:
        """What the replica has logged so far."""
        text = (self.control_plane.folder / f"{replica.name}.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        return self.control_plane.stored.get(kind, name, namespace) or {}

    def conditions(self, job: str) -> list[str]:
        """Types of the conditions of a TrainJob."""
        found = self.get("trainjob", job, "default").get("status", {}).get("conditions", [])
        return [condition["type"] for condition in found]

    def leader(self) -> str:
        return str(self.get("lease", LEASE).get("spec", {}).get("holderIdentity", ""))

    def ca(self) -> bytes:
        return base64.b64decode(self.get("secret", SECRET)["data"]["ca.crt"])

    def replace_authority(self) -> bytes:
        """Put a new authority into the Secret as if a replica had announced it in time; returns its certificate."""
        authority = make_authority("new", now=wall_clock() - timedelta(minutes=20), lifetime=timedelta(days=3650))
        new = certificate_pem(authority.certificate)
        data = {"ca.crt": self.ca() + new, "next-ca.key": key_pem(authority.key)}
        patch = {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}
        name = [f"--namespace={NAMESPACE}", "secret", SECRET]
        self.control_plane.kubectl("patch", *name, "--type=merge", f"--patch={json.dumps(patch)}")
        return new


def trusting(authority: bytes) -> ssl.SSLContext:
    """What training makes at its start, on Python 3.13 and later."""
    context = ssl.create_default_context(cadata=authority.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@pytest.fixture(scope="module")
def installed() -> Iterator[Installation]:
    """An API server with everything but the manager."""
    with ControlPlane(crds=[CRDS, provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]) as control_plane:
        yield Installation(control_plane)


@pytest.fixture
def installation(installed: Installation) -> Iterator[Installation]:
    """The same; its replicas and what they were led to end with the test."""
    before = set(installed.control_plane.components)
    yield installed
    for name in installed.control_plane.components.keys() - before:
        installed.control_plane.stop_program(name)
    for document in webhook_configurations():
        installed.control_plane.kubectl("delete", document["kind"], document["metadata"]["name"])


def manifest(kind: str, name: str, spec: dict[str, Any], namespace: str = "default") -> str:
    metadata = {"name": name, "namespace": namespace}
    return json.dumps({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})


RUNTIME = {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE}
JOB = {"runtimeRef": {"kind": "TrainingRuntime", "name": "runtime"}}
JOB_WITHOUT_RUNTIME = {"runtimeRef": {"kind": "TrainingRuntime", "name": "missing"}}


def documented_metrics() -> set[tuple[str, str]]:
    """Names and types in the page about metrics."""
    page = (CRDS.parents[1] / "docs" / "metrics.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \| (gauge|counter|histogram) \|", page, re.MULTILINE))


def test_two_replicas_as_pods(installation: Installation) -> None:
    control_plane = installation.control_plane
    one, two = Replica("one"), Replica("two")
    # Both answer for admission; the API server is led to the one that is stopped last.
    installation.point_webhooks_at(two)
    effects: dict[str, Any] = {
        "controller": {"groupKindConcurrency": {"TrainJob.trainer.kubeflow.org": 3}},
        # All metrics are on the page, also those of features.
        "featureGates": {
            "CreatedCondition": True,
            "OptimizationJob": True,
            "ProgressPull": True,
            "TrainJobStatus": True,
        },
        "progress": {"history": True, "jobMetrics": True},
        "clientConnection": {"qps": 100, "burst": 200},
        "tls": {"minVersion": "1.3"},
    }
    installation.launch(one, **effects)
    eventually_sync(installation.leader)
    installation.launch(two, **effects)
    eventually_sync(lambda: (one.ready(), two.ready()), equals((True, True)))
    assert [one.get("health", path)[0] for path in ("/alive", "/healthz")] == [200, 404]

    # Certificates of their own making are in the Secret, and the authority is in the configurations.
    authority = installation.ca()
    for kind, name in (("mutating", "defaulter"), ("validating", "validator")):
        found = installation.get(f"{kind}webhookconfigurations", f"{name}.trainer.kubeflow.org")
        assert {base64.b64decode(hook["clientConfig"]["caBundle"]) for hook in found["webhooks"]} == {authority}

    # Metrics are for those who may, over TLS with that certificate.
    assert two.get("metrics", "/metrics", ca=authority)[0] == 401
    scraper = control_plane.users.add_service_account("scraper", NAMESPACE)
    assert two.get("metrics", "/metrics", ca=authority, token=scraper)[0] == 403
    token = control_plane.users.token(ACCOUNT, NAMESPACE)
    for replica, value in ((one, "1.0"), (two, "0.0")):
        code, text = replica.get("metrics", "/metrics", ca=authority, token=token)
        assert code == 200
        assert f'leader_election_master_status{{name="{LEASE}"}} {value}' in text

        types = {(line.split()[2], line.split()[3]) for line in text.splitlines() if line.startswith("# TYPE")}
        assert types == documented_metrics()
        assert 'controller_runtime_max_concurrent_reconciles{controller="trainjob_controller"} 3.0' in text
    older = ssl.create_default_context(cadata=authority.decode())
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError), socket.create_connection(("127.0.0.1", two.webhook)) as raw:
        older.wrap_socket(raw, server_hostname="127.0.0.1")

    # The one admits, the other one reconciles.
    with pytest.raises(ControlPlaneError, match="does not exist; create it before the TrainJob"):
        control_plane.kubectl("create", "--filename=-", stdin=manifest("TrainJob", "early", JOB_WITHOUT_RUNTIME))
    control_plane.kubectl("create", "--filename=-", stdin=manifest("TrainingRuntime", "runtime", RUNTIME))
    control_plane.kubectl("create", "--filename=-", stdin=manifest("TrainJob", "first", JOB))
    eventually_sync(lambda: installation.conditions("first"), contains("Created"))
    assert installation.get("jobset", "first", "default")
    labels = 'reason="",runtime="",runtime_kind="TrainingRuntime",state="Pending"'
    shown = [one.get("metrics", "/metrics", ca=authority, token=token)[1] for one in (one, two)]
    assert [f"trainer_trainjobs{{{labels}}} 1.0" in text for text in shown] == [True, False]

    # An orderly end gives the lease back, and the other one goes on.
    control_plane.stop_program("one")
    lines = installation.log(one)
    assert any(line["msg"] == "SIGTERM: stopping" for line in lines)
    assert [line for line in lines if line["level"] in {"warning", "error"} and "readyz" not in line["msg"]] == []
    control_plane.kubectl("create", "--filename=-", stdin=manifest("TrainJob", "second", JOB))
    eventually_sync(lambda: installation.get("jobset", "second", "default"))
    assert two.ready()

    # Training that loaded the authorities at its start reports on after their replacement.
    old = trusting(authority)
    control_plane.users.add_service_account("reporter", "default")
    audience = "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/second/status"
    token = control_plane.kubectl("create", "token", "reporter", "--namespace=default", f"--audience={audience}")
    assert two.report(audience, token.strip(), old) == 200
    new = trusting(installation.replace_authority())
    eventually_sync(lambda: two.report(audience, token.strip(), new), equals(200))
    assert two.report(audience, token.strip(), old) == 200


def test_files_of_somebody_else_are_served(installation: Installation) -> None:
    replica = Replica("mounted")
    certificates = installation.temporary / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True)
    now = wall_clock()
    authority = make_authority("somebody", now=now, lifetime=timedelta(days=1))
    leaf = issue_certificate(authority, ["127.0.0.1"], now=now, lifetime=timedelta(days=1))
    (certificates / "tls.crt").write_bytes(certificate_pem(leaf.certificate))
    (certificates / "tls.key").write_bytes(key_pem(leaf.key))
    installation.point_webhooks_at(replica)
    installation.launch(replica, certManagement={"enable": False, "webhookSecretName": "unused"})
    # The webhook configurations have no CA yet.
    eventually_sync(lambda: replica.get("health", "/readyz?verbose")[1], contains("[-]webhooks failed"))
    installation.point_webhooks_at(replica, certificate_pem(authority.certificate))
    eventually_sync(replica.ready)
    with pytest.raises(ControlPlaneError, match="does not exist; create it before the TrainJob"):
        installation.control_plane.kubectl(
            "create", "--filename=-", stdin=manifest("TrainJob", "early", JOB_WITHOUT_RUNTIME)
        )
    assert installation.get("secret", "unused") == {}
