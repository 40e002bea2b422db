# SPDX-License-Identifier: Apache-2.0
"""JobSet's webhooks under its own paths and names, for documents instead of models.

The handlers answer reviews. They are added to a `WebhookServer`, or called by an API server in the same process.
"""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import msgspec

from trainwright.api.objects import Document, annotations_of, labels_of, name_of
from trainwright.controller.local.controllers.job_pods import COMPLETION_INDEX
from trainwright.controller.local.controllers.jobset_objects import (
    EXCLUSIVE,
    JOB_KEY,
    JOBSET_NAME,
    NODE_SELECTOR_STRATEGY,
    PRIORITY,
)
from trainwright.controller.local.controllers.jobset_placement import Followers, Misplaced
from trainwright.controller.local.controllers.jobset_validation import KIND, refusal, validate
from trainwright.controller.local.controllers.objects import JOBSET, POD, spec_of
from trainwright.controller.local.gowriting import rewrite
from trainwright.controller.runtime import (
    AdmissionHandler,
    Client,
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
        _write(replicated["template"], "batch/v1.JobTemplateSpec")
    network = _part(spec, "network")
    _fill(network, "enableDNSHostnames", True)
    _fill(network, "publishNotReadyAddresses", True)
    for index, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        _fill(policy, "retentionPolicy", {"whenDeleted": "Delete"})
        for template in policy.get("templates") or ():
            _write(template, "core/v1.PersistentVolumeClaim")


def default_pod(pod: Document) -> None:
    """Set the defaults of a new pod; does nothing to pods that belong to no JobSet.

    The first pod of a Job with exclusive placement keeps other Jobs out of its topology domain. What the other pods
    get depends on where the first one is; see `placement`.
    """
    annotations, spec = annotations_of(pod), pod.setdefault("spec", {})
    if JOBSET_NAME not in annotations or NODE_SELECTOR_STRATEGY in annotations:
        return
    if spec.get("priority") is not None:
        metadata = pod["metadata"]
        metadata["labels"] = {**labels_of(pod), PRIORITY: str(spec["priority"])}
    if EXCLUSIVE in annotations and annotations.get(COMPLETION_INDEX) == "0":
        _keep_others_out(pod)


def _keep_others_out(pod: Document) -> None:
    labels, topology = labels_of(pod), annotations_of(pod)[EXCLUSIVE]
    own = {"key": JOB_KEY, "operator": "In", "values": [labels.get(JOB_KEY, "")]}
    others = [
        {"key": JOB_KEY, "operator": "Exists"},
        {**own, "operator": "NotIn"},
        {"key": PRIORITY, "operator": "In", "values": [labels.get(PRIORITY, "")]},
    ]
    affinity = _part(spec_of(pod), "affinity")
    for kind, expressions in (("podAffinity", [own]), ("podAntiAffinity", others)):
        part = _part(affinity, kind)
        required = part.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        term = {
            "labelSelector": {"matchExpressions": expressions},
            "topologyKey": topology,
            "namespaceSelector": {},
        }
        part["requiredDuringSchedulingIgnoredDuringExecution"] = [*required, term]


def _write(part: Document, struct: str) -> None:
    """Bring a part into the form in which JobSet's webhook sends it back, in place.

    It decodes a JobSet into a Go struct and encodes that. What the struct has no place for, and what it would leave
    out, stays as it was: controller-runtime drops such removals from the patch.
    """
    before = deepcopy(part)
    rewrite(part, struct)
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
