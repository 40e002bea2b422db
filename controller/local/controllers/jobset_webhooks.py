# SPDX-License-Identifier: Apache-2.0
"""JobSet's webhooks under its own paths and names: its defaults, and what it refuses.

What the schema and the rules of its CRD refuse is the API server's. Refusals have JobSet's reasons and fields; the
sentences are our own. Not checked are the form of `managedBy`, names of rules and counts beyond 32 bits.

The handlers answer reviews with documents instead of models. They are added to a `WebhookServer`, or called by an API
server in the same process.

Source: JobSet 0.12.0 with its default feature gates.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from trainwright.api.names import NameRule, dns_label_1035, dns_subdomain, label_value
from trainwright.api.objects import Document, annotations_of, labels_of, name_of, spec_of
from trainwright.controller.local.controllers.jobset_objects import (
    COORDINATOR,
    JOBSET_NAME,
    PRIORITY,
    claim_name,
    coordinator_endpoint,
    is_suspended,
    job_name,
    replicas_of,
    replicated_jobs_of,
)
from trainwright.controller.local.controllers.objects import JOBSET, POD
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.runtime import ErrorCause, nesting
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.runtime.webhook.jsonpatch import json_patch
from trainwright.controller.runtime.webhook.review import ReviewRequest, ReviewResponse, passed_through

_JOB_TEMPLATE, _CLAIM = "io.k8s.api.batch.v1.JobTemplateSpec", "io.k8s.api.core.v1.PersistentVolumeClaim"

# ---------------------------------------------------------------------- defaults


class MisshapenError(Exception):
    """A part of a JobSet is not of the JSON type that JobSet reads; says which part."""


def default(jobset: Document) -> None:
    """Set the defaults of a new JobSet. Raises MisshapenError: its schema was not checked before."""
    spec = _part(jobset, "spec")
    _fill(spec, "successPolicy", {"operator": "All"})
    _fill(spec, "startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    for replicated in _parts(spec, "replicatedJobs"):
        job = _part(_part(replicated, "template"), "spec")
        _fill(job, "completionMode", "Indexed")
        pod = _part(_part(job, "template"), "spec")
        if not pod.get("restartPolicy"):
            pod["restartPolicy"] = "OnFailure"
        _write(replicated["template"], _JOB_TEMPLATE)
    network = _part(spec, "network")
    _fill(network, "enableDNSHostnames", True)
    _fill(network, "publishNotReadyAddresses", True)
    rules = _parts(_part(spec, "failurePolicy"), "rules") if spec.get("failurePolicy") is not None else ()
    for index, rule in enumerate(rules):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"
    for policy in _parts(spec, "volumeClaimPolicies"):
        _fill(policy, "retentionPolicy", {"whenDeleted": "Delete"})
        for template in _parts(policy, "templates"):
            _write(template, _CLAIM)


def default_pod(pod: Document) -> None:
    """Label a new pod of a JobSet with its priority; does nothing to other pods."""
    priority = spec_of(pod).get("priority")
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
            _restore(made.setdefault(name, value), value)
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
    return _object(document[name], name)


def _parts(document: Document, name: str) -> list[Document]:
    """The objects of a list inside a document: none if it is absent or null."""
    listed = document.get(name)
    if not isinstance(listed, list | None):
        raise MisshapenError(f"{name} must be a list")
    return [_object(one, f"each of {name}") for one in listed or ()]


def _object(part: Any, name: str) -> Document:
    if not isinstance(part, dict):
        raise MisshapenError(f"{name} must be an object")
    return part


# ---------------------------------------------------------------------- refusals

_LABEL_LENGTH = 63
_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_MUTABLE = {"metadata": ("annotations", "labels"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}
"""Parts of a pod template that can change while the JobSet is suspended."""


def validate(new: Document, old: Document | None) -> list[DocumentError]:
    """All errors of a new JobSet, or of a change of one."""
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
    if policy.get("restartStrategy") == "InPlaceRestart":
        yield _general("the restart strategy InPlaceRestart needs a feature gate that is off")
    if jobs and jobs[0].get("dependsOn"):
        yield _general("the first replicated job cannot depend on another one")
    if subdomain := (spec.get("network") or {}).get("subdomain"):
        yield from _misnamed("spec.network.subdomain", subdomain, dns_subdomain, dns_label_1035)
    known: set[str] = set()
    for index, replicated in enumerate(jobs):
        known.add(str(replicated.get("name")))
        yield from _errors_of_job(jobset, f"spec.replicatedJobs[{index}]", replicated, known)
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or ():
        if target not in known:
            yield _general(f"the success policy names {target}, which is not a replicated job")
    yield from _errors_of_failure_policy(policy.get("rules") or (), known)
    if spec.get("coordinator") is not None:
        yield from _errors_of_coordinator(jobset, spec["coordinator"])
    yield from _errors_of_claims(jobset)


def _errors_of_job(jobset: Document, field: str, replicated: Document, known: set[str]) -> Iterator[DocumentError]:
    name, replicas = str(replicated.get("name")), replicas_of(replicated)
    job = spec_of(replicated.get("template") or {})
    completions = job.get("completions")
    yield from _misnamed(f"{field}.groupName", str(replicated.get("groupName") or ""), dns_label_1035)
    longest = job_name(jobset, replicated, replicas - 1)
    yield from _misnamed(f"{field}.name", longest, dns_label_1035)
    if job.get("completionMode") == "Indexed" and completions is not None:
        yield from _misnamed(f"{field}.name", f"{longest}-{int(completions) - 1}-abcde", dns_label_1035)
    for dependency in replicated.get("dependsOn") or ():
        if dependency.get("name") not in known:
            yield _general(f"the replicated job {name} cannot depend on {dependency.get('name')}: it must come before")


def _errors_of_failure_policy(rules: Sequence[Document], known: set[str]) -> Iterator[DocumentError]:
    if any(rule.get("action") in ("RestartJob", "RestartJobAndIgnoreMaxRestarts") for rule in rules):
        yield _general("the actions RestartJob and RestartJobAndIgnoreMaxRestarts need a feature gate that is off")
        return
    names = [str(rule.get("name") or "") for rule in rules]
    for name, rule in zip(names, rules, strict=True):
        for target in rule.get("targetReplicatedJobs") or ():
            if target not in known:
                yield _general(f"the failure policy rule {name} names {target}, which is not a replicated job")
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in _REASONS:
                yield _general(f"the failure policy rule {name} has {reason}: the reasons are {', '.join(_REASONS)}")
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield _general(f"{names.count(name)} failure policy rules have the name '{name}'")


def _errors_of_coordinator(jobset: Document, coordinator: Document) -> Iterator[DocumentError]:
    name, job_index = coordinator.get("replicatedJob"), int(coordinator.get("jobIndex") or 0)
    replicated = next((r for r in replicated_jobs_of(jobset) if r.get("name") == name), None)
    job = spec_of((replicated or {}).get("template") or {})
    if replicated is None:
        yield _general(f"the coordinator's replicated job {name} does not exist")
    elif not 0 <= job_index < replicas_of(replicated):
        yield _general(f"the replicated job {name} has no Job with the coordinator's index {job_index}")
    elif job.get("completionMode") != "Indexed" or job.get("completions") is None:
        yield _general(f"the replicated job {name} of the coordinator must be Indexed and have completions")
    elif not 0 <= int(coordinator.get("podIndex") or 0) < int(job["completions"]):
        yield _general(f"a Job of {name} has no pod with the coordinator's index {coordinator.get('podIndex')}")
    endpoint = coordinator_endpoint(jobset)
    if errors := label_value(endpoint):
        yield _general(f"the label {COORDINATOR} would be {endpoint}: {', '.join(errors)}")


def _errors_of_claims(jobset: Document) -> Iterator[DocumentError]:
    known: set[str] = set()
    pods = [spec_of(spec_of(r.get("template") or {}).get("template") or {}) for r in replicated_jobs_of(jobset)]
    containers = [one for pod in pods for part in ("initContainers", "containers") for one in pod.get(part) or ()]
    mounted = {mount.get("name") for one in containers for mount in one.get("volumeMounts") or ()}
    for p, policy in enumerate(spec_of(jobset).get("volumeClaimPolicies") or ()):
        for t, template in enumerate(policy.get("templates") or ()):
            field, name = f"spec.volumeClaimPolicies[{p}].template[{t}].name", name_of(template)
            if name in known:
                yield _invalid(field, f'two templates have the name "{name}"')
            known.add(name)
            yield from _misnamed(field, name, dns_subdomain)
            if len(claim_name(jobset, template)) > _LABEL_LENGTH:
                yield _invalid(field, f'the claim "{claim_name(jobset, template)}" would have too long a name')
            for index, pod in enumerate(pods):
                for v, volume in enumerate(pod.get("volumes") or ()):
                    if volume.get("name") == name:
                        place = f"spec.replicatedJobs[{index}].template.spec.template.spec.volumes[{v}].name"
                        yield _invalid(place, f'the volume claim template "{name}" has that name')
            if name not in mounted:
                yield _invalid("spec.replicatedJobs", f'no container mounts the volume claim template "{name}"')


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
        """Default the object of a review; deletions have none."""
        before, after = _document(review.object), _document(review.object)
        if before is None or after is None:
            return ReviewResponse(allowed=True)
        try:
            self._defaulter(after)
        except MisshapenError as error:
            return ReviewResponse(allowed=False, code=400, message=str(error))
        return ReviewResponse(allowed=True, patch=tuple(json_patch(before, after)))


class ValidatingJobSets:
    """Answers with all errors of a JobSet."""

    async def answer(self, review: ReviewRequest) -> ReviewResponse:
        """Validate the object of a review; deletions are allowed."""
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


def configurations() -> tuple[Document, ...]:
    """The mutating and the validating configuration of an installation of JobSet, without exclusive placement."""

    def webhook(name: str, path: str, kind: Any, *operations: str, **selector: Document) -> Document:
        rule = {"apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural]}
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "jobset-webhook-service", "namespace": "jobset-system", "path": path}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{**rule, "operations": list(operations)}],
            **selector,
        }

    def configuration(kind: str, name: str, *webhooks: Document) -> Document:
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        return {**head, "webhooks": list(webhooks)}

    of_jobsets = {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]}
    return (
        configuration(
            "MutatingWebhookConfiguration",
            "jobset-mutating-webhook-configuration",
            webhook("mjobset.kb.io", MUTATE_JOBSET, JOBSET, "CREATE"),
            webhook("mpod.kb.io", MUTATE_POD, POD, "CREATE", objectSelector=of_jobsets),
        ),
        configuration(
            "ValidatingWebhookConfiguration",
            "jobset-validating-webhook-configuration",
            webhook("vjobset.kb.io", VALIDATE_JOBSET, JOBSET, "CREATE", "UPDATE"),
        ),
    )


def _document(raw: msgspec.Raw) -> Document | None:
    document: Any = nesting.decode(_DECODER, raw)
    return document if isinstance(document, dict) else None
