# SPDX-License-Identifier: Apache-2.0
"""The defaults that JobSet's webhooks set on JobSets and on their pods. Both change the document in place.

Source: JobSet 0.12.0. The defaults of the schema are the API server's.
"""

from trainwright.api.objects import Document, annotations_of, labels_of
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
        _add_empty_parts(replicated["template"])
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


def _add_empty_parts(template: Document) -> None:
    """Add the empty objects that JobSet's webhook adds, because Go writes a struct that is held by value."""
    _part(template, "metadata")
    pod = template["spec"]["template"]
    _part(pod, "metadata")
    for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
        _part(container, "resources")


def _fill(document: Document, name: str, value: object) -> None:
    """Set a field that is absent or null."""
    if document.get(name) is None:
        document[name] = value


def _part(document: Document, name: str) -> Document:
    """An object inside a document, made if it is absent or null."""
    _fill(document, name, {})
    part: Document = document[name]
    return part
