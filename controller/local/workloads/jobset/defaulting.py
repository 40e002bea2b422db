# SPDX-License-Identifier: Apache-2.0
"""The defaults that JobSet's webhooks set on JobSets and on their pods. Both change the document in place.

Source: JobSet 0.12.0. The defaults of the schema are the API server's.
"""

from copy import deepcopy
from typing import Any

from trainwright.api.objects import Document, annotations_of, labels_of
from trainwright.controller.local.gowriting import rewrite
from trainwright.controller.local.workloads.documents import spec_of
from trainwright.controller.local.workloads.job.names import COMPLETION_INDEX
from trainwright.controller.local.workloads.jobset import names


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
    if names.JOBSET_NAME not in annotations or names.NODE_SELECTOR_STRATEGY in annotations:
        return
    if spec.get("priority") is not None:
        metadata = pod["metadata"]
        metadata["labels"] = {**labels_of(pod), names.PRIORITY: str(spec["priority"])}
    if names.EXCLUSIVE in annotations and annotations.get(COMPLETION_INDEX) == "0":
        _keep_others_out(pod)


def _keep_others_out(pod: Document) -> None:
    labels, topology = labels_of(pod), annotations_of(pod)[names.EXCLUSIVE]
    own = {"key": names.JOB_KEY, "operator": "In", "values": [labels.get(names.JOB_KEY, "")]}
    others = [
        {"key": names.JOB_KEY, "operator": "Exists"},
        {**own, "operator": "NotIn"},
        {"key": names.PRIORITY, "operator": "In", "values": [labels.get(names.PRIORITY, "")]},
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
