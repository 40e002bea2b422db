# SPDX-License-Identifier: Apache-2.0
"""Command lines, configuration files, keys and certificates of the programs of a test control plane.

Comments say why a flag is needed; `control_plane.py` decides which programs run and in which order.
"""

import base64
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainwright.controller.runtime.certificates.authority import (
    certificate_builder,
    certificate_pem,
    issue_certificate,
    key_pem,
    make_authority,
    signed,
)
from trainwright.controller.runtime.testing.build import Binaries

ADMIN = "control-plane-admin"
_SERVICE_RANGE = "10.0.0.0/24"
_LIFETIME = datetime.timedelta(days=7)


class Authority:
    """A certificate authority of one control plane, with its files in one folder, which they never leave."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._own = make_authority("trainwright-test-control-plane", now=_now(), lifetime=_LIFETIME)
        self.pem = certificate_pem(self._own.certificate)
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(self.pem)

    @property
    def key_pem(self) -> bytes:
        """PEM of its private key, for a server that issues its certificate itself."""
        return key_pem(self._own.key)

    def server(self, name: str, *, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> tuple[Path, Path]:
        """Certificate and key files of a server for `hosts` (names and addresses).

        The files are `tls.crt` and `tls.key` in a folder `name`, as Kubernetes programs expect.
        """
        made = issue_certificate(self._own, hosts, now=_now(), lifetime=_LIFETIME)
        return self._store(name, made.certificate, key_pem(made.key))

    def client(self, user: str, groups: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key files of the client `user`, a member of `groups`."""
        key, own = ec.generate_private_key(ec.SECP256R1()), self._own.certificate
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        left = own.not_valid_after_utc - _now()
        builder = certificate_builder(subject, own.subject, key.public_key(), _now(), left)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = signed(builder.add_extension(usage, critical=False), self._own)
        return self._store(f"user-{user}", certificate, key_pem(key))

    def _store(self, folder_name: str, certificate: x509.Certificate, key: bytes) -> tuple[Path, Path]:
        folder = self._folder / folder_name
        folder.mkdir(exist_ok=True)  # a program that is started again gets a new one
        certificate_file, key_file = folder / "tls.crt", folder / "tls.key"
        certificate_file.write_bytes(certificate_pem(certificate))
        _write_key(key_file, key)
        return certificate_file, key_file


def _signing_key(folder: Path) -> tuple[Path, Path]:
    """A key pair for signing service-account tokens: private and public key file."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "service-account.key", folder / "service-account.pub"
    _write_key(private, key_pem(key))
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def _write_key(path: Path, key: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Files:
    """Files that all programs of one control plane share."""

    folder: Path
    authority: Authority
    api_certificate: tuple[Path, Path]
    service_account_key: tuple[Path, Path]
    tokens: Path
    kubeconfig: Path

    @classmethod
    def make(cls, folder: Path, admin_token: str) -> "Files":
        authority = Authority(folder / "pki")
        tokens = folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{admin_token},{ADMIN},{ADMIN},"system:masters"\n')
        return cls(
            folder=folder,
            authority=authority,
            api_certificate=authority.server(
                "kube-apiserver", hosts=("127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc")
            ),
            service_account_key=_signing_key(folder),
            tokens=tokens,
            kubeconfig=folder / "admin.kubeconfig",
        )


def etcd(binaries: Binaries, files: Files, *, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(binaries["etcd"]),
        f"--data-dir={files.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # Test data need not survive a power cut, and waiting for the disk is most of the cost of a write.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(binaries: Binaries, files: Files, *, port: int, etcd_port: int, audit_log: Path | None) -> list[str]:
    private, public = files.service_account_key
    command = [
        str(binaries["kube-apiserver"]),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.api_certificate[0]}",
        f"--tls-private-key-file={files.api_certificate[1]}",
        f"--client-ca-file={files.authority.certificate}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=RBAC",
        # The first one requires rights on finalizers, as some clusters do. The second one would refuse every pod until
        # a controller has created the service accounts.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={private}",
        f"--service-account-key-file={public}",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        # The Service of the API server is not used, and endpoints must not point outside the loopback.
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if audit_log is not None:
        policy = files.folder / "audit-policy.yaml"
        policy.write_text(
            json.dumps(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived"],
                    "omitManagedFields": True,
                    "rules": [{"level": "Metadata"}],
                }
            )
        )
        command += [f"--audit-log-path={audit_log}", f"--audit-policy-file={policy}", "--audit-log-maxsize=0"]
    return command


def kube_controller_manager(binaries: Binaries, files: Files, port: int) -> list[str]:
    return [
        *_part_of_kubernetes("kube-controller-manager", binaries, files, port),
        # The excluded controllers need a cloud, real nodes or real volumes.
        "--controllers=*,-nodeipam,-cloud-node-lifecycle,-persistentvolume-binder,-attachdetach",
        f"--service-account-private-key-file={files.service_account_key[0]}",
        f"--root-ca-file={files.authority.certificate}",
        # On a busy machine a simulated node may be silent for a while. Its pods would stay not ready, because KWOK
        # reports their readiness only once.
        "--node-monitor-grace-period=1h",
    ]


def kube_scheduler(binaries: Binaries, files: Files, port: int) -> list[str]:
    return _part_of_kubernetes("kube-scheduler", binaries, files, port)


def _part_of_kubernetes(name: str, binaries: Binaries, files: Files, port: int) -> list[str]:
    # Of the own authority, so that no other program on the port is mistaken for this one.
    certificate, key = files.authority.server(name)
    return [
        str(binaries[name]),
        *(f"--{whose}kubeconfig={files.kubeconfig}" for whose in ("", "authentication-", "authorization-")),
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--leader-elect=false",
        "--profiling=false",
        # With the default of 20 requests per second, a burst of jobs would test this limit.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def jobset_manager(binaries: Binaries, files: Files, webhook_port: int, health_port: int) -> list[str]:
    certificate, _ = files.authority.server("jobset-manager")
    configuration = files.folder / "jobset-manager.yaml"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
                "kind": "Configuration",
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
                "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificate.parent)},
                "metrics": {"bindAddress": "0"},
                "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
                "clientConnection": {"qps": 500, "burst": 1000},
            }
        )
    )
    return [str(binaries["jobset-manager"]), f"--config={configuration}", f"--kubeconfig={files.kubeconfig}"]


def webhooks_by_url(manifest: Path, prefix: str, *, port: int, authority: bytes) -> list[dict[str, Any]]:
    """The webhook configurations of a manifest, registered by URL: no Service leads out of the cluster.

    `prefix` is that of the names, which are alike in all projects; `authority` the PEM of the one that the certificate
    of the program is from, which listens at `port`.
    """
    documents = list(yaml.safe_load_all(manifest.read_text()))
    for document in documents:
        document["metadata"]["name"] = f"{prefix}-{document['metadata']['name']}"
        for webhook in document["webhooks"]:
            service = webhook["clientConfig"].pop("service")
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{service['path']}"
            webhook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
    return documents


def jobset_webhooks(binaries: Binaries, files: Files, *, webhook_port: int) -> list[dict[str, Any]]:
    manifest = binaries.manifests["jobset-webhooks.yaml"]
    documents = webhooks_by_url(manifest, "jobset", port=webhook_port, authority=files.authority.pem)
    for document in documents:
        for webhook in document["webhooks"]:
            if any("pods" in rule["resources"] for rule in webhook["rules"]):
                # As in JobSet's installation: only its own pods.
                selector = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                webhook["objectSelector"] = {"matchExpressions": [selector]}
    return documents


PROBE: Final[dict[str, Any]] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "probe", "namespace": "default"},
    "spec": {
        "replicatedJobs": [
            {
                "name": "probe",
                "template": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "probe", "image": "none"}]}
                        }
                    }
                },
            }
        ]
    },
}
"""A JobSet that its webhooks admit; it is never stored."""
_PRETENDS = "kwok.x-k8s.io/node"
"""The annotation of the nodes that KWOK manages."""


def kwok(binaries: Binaries, kubeconfig: Path) -> list[str]:
    return [
        str(binaries["kwok"]),
        f"--kubeconfig={kubeconfig}",
        # Nodes without it may run their pods themselves.
        f"--manage-nodes-with-annotation-selector={_PRETENDS}=fake",
        f"--config={binaries.manifests['kwok-node-stages.yaml']}",
        f"--config={binaries.manifests['kwok-pod-stages.yaml']}",
    ]


def pretend_nodes(count: int) -> list[dict[str, Any]]:
    """Nodes for KWOK, so large that no pod waits for resources."""
    capacity: Mapping[str, str] = {"cpu": "1000", "memory": "4Ti", "pods": "10000", "nvidia.com/gpu": "1000"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"pretend-{index}",
                "annotations": {_PRETENDS: "fake"},
                "labels": {"kubernetes.io/hostname": f"pretend-{index}", "kubernetes.io/os": "linux"},
            },
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        for index in range(count)
    ]
