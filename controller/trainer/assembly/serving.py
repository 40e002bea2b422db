# SPDX-License-Identifier: Apache-2.0
"""Serves the manager's webhooks: the address, the certificate, and the check that they are ready."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from trainwright.api.objects import Document
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, OptimizationJob, TrainingRuntime, TrainJob
from trainwright.controller.runtime import AdmissionRequest, AdmissionResponse, Client, certificates_for
from trainwright.controller.runtime.certificates.authority import (
    certificate_pem,
    issue_certificate,
    key_pem,
    make_authority,
)
from trainwright.controller.runtime.certificates.configurations import (
    fetch_configuration,
    injection_target_of,
    names_reached,
)
from trainwright.controller.runtime.certificates.keeper import CertificateKeeper
from trainwright.controller.runtime.certificates.material import CertificateMaterial, CertificateVault
from trainwright.controller.runtime.certificates.rotation import RotationPolicy, made_for_process
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.webhook.admission import (
    AdmissionHandler,
    Mutating,
    Validating,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.reach import dry_run_proof
from trainwright.controller.runtime.webhook.webhooks import ByURL, SharedCertificates, Webhooks
from trainwright.controller.trainer.admission.configurations import NAMESPACE, webhook_configurations
from trainwright.controller.trainer.admission.trainjobs import TrainJobAdmission
from trainwright.controller.trainer.assembly.part import Assembly
from trainwright.controller.trainer.assembly.settings import ManagerSettings

AUTHORITY = "kubeflow-trainer-ca"
"""Common name of the authority that signs the manager's certificates, as in Kubeflow Trainer."""
PORT = 9443

_PROBE: Document = {
    "apiVersion": ClusterTrainingRuntime.RESOURCE.api_version,
    "kind": ClusterTrainingRuntime.RESOURCE.kind,
    "metadata": {"name": "readiness-of-the-webhooks"},
    "spec": {"template": {"spec": {"replicatedJobs": []}}},
}
"""Created as a dry run: if the API server allows it, the API server reaches the webhooks."""


async def serve_webhooks(assembly: Assembly, admission: TrainJobAdmission) -> None:
    """Add the webhook server to the manager, reached through the Service or, outside of a cluster, at its URL."""
    manager, settings = assembly.manager, assembly.settings
    certificates = certificates_for(
        manager.config,
        service=settings.service,
        secret=settings.secret,
        managed=settings.own_certificates,
        webhook_url=assembly.webhook_url or "",
        policy=RotationPolicy(authority_name=AUTHORITY),
    )
    assert certificates is not None, "outside of the cluster there is a URL"
    if isinstance(certificates, ByURL):
        certificates = replace(certificates, material=assembly.own_certificate)
    if isinstance(certificates, SharedCertificates):
        certificates = replace(certificates, hosts=[*certificates.hosts, *await _hosts_of_urls(manager.client)])
    hooks = Webhooks(
        manager.client,
        manager.metrics.registry,
        _address(settings, assembly.webhook_url),
        configurations=webhook_configurations(),
        certificates=certificates,
        serving=assembly.serving,
        proof=dry_run_proof(manager.client, _PROBE, kind=ClusterTrainingRuntime.RESOURCE),
    )
    for path, handler in handlers_of(admission, assembly.handlers).items():
        hooks.server.handle(path, handler)
    manager.add(hooks, Group.WEBHOOKS, "webhooks")
    manager.readyz.add("webhooks", hooks.unready)


def handlers_of(admission: TrainJobAdmission, others: Mapping[str, AdmissionHandler]) -> dict[str, AdmissionHandler]:
    """All handlers, by path. `others`: those of parts, which may be off while the webhooks are registered."""
    return {
        mutate_path(TrainJob): Mutating(TrainJob, admission.default),
        validate_path(TrainJob): Validating(TrainJob, admission.validate),
        validate_path(TrainingRuntime): Validating(TrainingRuntime, admission.validate_runtime),
        validate_path(ClusterTrainingRuntime): Validating(ClusterTrainingRuntime, admission.validate_runtime),
        validate_path(OptimizationJob): Validating(OptimizationJob, _without_effect),
        **others,
    }


def _without_effect(_: AdmissionRequest[OptimizationJob]) -> AdmissionResponse:
    return AdmissionResponse(
        warnings=("OptimizationJob has no effect: this manager runs without the feature gate OptimizationJob",)
    )


def keep_local_certificate(assembly: Assembly, host: str) -> None:
    """Keep a certificate for a manager whose pods are processes of the same machine and reach it at `host`.

    It is stored in the Secret, as in a cluster, because jobs that go on after a restart of the machine have the CA.
    """
    client = assembly.manager.client
    keeper = CertificateKeeper(
        client,
        CertificateVault(client, assembly.settings.secret, NAMESPACE),
        assembly.serving,
        hosts=[host],
        policy=RotationPolicy(authority_name=AUTHORITY),
    )
    assembly.manager.add(keeper, Group.WEBHOOKS, "certificates")


def own_material(host: str) -> CertificateMaterial:
    """A CA and a certificate for this process alone, which nothing stores."""
    return made_for_process(RotationPolicy(authority_name=AUTHORITY), [host], wall_clock())


def load_own(serving: ServingCertificate, own: CertificateMaterial) -> None:
    serving.load(certificate_pem(own.leaf.certificate), key_pem(own.leaf.key))


def serve_self_signed(serving: ServingCertificate, host: str) -> None:
    """Give the servers a self-signed certificate: it encrypts the traffic and does not prove who answers."""
    now = wall_clock()
    lifetime = timedelta(days=365)
    leaf = issue_certificate(
        make_authority(AUTHORITY, now=now, lifetime=lifetime), [host or "localhost"], now=now, lifetime=lifetime
    )
    serving.load(certificate_pem(leaf.certificate), key_pem(leaf.key))


def _address(settings: ManagerSettings, url: str | None) -> str:
    named = urlsplit(url or "")
    host = settings.webhook_host or named.hostname or ""
    port = settings.webhook_port or named.port or PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _hosts_of_urls(client: Client) -> list[str]:
    """The hosts of the URLs in the installed webhook configurations.

    A control plane that cannot reach Services has URLs in its webhook configurations; the certificate must name them.
    """
    found = []
    for target in map(injection_target_of, webhook_configurations()):
        configuration = await fetch_configuration(client, target)
        by_url = [w["name"] for w in (configuration or {}).get("webhooks") or () if w["clientConfig"].get("url")]
        found += [host for name, host in names_reached(configuration) if name in by_url] if configuration else []
    return list(dict.fromkeys(found))
