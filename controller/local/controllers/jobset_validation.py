# SPDX-License-Identifier: Apache-2.0
"""What JobSet's webhook refuses, with its texts. What the CRD's schema and rules refuse is the API server's.

Known difference: an error of an immutable field shows the value as it was sent, where JobSet shows it with the fields
that Go adds.

Source: JobSet 0.12.0 with its default feature gates.
"""

import json
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from trainwright.api import names
from trainwright.api.names import dns_label_1035, dns_subdomain, label_value
from trainwright.api.objects import Document, name_of, spec_of
from trainwright.api.quantity import equal
from trainwright.controller.local.controllers.jobset_objects import (
    COORDINATOR,
    claim_name,
    coordinator_endpoint,
    is_suspended,
    job_name,
    replicas_of,
    replicated_jobs_of,
)
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.runtime import ErrorCause, Invalid

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
LABEL_LENGTH = 63
TOO_LONG_LABEL = f"must be no more than {LABEL_LENGTH} characters"


def wrong(field: str, value: Any, detail: str) -> DocumentError:
    """A value that is not allowed."""
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return DocumentError("FieldValueInvalid", field, f"Invalid value: {shown}: {detail}")


def general(detail: str) -> DocumentError:
    """An error that JobSet reports of no field. It comes out as an internal error of the field `<nil>`."""
    return DocumentError("InternalError", "<nil>", f"Internal error: {detail}")


def refusal(kind: str, name: str, errors: Iterable[DocumentError]) -> Invalid | None:
    """The error with status 422 for all of them; None if there are none. `kind` is the kind with its group."""
    found = tuple(errors)
    if not found:
        return None
    texts = list(dict.fromkeys(map(str, found)))
    together = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(
        f'{kind} "{name}" is invalid: {together}',
        code=Invalid.code,
        reason="Invalid",
        causes=tuple(ErrorCause(error.reason, error.field, error.message) for error in found),
    )


def prefixed_path_errors(field: str, value: str) -> list[DocumentError]:
    """What keeps a value from being a path with a domain before it, such as `acme.io/foo`."""
    if not value:
        return [DocumentError("FieldValueRequired", field, "Required value")]
    host, _, path = value.partition("/")
    if not host or not path:
        return [wrong(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [wrong(field, host, error) for error in names.dns_subdomain(host)]
    if not re.fullmatch(_HTTP_PATH, path):
        errors.append(wrong(field, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors


KIND = "JobSet.jobset.x-k8s.io"
_MOST = 2**31 - 1
_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy")
_RULE_NAME = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_RULE_NAME_LENGTH = 128
_MANAGER_LENGTH = 63
_MUTABLE = {"metadata": ("annotations", "labels"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}
"""Parts of a pod template that can change while the JobSet is suspended."""
_QUANTITIES = ("limits", "requests")
_VALUES = frozenset(
    {"metadata", "labels", "annotations", "nodeSelector", "resources", "spec", "template", *_QUANTITIES}
)
"""Maps, and structs that Go holds by value: empty ones are as good as absent."""


def validate(new: Document, old: Document | None) -> list[DocumentError]:
    """All errors of a new JobSet, or of a change of one."""
    return list(_of_creation(new) if old is None else _of_change(new, old))


# ---------------------------------------------------------------------- creation


def _of_creation(jobset: Document) -> Iterator[DocumentError]:
    spec = spec_of(jobset)
    replicated_jobs = replicated_jobs_of(jobset)
    policy = spec.get("failurePolicy")
    if policy is not None and policy.get("restartStrategy") == "InPlaceRestart":
        yield general("InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled")
    if replicated_jobs and replicated_jobs[0].get("dependsOn"):
        yield general("DependsOn can't be set for the first ReplicatedJob")
    yield from _of_subdomain(str((spec.get("network") or {}).get("subdomain") or ""))
    if spec.get("managedBy") is not None:
        yield from prefixed_path_errors("spec.managedBy", spec["managedBy"])
        if len(spec["managedBy"]) > _MANAGER_LENGTH:
            text = f"Too long: may not be more than {_MANAGER_LENGTH} bytes"
            yield DocumentError("FieldValueTooLong", "spec.managedBy", text)
    known: set[str] = set()
    for index, replicated in enumerate(replicated_jobs):
        known.add(str(replicated.get("name")))
        yield from _of_replicated_job(jobset, index, replicated, known)
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or ():
        if target not in known:
            yield general(f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs")
    if policy is not None:
        yield from _of_failure_policy(policy, known)
    if spec.get("coordinator") is not None:
        yield from _of_coordinator(jobset, spec["coordinator"])
    yield from claim_errors(jobset)


def _of_subdomain(subdomain: str) -> Iterator[DocumentError]:
    field = "spec.network.subdomain"
    too_long = ".spec.network.subdomain is too long, must be less than 63 characters"
    for error in dns_subdomain(subdomain) if subdomain else ():
        yield wrong(field, subdomain, error)
    for error in dns_label_1035(subdomain) if subdomain else ():
        yield wrong(field, subdomain, too_long if error == TOO_LONG_LABEL else error)


def _of_replicated_job(jobset: Document, index: int, replicated: Document, known: set[str]) -> Iterator[DocumentError]:
    field, name = f"spec.replicatedJobs[{index}]", str(replicated.get("name"))
    job = spec_of(replicated.get("template") or {})
    replicas = replicas_of(replicated)
    parallelism = job.get("parallelism")
    if (1 if parallelism is None else int(parallelism)) * replicas > _MOST:
        yield general(f"the product of replicas and parallelism must not exceed {_MOST} for replicatedJob '{name}'")
    group = str(replicated.get("groupName") or "")
    too_long = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    for error in dns_label_1035(group):
        yield wrong(f"{field}.groupName", group, too_long if error == TOO_LONG_LABEL else error)
    longest = job_name(jobset, replicated, replicas - 1)
    too_long = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
    for error in dns_label_1035(longest):
        yield wrong(f"{field}.name", longest, too_long if error == TOO_LONG_LABEL else error)
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        too_long = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
        for error in dns_label_1035(f"{longest}-{int(job['completions']) - 1}-abcde"):
            yield wrong(f"{field}.name", longest, too_long if error == TOO_LONG_LABEL else error)
    for dependency in replicated.get("dependsOn") or ():
        if dependency.get("name") not in known:
            yield general(f"replicatedJob: {name} cannot depend on replicatedJob: {dependency.get('name')}")


def _of_failure_policy(policy: Document, known: set[str]) -> Iterator[DocumentError]:
    rules = policy.get("rules") or []
    if any(rule.get("action") in ("RestartJob", "RestartJobAndIgnoreMaxRestarts") for rule in rules):
        yield general(
            "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when RestartJob"
            " feature gate is disabled"
        )
        return
    places: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        name = str(rule.get("name") or "")
        places.setdefault(name, []).append(index)
        yield from _of_rule(name, rule, known)
    for name, indexes in places.items():
        if len(indexes) > 1:
            shown = " ".join(map(str, indexes))
            yield general(f"rule names are not unique, rules with indices [{shown}] all have the same name '{name}'")


def _of_rule(name: str, rule: Document, known: set[str]) -> Iterator[DocumentError]:
    if not 1 <= len(name) <= _RULE_NAME_LENGTH:
        yield general(
            f"invalid failure policy rule name of length {len(name)}, the rule name must be at least 1 characters long"
            f" and at most {_RULE_NAME_LENGTH} characters long"
        )
    if not re.fullmatch(_RULE_NAME, name):
        yield general(
            f"invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic"
            " character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an"
            " alphanumeric character or '_'"
        )
    for target in rule.get("targetReplicatedJobs") or ():
        if target not in known:
            yield general(
                f"invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs"
            )
    for reason in rule.get("onJobFailureReasons") or ():
        if reason not in _REASONS:
            yield general(
                f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
            )


def _of_coordinator(jobset: Document, coordinator: Document) -> Iterator[DocumentError]:
    error = _wrong_in_coordinator(jobset, coordinator)
    if error is not None:
        yield general(error)
    endpoint = coordinator_endpoint(jobset)
    if errors := label_value(endpoint):
        yield general(
            f'spec will lead to invalid label value "{endpoint}" for coordinator label "{COORDINATOR}" (long'
            f" JobSet / ReplicatedJob / SubDomain name?): {', '.join(errors)}"
        )


def _wrong_in_coordinator(jobset: Document, coordinator: Document) -> str | None:
    name, job_index = coordinator.get("replicatedJob"), int(coordinator.get("jobIndex") or 0)
    pod_index = int(coordinator.get("podIndex") or 0)
    replicated = next((r for r in replicated_jobs_of(jobset) if r.get("name") == name), None)
    if replicated is None:
        return f"coordinator replicatedJob {name} does not exist"
    if not 0 <= job_index < replicas_of(replicated):
        return f"coordinator job index {job_index} is invalid for replicatedJob {name}"
    job = spec_of(replicated.get("template") or {})
    if job.get("completionMode") != "Indexed" or job.get("completions") is None:
        return "job for coordinator pod must be indexed completion mode, and completions number must be set"
    if not 0 <= pod_index < int(job["completions"]):
        return f"coordinator pod index {pod_index} is invalid for replicatedJob {name} job index {job_index}"
    return None


# ---------------------------------------------------------------------- change


def _of_change(new: Document, old: Document) -> Iterator[DocumentError]:
    replicated_jobs = deepcopy(replicated_jobs_of(new))
    before = {r.get("name"): r for r in replicated_jobs_of(old)}
    if is_suspended(old) or is_suspended(new):
        for replicated in replicated_jobs:
            if replicated.get("name") in before:
                _take_mutable_parts(_pod_template(replicated), _pod_template(before[replicated.get("name")]))
    if not _same(replicated_jobs, replicated_jobs_of(old)):
        yield wrong("spec.replicatedJobs", replicated_jobs, "field is immutable")
    manager = spec_of(new).get("managedBy")
    if manager != spec_of(old).get("managedBy"):
        yield wrong("spec.managedBy", manager, "field is immutable")


def _pod_template(replicated: Document) -> Document:
    """The pod template of a replicated job, made where parts of it are absent."""
    part = replicated
    for name in ("template", "spec", "template"):
        part = part.setdefault(name, {})
    return part


def _take_mutable_parts(template: Document, source: Document) -> None:
    for part, fields in _MUTABLE.items():
        for field in fields:
            value = (source.get(part) or {}).get(field)
            if value is not None:
                template.setdefault(part, {})[field] = value
            elif template.get(part):
                template[part].pop(field, None)


def _same(one: Any, other: Any, name: str = "") -> bool:
    """Equality as Kubernetes means it: empty is absent, and quantities are amounts."""
    if _is_empty(one, name) or _is_empty(other, name):
        return _is_empty(one, name) and _is_empty(other, name)
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same(one.get(key), other.get(key), _inside(key, name)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if name in _QUANTITIES:
        try:
            return equal(str(one), str(other))
        except ValueError:
            return False
    return bool(one == other)


def _inside(key: str, name: str) -> str:
    """The name that counts for a value: a map of quantities hands its own down."""
    return name if name in _QUANTITIES else key


def _is_empty(value: Any, name: str) -> bool:
    """Whether Go takes the value for an absent one: null, an empty list or map, an empty struct held by value."""
    if isinstance(value, dict):
        return name in _VALUES and all(_is_empty(item, key) for key, item in value.items())
    return value is None or value == []


def claim_errors(jobset: Document) -> Iterator[DocumentError]:
    """All errors of the policies."""
    known: set[str] = set()
    for p, policy in enumerate(spec_of(jobset).get("volumeClaimPolicies") or ()):
        for t, template in enumerate(policy.get("templates") or ()):
            field, name = f"spec.volumeClaimPolicies[{p}].template[{t}].name", name_of(template)
            if name in known:
                yield wrong(field, name, "names must be unique for VolumeClaimPolicies template")
            known.add(name)
            for error in dns_subdomain(name):
                yield wrong(field, name, error)
            if len(claim_name(jobset, template)) > LABEL_LENGTH:
                yield wrong(field, name, "VolumeClaimPolicies template name is too long")
            yield from _of_mounts(jobset, name)


def _of_mounts(jobset: Document, name: str) -> Iterator[DocumentError]:
    mounted = False
    for index, replicated in enumerate(replicated_jobs_of(jobset)):
        pod = spec_of(spec_of(replicated.get("template") or {}).get("template") or {})
        for v, volume in enumerate(pod.get("volumes") or ()):
            if volume.get("name") == name:
                field = f"spec.replicatedJobs[{index}].template.spec.template.spec.volumes[{v}].name"
                detail = f"volume name conflicts with VolumeClaimPolicy template name: {name}"
                yield wrong(field, name, detail)
        containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
        mounts = [mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()]
        mounted = mounted or name in mounts
    if not mounted:
        detail = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
        yield wrong("spec.replicatedJobs", replicated_jobs_of(jobset), detail)
