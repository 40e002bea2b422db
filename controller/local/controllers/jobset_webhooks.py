# SPDX-License-Identifier: Apache-2.0
"""JobSet's webhooks under its own paths and names: its defaults, and what it refuses.

What the schema and the rules of its CRD refuse is the API server's. Refused is beside that what would never run or
end. Refusals have JobSet's reasons and fields; the sentences are our own.

The handlers answer reviews with documents instead of models. They are added to a `WebhookServer`, or called by an API
server in the same process.

Source: JobSet 0.12.0 with its default feature gates.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.names import NameRule, dns_label_1035, dns_subdomain
from trainwright.api.objects import Document, annotations_of, labels_of, name_of, spec_of
from trainwright.controller.local.controllers.jobset_objects import (
    JOBSET_NAME,
    PRIORITY,
    is_suspended,
    job_name,
    replicas_of,
    replicated_jobs_of,
)
from trainwright.controller.local.controllers.objects import JOBSET
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.runtime import ErrorCause, nesting
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.runtime.webhook.jsonpatch import json_patch
from trainwright.controller.runtime.webhook.review import ReviewRequest, ReviewResponse, passed_through

_JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"

# ---------------------------------------------------------------------- defaults


def default(jobset: Document) -> None:
    """Set the defaults of a new JobSet. Its schema was not checked before: a part may be of another JSON type."""
    spec: Document = jobset.setdefault("spec", {})
    _fill(spec, "successPolicy", {"operator": "All"})
    _fill(spec, "startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in spec.get("replicatedJobs") or ():
        job = _part(_part(replicated, "template"), "spec")
        _fill(job, "completionMode", "Indexed")
        pod = _part(_part(job, "template"), "spec")
        for template in (replicated["template"], job["template"]):
            _fill(template, "metadata", {})
        if not pod.get("restartPolicy"):
            pod["restartPolicy"] = "OnFailure"
    network = _part(spec, "network")
    _fill(network, "enableDNSHostnames", True)
    _fill(network, "publishNotReadyAddresses", True)
    for index, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        _fill(policy, "retentionPolicy", {"whenDeleted": "Delete"})


def default_pod(pod: Document) -> None:
    """Label a new pod of a JobSet with its priority; does nothing to other pods."""
    priority = spec_of(pod).get("priority")
    if JOBSET_NAME in annotations_of(pod) and priority is not None:
        pod["metadata"]["labels"] = {**labels_of(pod), PRIORITY: str(priority)}


def _fill(document: Document, name: str, value: object) -> None:
    if document.get(name) is None:
        document[name] = value


def _part(document: Document, name: str) -> Document:
    """An object inside a document, made if it is absent or null."""
    _fill(document, name, {})
    found: Document = document[name]
    return found


# ---------------------------------------------------------------------- refusals

_MUTABLE = {"metadata": ("annotations", "labels"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}
"""Parts of a pod template that can change while the JobSet is suspended."""


def validate(new: Document, old: Document | None) -> list[DocumentError]:
    return list(_errors(new) if old is None else _errors_of_change(new, old))


def _invalid(field: str, detail: str) -> DocumentError:
    return DocumentError("FieldValueInvalid", field, f"Invalid value: {detail}")


def _general(detail: str) -> DocumentError:
    """An error that JobSet reports of no field. It comes out as an internal error of the field `<nil>`."""
    return DocumentError("InternalError", "<nil>", f"Internal error: {detail}")


def _misnamed(field: str, name: str, *rules: NameRule) -> Iterator[DocumentError]:
    return (_invalid(field, f'"{name}" {error}') for rule in rules for error in rule(name))


def _errors(jobset: Document) -> Iterator[DocumentError]:
    spec, jobs = spec_of(jobset), replicated_jobs_of(jobset)
    policy = spec.get("failurePolicy") or {}
    rules = policy.get("rules") or ()
    if policy.get("restartStrategy") == "InPlaceRestart":
        yield _general("the restart strategy InPlaceRestart needs a feature gate that is off")
    if any(rule.get("action") in ("RestartJob", "RestartJobAndIgnoreMaxRestarts") for rule in rules):
        yield _general("the actions RestartJob and RestartJobAndIgnoreMaxRestarts need a feature gate that is off")
    if jobs and jobs[0].get("dependsOn"):
        yield _general("the first replicated job cannot depend on another one")
    if subdomain := (spec.get("network") or {}).get("subdomain"):
        yield from _misnamed("spec.network.subdomain", subdomain, dns_subdomain, dns_label_1035)
    known: set[str] = set()
    for index, replicated in enumerate(jobs):
        known.add(str(replicated.get("name")))
        yield from _errors_of_job(jobset, f"spec.replicatedJobs[{index}]", replicated, known)
    for part in (spec.get("successPolicy") or {}, *rules):
        for target in part.get("targetReplicatedJobs") or ():
            if target not in known:
                yield _general(f"the success policy or a rule names {target}, which is not a replicated job")


def _errors_of_job(jobset: Document, field: str, replicated: Document, known: set[str]) -> Iterator[DocumentError]:
    name, job = str(replicated.get("name")), spec_of(replicated.get("template") or {})
    longest = job_name(jobset, replicated, replicas_of(replicated) - 1)
    yield from _misnamed(f"{field}.name", longest, dns_label_1035)
    if job.get("completionMode") == "Indexed" and (completions := job.get("completions")) is not None:
        yield from _misnamed(f"{field}.name", f"{longest}-{int(completions) - 1}-abcde", dns_label_1035)
    for dependency in replicated.get("dependsOn") or ():
        if dependency.get("name") not in known:
            yield _general(f"the replicated job {name} cannot depend on {dependency.get('name')}: it must come before")


def _errors_of_change(new: Document, old: Document) -> Iterator[DocumentError]:
    suspended = is_suspended(old) or is_suspended(new)
    if _compared(new, suspended) != _compared(old, suspended):
        yield _invalid("spec.replicatedJobs", "field is immutable")
    if spec_of(new).get("managedBy") != spec_of(old).get("managedBy"):
        yield _invalid("spec.managedBy", "field is immutable")


def _compared(jobset: Document, suspended: bool) -> list[Document]:
    """The replicated jobs as Go compares them: without what is empty, and with quantities in one form."""
    replicated_jobs = deepcopy(replicated_jobs_of(jobset))
    for replicated in replicated_jobs:
        template = _part(replicated, "template")
        normalize(template, _JOB_TEMPLATE)
        pods = _part(_part(template, "spec"), "template")
        for part, fields in _MUTABLE.items() if suspended else ():
            for name in fields:
                _part(pods, part).pop(name, None)
    return [{name: part for name, part in one.items() if part not in (None, [])} for one in replicated_jobs]


# ---------------------------------------------------------------------- reviews

MUTATE_JOBSET = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
VALIDATE_JOBSET = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
MUTATE_POD = "/mutate--v1-pod"
_DECODER = msgspec.json.Decoder()


class JobSetDefaulting:
    """Answers with the changes that a defaulter makes."""

    def __init__(self, defaulter: Callable[[Document], None]) -> None:
        """`defaulter` changes the document in place."""
        self._defaulter = defaulter

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        before, after = _document(review.object), _document(review.object)
        if before is None or after is None:
            return ReviewResponse(allowed=True)
        try:
            self._defaulter(after)
        except (AttributeError, KeyError, TypeError) as error:
            message = f"a part of the {before.get('kind')} is of another JSON type than its schema says: {error}"
            return ReviewResponse(allowed=False, code=400, message=message)
        return ReviewResponse(allowed=True, patch=tuple(json_patch(before, after)))


class ValidatingJobSets:
    """Answers with all errors of a JobSet."""

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        new, old = _document(review.object), _document(review.old_object)
        errors = validate(new, old) if new is not None else []
        if new is None or not errors:
            return ReviewResponse(allowed=True)
        text = f'{JOBSET.kind}.{JOBSET.group} "{name_of(new)}" is invalid: {"; ".join(map(str, errors))}'
        causes = tuple(ErrorCause(error.reason, error.field, error.message) for error in errors)
        return passed_through(Invalid(text, code=Invalid.code, reason="Invalid", causes=causes))


HANDLERS: Mapping[str, AdmissionHandler] = {
    MUTATE_JOBSET: JobSetDefaulting(default),
    VALIDATE_JOBSET: ValidatingJobSets(),
    MUTATE_POD: JobSetDefaulting(default_pod),
}
"""The handlers by path."""


def configurations() -> list[Document]:
    """The mutating and the validating configuration of an installation of JobSet, without exclusive placement."""
    found: list[Document] = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes())
    return found


def _document(raw: msgspec.Raw) -> Document | None:
    document: Any = nesting.decode(_DECODER, raw)
    return document if isinstance(document, dict) else None
