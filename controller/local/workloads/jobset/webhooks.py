# SPDX-License-Identifier: Apache-2.0
"""JobSet's webhooks under its own paths and names, for documents instead of models.

The handlers answer reviews. They are added to a `WebhookServer`, or called by an API server in the same process.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from trainwright.api.objects import Document, name_of
from trainwright.controller.local.workloads.invalid import refusal
from trainwright.controller.local.workloads.jobset.defaulting import default, default_pod
from trainwright.controller.local.workloads.jobset.validation import KIND, validate
from trainwright.controller.local.workloads.kinds import JOBSET, POD
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.webhook.admission import Handler
from trainwright.controller.runtime.webhook.jsonpatch import diff
from trainwright.controller.runtime.webhook.review import ReviewRequest, ReviewResponse, passed_through

MUTATE_JOBSET = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_JOBSET = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
MUTATE_POD = "/mutate--v1-pod"
_SERVICE = {"name": "jobset-webhook-service", "namespace": "jobset-system"}
_DECODER = msgspec.json.Decoder()
_OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


class Defaulting:
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
        return ReviewResponse(allowed=True, patch=tuple(diff(before, after)))


class ValidatingJobSets:
    """Answers with all errors of a JobSet."""

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Validate the object of a review; deletions are allowed."""
        new, old = _document(review.object), _document(review.old_object)
        if new is None:
            return ReviewResponse(allowed=True)
        error = refusal(KIND, name_of(new), validate(new, old))
        return ReviewResponse(allowed=True) if error is None else passed_through(error)


def handlers() -> dict[str, Handler]:
    """The handlers by path."""
    return {
        MUTATE_JOBSET: Defaulting(default),
        VALIDATE_JOBSET: ValidatingJobSets(),
        MUTATE_POD: Defaulting(default_pod),
    }


def configurations() -> tuple[Document, ...]:
    """The mutating and the validating configuration, as an installation of JobSet has them."""
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
