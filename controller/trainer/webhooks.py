# SPDX-License-Identifier: Apache-2.0
"""The webhooks of the trainer: their configurations, with the names and paths of the original's, and their server.

The same documents are what is registered by URL outside of a cluster, and what manifests are made from.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from trainwright.api.base import Object
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    GROUP,
    LABEL_WEBHOOK_VALIDATION,
    VERSION,
    WEBHOOK_VALIDATION_DISABLED,
)
from trainwright.controller.runtime import Client, Group, Manager
from trainwright.controller.runtime.certificates.authority import certificate_pem, issue, key_pem, make_authority
from trainwright.controller.runtime.certificates.injection import fetch
from trainwright.controller.runtime.certificates.rotation import Policy
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.clock import wall_clock
from trainwright.controller.runtime.objects import Document
from trainwright.controller.runtime.webhook.admission import mutate_path, validate_path
from trainwright.controller.runtime.webhook.configurations import names_reached, target_of
from trainwright.controller.runtime.webhook.placement import certificates_for
from trainwright.controller.runtime.webhook.reach import dry_run
from trainwright.controller.runtime.webhook.webhooks import Shared, Webhooks
from trainwright.controller.trainer.admission import TrainJobAdmission, validate_runtime
from trainwright.controller.trainer.settings import Settings

AUTHORITY = "kubeflow-trainer-ca"
"""Name of the authority that signs the manager's certificates: the original's."""
PORT = 9443
SERVICE = "kubeflow-trainer-controller-manager"
NAMESPACE = "kubeflow-system"

_PROBE: Document = {
    "apiVersion": ClusterTrainingRuntime.RESOURCE.api_version,
    "kind": ClusterTrainingRuntime.RESOURCE.kind,
    "metadata": {"name": "readiness-of-the-webhooks"},
    "spec": {"template": {"spec": {"replicatedJobs": []}}},
}
"""Never stored: its admission, which nothing speaks against, shows that the API server gets through."""

_UNLESS_DISABLED: Document = {
    "matchExpressions": [
        {"key": LABEL_WEBHOOK_VALIDATION, "operator": "NotIn", "values": [WEBHOOK_VALIDATION_DISABLED]}
    ]
}


def webhook_configurations() -> tuple[Document, ...]:
    """The mutating and the validating configuration."""
    return (
        _configuration(
            "MutatingWebhookConfiguration",
            f"defaulter.{GROUP}",
            [_webhook(f"defaulter.trainjob.{GROUP}", TrainJob, mutate_path(TrainJob))],
        ),
        _configuration(
            "ValidatingWebhookConfiguration",
            f"validator.{GROUP}",
            [
                _webhook(f"validator.{kind.RESOURCE.kind.lower()}.{GROUP}", kind, validate_path(kind), selector)
                for kind, selector in (
                    (ClusterTrainingRuntime, _UNLESS_DISABLED),
                    (TrainingRuntime, _UNLESS_DISABLED),
                    (TrainJob, None),
                )
            ],
        ),
    )


async def serve_webhooks(
    manager: Manager,
    admission: TrainJobAdmission,
    serving: ServingCertificate,
    settings: Settings,
    *,
    url: str | None = None,
) -> None:
    """Answer the API server: in the cluster, or at a URL from outside of it."""
    certificates = certificates_for(
        manager.config,
        service=settings.service,
        secret=settings.secret,
        managed=settings.own_certificates,
        webhook_url=url or "",
        policy=Policy(authority_name=AUTHORITY),
    )
    assert certificates is not None, "outside of the cluster there is a URL"
    if isinstance(certificates, Shared):
        certificates = replace(certificates, hosts=[*certificates.hosts, *await _hosts_of_urls(manager.client)])
    hooks = Webhooks(
        manager.client,
        manager.metrics.registry,
        _address(settings, url),
        configurations=webhook_configurations(),
        certificates=certificates,
        serving=serving,
        proof=dry_run(manager.client, _PROBE, kind=ClusterTrainingRuntime.RESOURCE),
    )
    hooks.server.mutate(TrainJob, admission.default)
    hooks.server.validate(TrainJob, admission.validate)
    hooks.server.validate(TrainingRuntime, validate_runtime)
    hooks.server.validate(ClusterTrainingRuntime, validate_runtime)
    manager.add(hooks, Group.WEBHOOKS, "webhooks")
    manager.readyz.add("webhooks", hooks.unready)


def serve_self_signed(serving: ServingCertificate, host: str) -> None:
    """A certificate for this process alone, where there is no other: the traffic is encrypted, nobody is identified."""
    now = wall_clock()
    lifetime = timedelta(days=365)
    leaf = issue(
        make_authority(AUTHORITY, now=now, lifetime=lifetime), [host or "localhost"], now=now, lifetime=lifetime
    )
    serving.load(certificate_pem(leaf.certificate), key_pem(leaf.key))


def _address(settings: Settings, url: str | None) -> str:
    """Where to listen: as the Configuration says, else as the URL does, else on all interfaces."""
    named = urlsplit(url or "")
    host = settings.webhook_host or named.hostname or ""
    port = settings.webhook_port or named.port or PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _hosts_of_urls(client: Client) -> list[str]:
    """Hosts under which an installation's API server reaches this server, where its configurations name any.

    Control planes that cannot reach Services are given a URL instead.
    """
    found = []
    for target in map(target_of, webhook_configurations()):
        configuration = await fetch(client, target)
        by_url = [w.name for w in (configuration.webhooks if configuration else None) or () if w.client_config.url]
        found += [host for name, host in names_reached(configuration) if name in by_url] if configuration else []
    return list(dict.fromkeys(found))


def _configuration(kind: str, name: str, webhooks: Iterable[Document]) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def _webhook(name: str, kind: type[Object], path: str, selector: Document | None = None) -> Document:
    webhook: Document = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": [VERSION],
                "operations": ["CREATE", "UPDATE"],
                "resources": [kind.RESOURCE.plural],
            }
        ],
    }
    if selector is not None:
        webhook["objectSelector"] = selector
    return webhook
