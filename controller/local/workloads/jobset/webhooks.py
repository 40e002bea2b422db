# SPDX-License-Identifier: Apache-2.0
"""JobSet's webhooks under its own paths and names, for documents instead of models.

The handlers answer reviews. They are added to a `WebhookServer`, or called by an API server in the same process.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from trainwright.api.objects import Document, name_of
from trainwright.controller.local.workloads.invalid import refusal
from trainwright.controller.local.workloads.jobset.defaulting import default, default_pod
from trainwright.controller.local.workloads.jobset.placement import Followers, Misplaced
from trainwright.controller.local.workloads.jobset.validation import KIND, validate
from trainwright.controller.local.workloads.kinds import JOBSET, POD
from trainwright.controller.runtime import (
    AdmissionHandler,
    Client,
    ReviewRequest,
    ReviewResponse,
    json_patch,
    nesting,
    passed_through,
)

MUTATE_JOBSET = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_JOBSET = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
MUTATE_POD = "/mutate--v1-pod"
VALIDATE_POD = "/validate--v1-pod"
_SERVICE = {"name": "jobset-webhook-service", "namespace": "jobset-system"}
_DECODER = msgspec.json.Decoder()
_OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


class JobSetDefaulting:
    """Answers with the changes that a defaulter makes."""

    def __init__(self, defaulter: Callable[[Document], Awaitable[None]]) -> None:
        """`defaulter` changes the document in place."""
        self._defaulter = defaulter

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Default the object of a review; deletions have none."""
        before, after = _document(review.object), _document(review.object)
        if before is None or after is None:
            return ReviewResponse(allowed=True)
        try:
            await self._defaulter(after)
        except Misplaced as error:
            return _refused(error)
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


class ValidatingPods:
    """Refuses pods that would be in the wrong topology domain."""

    def __init__(self, followers: Followers) -> None:
        """`followers` finds out where a pod has to be."""
        self._followers = followers

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Check the new object of a review."""
        pod = _document(review.object)
        try:
            if pod is not None and review.operation == "CREATE":
                await self._followers.check(pod)
        except Misplaced as error:
            return _refused(error)
        return ReviewResponse(allowed=True)


def handlers(client: Client) -> dict[str, AdmissionHandler]:
    """The handlers by path. They look up pods and nodes through `client`."""
    followers = Followers(client)

    async def default_jobset(jobset: Document) -> None:
        default(jobset)

    async def place_pod(pod: Document) -> None:
        default_pod(pod)
        await followers.follow(pod)

    return {
        MUTATE_JOBSET: JobSetDefaulting(default_jobset),
        VALIDATE_JOBSET: ValidatingJobSets(),
        MUTATE_POD: JobSetDefaulting(place_pod),
        VALIDATE_POD: ValidatingPods(followers),
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
            _webhook("vpod.kb.io", VALIDATE_POD, POD.group, POD.version, POD.plural, ["CREATE"], _OF_JOBSETS),
        ),
    )


def _refused(error: Misplaced) -> ReviewResponse:
    """As controller-runtime answers an error without a status of its own."""
    return ReviewResponse(allowed=False, code=403, reason="Forbidden", message=str(error))


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
