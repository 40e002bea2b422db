# SPDX-License-Identifier: Apache-2.0
"""The objects that a JobSet creates: Jobs, the headless Service and volume claims. Pure functions.

Source: JobSet 0.12.0 with its default feature gates.
"""

import hashlib
from copy import deepcopy

from trainwright.api.objects import Document, annotations_of, name_of, namespace_of, owner_reference, uid_of
from trainwright.controller.local.workloads.documents import spec_of, status_of
from trainwright.controller.local.workloads.jobset import names
from trainwright.controller.local.workloads.kinds import CLAIM, JOB, JOBSET, SERVICE


def restarts_of(jobset: Document) -> int:
    """How often the JobSet was restarted: the number of its current attempt."""
    return int(status_of(jobset).get("restarts") or 0)


def is_suspended(obj: Document) -> bool:
    """Whether a JobSet or a Job is suspended by its spec."""
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
        "name": names.job_name(jobset, replicated, index),
        "namespace": namespace_of(jobset),
        "ownerReferences": [owner_reference(jobset, JOBSET)],
    }
    pod_metadata |= _described(jobset, replicated, index, pod_metadata)
    if names.has_host_names(jobset):
        pod_spec["subdomain"] = names.subdomain(jobset)
    if {names.EXCLUSIVE, names.NODE_SELECTOR_STRATEGY} <= metadata["annotations"].keys():
        selector = {names.NAMESPACED_JOB: f"{namespace_of(jobset)}_{metadata['name']}"}
        toleration = {"key": names.NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        pod_spec["nodeSelector"] = {**(pod_spec.get("nodeSelector") or {}), **selector}
        pod_spec["tolerations"] = [*(pod_spec.get("tolerations") or ()), toleration]
    spec["suspend"] = is_suspended(jobset)
    _add_volumes(jobset, pod_spec)
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec}


def service_of(jobset: Document) -> Document:
    """The headless Service that gives the pods their names."""
    published = (spec_of(jobset).get("network") or {}).get("publishNotReadyAddresses")
    spec: Document = {"clusterIP": "None", "selector": {names.JOBSET_NAME: name_of(jobset)}}
    if published is None or published:
        spec["publishNotReadyAddresses"] = True
    metadata = {
        "name": names.subdomain(jobset),
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
                "name": names.claim_name(jobset, template),
                "namespace": namespace_of(jobset),
                "labels": {**(given.get("labels") or {}), names.JOBSET_NAME: name_of(jobset)},
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
    templates = [
        template
        for policy in spec_of(jobset).get("volumeClaimPolicies") or ()
        for template in policy.get("templates") or ()
        if name_of(template) in mounted
    ]
    if templates:
        pod_spec["volumes"] = [
            *(pod_spec.get("volumes") or ()),
            *(
                {"name": name_of(t), "persistentVolumeClaim": {"claimName": names.claim_name(jobset, t)}}
                for t in templates
            ),
        ]


def _described(jobset: Document, replicated: Document, index: int, given: Document) -> Document:
    """Metadata with the labels that tell where in the JobSet a Job or a pod is, and the same as annotations."""
    group = str(replicated.get("groupName") or "")
    job = f"{namespace_of(jobset)}/{names.job_name(jobset, replicated, index)}"
    place = {
        names.JOBSET_NAME: name_of(jobset),
        names.JOBSET_UID: uid_of(jobset),
        names.REPLICATED_JOB: str(replicated.get("name")),
        names.RESTART_ATTEMPT: str(restarts_of(jobset)),
        names.REPLICAS: str(names.replicas_of(replicated)),
        names.GLOBAL_REPLICAS: str(_total(names.replicated_jobs(jobset))),
        names.JOB_INDEX: str(index),
        names.JOB_KEY: hashlib.sha1(job.encode(), usedforsecurity=False).hexdigest(),
        names.JOB_GLOBAL_INDEX: str(_before(names.replicated_jobs(jobset), replicated) + index),
        names.GROUP_NAME: group,
        names.GROUP_REPLICAS: str(_total(_group(jobset, group))),
        names.JOB_GROUP_INDEX: str(_before(_group(jobset, group), replicated) + index),
    }
    if spec_of(jobset).get("coordinator"):
        place[names.COORDINATOR] = names.coordinator_endpoint(jobset)
    annotations = {**(given.get("annotations") or {}), **place}
    # The one of the replicated job wins over the one of the whole JobSet.
    for source in (annotations_of(jobset), annotations_of(replicated.get("template") or {})):
        if names.EXCLUSIVE in source:
            for name in (names.EXCLUSIVE, names.NODE_SELECTOR_STRATEGY):
                annotations |= {name: source[name]} if name in source else {}
    return {"labels": {**(given.get("labels") or {}), **place}, "annotations": annotations}


def _group(jobset: Document, group: str) -> list[Document]:
    return [r for r in names.replicated_jobs(jobset) if str(r.get("groupName") or "") == group]


def _total(replicated: list[Document]) -> int:
    return sum(names.replicas_of(one) for one in replicated)


def _before(replicated: list[Document], one: Document) -> int:
    """The number of Jobs of the replicated jobs before this one."""
    position = next(n for n, other in enumerate(replicated) if other.get("name") == one.get("name"))
    return _total(replicated[:position])
