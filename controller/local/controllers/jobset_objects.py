# SPDX-License-Identifier: Apache-2.0
"""What a JobSet makes and means: its Jobs and other objects, its defaults, and what is refused of it.

Defaults and refusals are those of JobSet's webhooks, under its paths and names. What the schema and the rules of its
CRD refuse is the API server's. Refused is beside that what would never run or end, with JobSet's reasons and fields and
sentences of our own. The handlers answer reviews with documents instead of models. They are added to a `WebhookServer`,
or called by an API server in the same process.

Sources: JobSet 0.12.0 with its default feature gates; https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trainwright.api.conditions import is_true
from trainwright.api.names import NameRule, dns_label_1035, dns_subdomain
from trainwright.api.objects import (
    Document,
    annotations_of,
    conditions_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.controller.local.controllers.objects import CLAIM, JOB, JOBSET, SERVICE
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.runtime import ErrorCause, Terminal, nesting
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.runtime.webhook.jsonpatch import json_patch
from trainwright.controller.runtime.webhook.review import ReviewRequest, ReviewResponse, passed_through

PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = PREFIX + "jobset-name"
REPLICATED_JOB = PREFIX + "replicatedjob-name"
RESTART_ATTEMPT = PREFIX + "restart-attempt"
COORDINATOR = PREFIX + "coordinator"
PRIORITY = PREFIX + "priority"
MANAGED_BY_US = "jobset.sigs.k8s.io/jobset-controller"

COMPLETED, FAILED, SUSPENDED = "Completed", "Failed", "Suspended"
RESTARTING = "RestartingJobSet"
STARTUP_IN_PROGRESS, STARTUP_COMPLETED = "StartupPolicyInProgress", "StartupPolicyCompleted"


def replicated_jobs_of(jobset: Document) -> list[Document]:
    return spec_of(jobset).get("replicatedJobs") or []


def replicas_of(replicated: Document) -> int:
    replicas = replicated.get("replicas")
    return 1 if replicas is None else int(replicas)


def job_name(jobset: Document, replicated: Document, index: int) -> str:
    return f"{name_of(jobset)}-{replicated.get('name')}-{index}"


def subdomain_of(jobset: Document) -> str:
    """The name of the headless Service, and the domain in which the pods have their names."""
    return str((spec_of(jobset).get("network") or {}).get("subdomain") or name_of(jobset))


def has_host_names(jobset: Document) -> bool:
    return bool((spec_of(jobset).get("network") or {}).get("enableDNSHostnames"))


def coordinator_endpoint(jobset: Document) -> str:
    """The DNS name of the coordinator's pod. The JobSet must name a coordinator."""
    coordinator = spec_of(jobset)["coordinator"]
    numbers = f"{coordinator.get('jobIndex') or 0}-{coordinator.get('podIndex') or 0}"
    return f"{name_of(jobset)}-{coordinator.get('replicatedJob')}-{numbers}.{subdomain_of(jobset)}"


def claim_name(jobset: Document, template: Document) -> str:
    return f"{name_of(template)}-{name_of(jobset)}"


def claim_templates_of(jobset: Document) -> list[Document]:
    policies = spec_of(jobset).get("volumeClaimPolicies") or ()
    return [template for policy in policies for template in policy.get("templates") or ()]


def restarts_of(jobset: Document) -> int:
    """How often the JobSet was restarted: the number of its current attempt."""
    return int(status_of(jobset).get("restarts") or 0)


def is_suspended(obj: Document) -> bool:
    return bool(spec_of(obj).get("suspend"))


def job_of(jobset: Document, replicated: Document, index: int) -> Document:
    """A Job of the current attempt."""
    template = replicated.get("template") or {}
    spec = deepcopy(spec_of(template))
    pod_template = spec.setdefault("template", {})
    pod_metadata = pod_template.setdefault("metadata", {})
    pod_spec = pod_template.setdefault("spec", {})
    metadata = {
        **_described(jobset, replicated, index, template.get("metadata") or {}),
        "name": job_name(jobset, replicated, index),
        "namespace": namespace_of(jobset),
        "ownerReferences": [owner_reference(jobset, JOBSET)],
    }
    pod_metadata |= _described(jobset, replicated, index, pod_metadata)
    if has_host_names(jobset):
        pod_spec["subdomain"] = subdomain_of(jobset)
    spec["suspend"] = is_suspended(jobset)
    _add_volumes(jobset, pod_spec)
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec}


def service_of(jobset: Document) -> Document:
    """The headless Service that gives the pods their names."""
    published = (spec_of(jobset).get("network") or {}).get("publishNotReadyAddresses")
    spec: Document = {"clusterIP": "None", "selector": {JOBSET_NAME: name_of(jobset)}}
    if published is None or published:
        spec["publishNotReadyAddresses"] = True
    metadata = {
        "name": subdomain_of(jobset),
        "namespace": namespace_of(jobset),
        "ownerReferences": [owner_reference(jobset, JOBSET)],
    }
    return {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": metadata, "spec": spec}


def claims_of(jobset: Document) -> list[Document]:
    """The volume claims of `spec.volumeClaimPolicies`. Those that are kept have no owner."""
    claims = []
    for policy in spec_of(jobset).get("volumeClaimPolicies") or ():
        kept = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
        for template in policy.get("templates") or ():
            given = template.get("metadata") or {}
            metadata: Document = {
                "name": claim_name(jobset, template),
                "namespace": namespace_of(jobset),
                "labels": {**(given.get("labels") or {}), JOBSET_NAME: name_of(jobset)},
            }
            if given.get("annotations"):
                metadata["annotations"] = dict(given["annotations"])
            if not kept:
                metadata["ownerReferences"] = [owner_reference(jobset, JOBSET)]
            spec = deepcopy(spec_of(template))
            claims.append({"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": spec})
    return claims


def _add_volumes(jobset: Document, pod_spec: Document) -> None:
    """Add the claims that a container of the pod mounts to the volumes of the pod."""
    containers = [*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ())]
    mounted = {mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()}
    templates = [template for template in claim_templates_of(jobset) if name_of(template) in mounted]
    if templates:
        pod_spec["volumes"] = [
            *(pod_spec.get("volumes") or ()),
            *({"name": name_of(t), "persistentVolumeClaim": {"claimName": claim_name(jobset, t)}} for t in templates),
        ]


def _described(jobset: Document, replicated: Document, index: int, given: Document) -> Document:
    """Metadata with the labels that tell where in the JobSet a Job or a pod is, and the same as annotations."""
    group = str(replicated.get("groupName") or "")
    jobs = replicated_jobs_of(jobset)
    grouped = [one for one in jobs if str(one.get("groupName") or "") == group]
    job = f"{namespace_of(jobset)}/{job_name(jobset, replicated, index)}"
    names = {
        "jobset-name": name_of(jobset),
        "jobset-uid": uid_of(jobset),
        "replicatedjob-name": str(replicated.get("name")),
        "restart-attempt": str(restarts_of(jobset)),
        "replicatedjob-replicas": str(replicas_of(replicated)),
        "global-replicas": str(sum(map(replicas_of, jobs))),
        "job-index": str(index),
        "job-key": hashlib.sha1(job.encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": str(_before(jobs, replicated) + index),
        "group-name": group,
        "group-replicas": str(sum(map(replicas_of, grouped))),
        "job-group-index": str(_before(grouped, replicated) + index),
    }
    place = {f"{PREFIX}{name}": value for name, value in names.items()}
    if spec_of(jobset).get("coordinator"):
        place[COORDINATOR] = coordinator_endpoint(jobset)
    annotations = {**(given.get("annotations") or {}), **place}
    return {"labels": {**(given.get("labels") or {}), **place}, "annotations": annotations}


def _before(replicated: list[Document], one: Document) -> int:
    """The number of Jobs of the replicated jobs before this one."""
    names = [other.get("name") for other in replicated]
    return sum(map(replicas_of, replicated[: names.index(one.get("name"))]))


@dataclass
class Children:
    active: list[Document] = field(default_factory=list)
    successful: list[Document] = field(default_factory=list)
    failed: list[Document] = field(default_factory=list)
    previous: list[Document] = field(default_factory=list)
    """Of an earlier attempt: to be deleted."""

    @classmethod
    def of(cls, jobset: Document, jobs: Iterable[Document]) -> "Children":
        """Sort the Jobs. Raises Terminal if the attempt of a Job cannot be read."""
        children = cls()
        for job in sorted(jobs, key=name_of):
            attempt = labels_of(job).get(RESTART_ATTEMPT, "")
            if not attempt.isdecimal():
                raise Terminal(f"Job {name_of(job)}: label {RESTART_ATTEMPT} must be a number, not {attempt!r}")
            if int(attempt) < restarts_of(jobset):
                children.previous.append(job)
            elif is_true(conditions_of(job), "Failed"):
                children.failed.append(job)
            elif is_true(conditions_of(job), "Complete"):
                children.successful.append(job)
            else:
                children.active.append(job)
        return children

    def names(self) -> set[str]:
        return {name_of(job) for part in (self.active, self.successful, self.failed, self.previous) for job in part}


_JOB_TEMPLATE, _CLAIM = "io.k8s.api.batch.v1.JobTemplateSpec", "io.k8s.api.core.v1.PersistentVolumeClaim"

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
        if not pod.get("restartPolicy"):
            pod["restartPolicy"] = "OnFailure"
        _write(replicated["template"], _JOB_TEMPLATE)
    network = _part(spec, "network")
    _fill(network, "enableDNSHostnames", True)
    _fill(network, "publishNotReadyAddresses", True)
    for index, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{index}"
    for policy in spec.get("volumeClaimPolicies") or ():
        _fill(policy, "retentionPolicy", {"whenDeleted": "Delete"})
        for template in policy.get("templates") or ():
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
    found: list[Document] = msgspec.json.decode(Path(__file__).with_name("jobset_webhooks.json").read_bytes())
    return found


def _document(raw: msgspec.Raw) -> Document | None:
    document: Any = nesting.decode(_DECODER, raw)
    return document if isinstance(document, dict) else None
