# SPDX-License-Identifier: Apache-2.0
"""The webhook configurations of the trainer, with the names and paths that Kubeflow Trainer uses.

The manifests are made from these documents. A manager outside of a cluster registers the same documents by URL.
"""

from collections.abc import Iterable

from trainwright.api.base import Object
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, OptimizationJob, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    GROUP,
    LABEL_WEBHOOK_VALIDATION,
    VERSION,
    WEBHOOK_VALIDATION_DISABLED,
)
from trainwright.controller.runtime.webhook.admission import mutate_path, validate_path

SERVICE = "kubeflow-trainer-controller-manager"
NAMESPACE = "kubeflow-system"

# For ClusterTrainingRuntimes only: cluster admins write them, and may apply them with the manager. An author of
# TrainingRuntimes must not be able to skip the checks.
_UNLESS_DISABLED: Document = {
    "matchExpressions": [
        {"key": LABEL_WEBHOOK_VALIDATION, "operator": "NotIn", "values": [WEBHOOK_VALIDATION_DISABLED]}
    ]
}


_SPECS_DIFFER = "(has(object.spec) ? object.spec : null) != (has(oldObject.spec) ? oldObject.spec : null)"
_CHANGES_THE_SPEC: Document = {
    "name": "changes-the-spec",
    "expression": f"oldObject == null || !has(object.metadata.deletionTimestamp) && {_SPECS_DIFFER}",
}
"""Labels, annotations and finalizers can be changed, and objects can be deleted, while no manager answers.
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions
"""
_CHANGES_METADATA_ALONE: Document = {
    "name": "changes-metadata-alone",
    "expression": f"oldObject != null && !has(object.metadata.deletionTimestamp) && !({_SPECS_DIFFER})",
}


def webhook_configurations() -> tuple[Document, ...]:
    """Both configurations, as they are in a cluster whose manager has its usual name and namespace."""
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
                *(
                    _webhook(f"validator.{kind.RESOURCE.kind.lower()}.{GROUP}", kind, validate_path(kind), selector)
                    for kind, selector in (
                        (ClusterTrainingRuntime, _UNLESS_DISABLED),
                        (TrainingRuntime, None),
                        (TrainJob, None),
                        (OptimizationJob, None),
                    )
                ),
                *(_metadata_webhook(kind) for kind in (TrainJob, OptimizationJob)),
            ],
        ),
    )


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
        "matchConditions": [_CHANGES_THE_SPEC],
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


def _metadata_webhook(kind: type[Object]) -> Document:
    """The one that looks at changed annotations. While no manager answers, they are taken unseen."""
    webhook = _webhook(f"metadata.{kind.RESOURCE.kind.lower()}.{GROUP}", kind, validate_path(kind))
    webhook["rules"][0]["operations"] = ["UPDATE"]
    return webhook | {"failurePolicy": "Ignore", "timeoutSeconds": 3, "matchConditions": [_CHANGES_METADATA_ALONE]}
