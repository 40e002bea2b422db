# SPDX-License-Identifier: Apache-2.0
"""The webhooks of the trainer: their configurations, with the names and paths of the original's, and their server.

The same documents are what is registered by URL outside of a cluster, and what manifests are made from.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from trainwright.api.base import Object
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    GROUP,
    LABEL_WEBHOOK_VALIDATION,
    VERSION,
    WEBHOOK_VALIDATION_DISABLED,
)
from trainwright.controller.runtime import Group, Manager
from trainwright.controller.runtime.objects import Document
from trainwright.controller.runtime.webhook.admission import mutate_path, validate_path
from trainwright.controller.runtime.webhook.webhooks import ByURL, Webhooks
from trainwright.controller.trainer.admission import TrainJobAdmission, validate_runtime

SERVICE = "kubeflow-trainer-controller-manager"
NAMESPACE = "kubeflow-system"

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


def serve_webhooks(manager: Manager, admission: TrainJobAdmission, url: str) -> None:
    """Answer the API server at the URL, from outside of the cluster."""
    hooks = Webhooks(
        manager.client,
        manager.metrics.registry,
        urlsplit(url).netloc,
        configurations=webhook_configurations(),
        certificates=ByURL(url=url),
    )
    hooks.server.mutate(TrainJob, admission.default)
    hooks.server.validate(TrainJob, admission.validate)
    hooks.server.validate(TrainingRuntime, validate_runtime)
    hooks.server.validate(ClusterTrainingRuntime, validate_runtime)
    manager.add(hooks, Group.WEBHOOKS, "webhooks")
    manager.readyz.add("webhooks", hooks.unready)


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
