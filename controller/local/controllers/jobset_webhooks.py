# SPDX-License-Identifier: Apache-2.0
"""JobSet's webhooks under its own paths and names, for documents instead of models.

The handlers answer reviews. They are added to a `WebhookServer`, or called by an API server in the same process.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from trainwright.api.objects import Document, annotations_of, labels_of, name_of
from trainwright.controller.local.controllers.jobset_objects import (
    JOBSET_NAME,
    PRIORITY,
)
from trainwright.controller.local.controllers.jobset_validation import KIND, refusal, validate
from trainwright.controller.local.controllers.objects import JOBSET, POD
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.runtime import (
    AdmissionHandler,
    ReviewRequest,
    ReviewResponse,
    json_patch,
    nesting,
    passed_through,
)


def default(jobset: Document) -> None:
    """Set the defaults of a new JobSet."""
    spec = jobset.setdefault("spec", {})
    _fill(spec, "successPolicy", {"operator": "All"})
    _fill(spec, "startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in spec.get("replicatedJobs") or ():
        job = _part(_part(replicated, "template"), "spec")
        _fill(job, "completionMode", "Indexed")
        pod = _part(_part(job, "template"), "spec")
        if not pod.get("restartPolicy"):
            pod["restartPolicy"] = "OnFailure"
        _write(replicated["template"], "io.k8s.api.batch.v1.JobTemplateSpec")
    network = _part(spec, "network")
    _fill(network, "enableDNSHostnames", True)
    _fill(network, "publishNotReadyAddresses", True)
    for index, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        _fill(policy, "retentionPolicy", {"whenDeleted": "Delete"})
        for template in policy.get("templates") or ():
            _write(template, "io.k8s.api.core.v1.PersistentVolumeClaim")


def default_pod(pod: Document) -> None:
    """Label a new pod of a JobSet with its priority; does nothing to other pods."""
    priority = (pod.get("spec") or {}).get("priority")
    if JOBSET_NAME in annotations_of(pod) and priority is not None:
        pod["metadata"]["labels"] = {**labels_of(pod), PRIORITY: str(priority)}


def _write(part: Document, model: str) -> None:
    """Bring a part into the form in which JobSet's webhook sends it back, in place.

    It decodes a JobSet into a Go struct and encodes that. What the struct has no place for, and what it would leave
    out, stays as it was: controller-runtime drops such removals from the patch.
    """
    before = deepcopy(part)
    normalize(part, model)
    _restore(part, before)


def _restore(made: Any, before: Any) -> None:
    """Add the fields of `before` that are missing."""
    if isinstance(made, dict) and isinstance(before, dict):
        for name, value in before.items():
            if name in made:
                _restore(made[name], value)
            else:
                made[name] = value
    elif isinstance(made, list) and isinstance(before, list):
        for one, other in zip(made, before, strict=True):
            _restore(one, other)


def _fill(document: Document, name: str, value: object) -> None:
    """Set a field that is absent or null."""
    if document.get(name) is None:
        document[name] = value


def _part(document: Document, name: str) -> Document:
    """An object inside a document, made if it is absent or null."""
    _fill(document, name, {})
    part: Document = document[name]
    return part


MUTATE_JOBSET = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_JOBSET = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
MUTATE_POD = "/mutate--v1-pod"
_SERVICE = {"name": "jobset-webhook-service", "namespace": "jobset-system"}
_DECODER = msgspec.json.Decoder()
_OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


class JobSetDefaulting:
    """Answers with the changes that a defaulter makes."""

    def __init__(self, defaulter: Callable[[Document], None]) -> None:
        """`defaulter` changes the document in place."""
        self._defaulter = defaulter

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Default the object of a review; deletions have none."""
        before, after = _document(review.object), _document(review.object)
        if before is None or after is None:
            return ReviewResponse(allowed=True)
        self._defaulter(after)
        return ReviewResponse(allowed=True, patch=tuple(json_patch(before, after)))


class ValidatingJobSets:
    """Answers with all errors of a JobSet."""

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Validate the object of a review; deletions are allowed."""
        new, old = _document(review.object), _document(review.old_object)
        if new is None:
            return ReviewResponse(allowed=True)
        error = refusal(KIND, name_of(new), validate(new, old))
        return ReviewResponse(allowed=True) if error is None else passed_through(error)


HANDLERS: Mapping[str, AdmissionHandler] = {
    MUTATE_JOBSET: JobSetDefaulting(default),
    VALIDATE_JOBSET: ValidatingJobSets(),
    MUTATE_POD: JobSetDefaulting(default_pod),
}
"""The handlers by path."""


def configurations() -> tuple[Document, ...]:
    """The mutating and the validating configuration of an installation of JobSet, without exclusive placement."""
    return (
        _configuration(
            "MutatingWebhookConfiguration",
            "jobset-mutating-webhook-configuration",
            _webhook("mjobset.kb.io", MUTATE_JOBSET, JOBSET.group, JOBSET.version, JOBSET.plural, ["CREATE"]),
            _webhook("mpod.kb.io", MUTATE_POD, POD.group, POD.version, POD.plural, ["CREATE"], _OF_JOBSETS),
        ),
        _configuration(
            "ValidatingWebhookConfiguration",
            "jobset-validating-webhook-configuration",
            _webhook(
                "vjobset.kb.io", VALIDATE_JOBSET, JOBSET.group, JOBSET.version, JOBSET.plural, ["CREATE", "UPDATE"]
            ),
        ),
    )


def _configuration(kind: str, name: str, *webhooks: Document) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def _webhook(
    name: str,
    path: str,
    group: str,
    version: str,
    plural: str,
    operations: list[str],
    selector: Document | None = None,
) -> Document:
    webhook: Document = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {**_SERVICE, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [plural]}],
    }
    return webhook | ({"objectSelector": selector} if selector is not None else {})


def _document(raw: msgspec.Raw) -> Document | None:
    document: Any = nesting.decode(_DECODER, raw)
    return document if isinstance(document, dict) else None
