# SPDX-License-Identifier: Apache-2.0
"""The objects that a JobSet creates, their names and labels, and the Jobs sorted by what they mean to it.

Sources: JobSet 0.12.0 with its default feature gates; https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
"""

import hashlib
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

from trainwright.api.conditions import is_true
from trainwright.api.objects import (
    Document,
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
from trainwright.controller.runtime import Terminal

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
    """The Jobs that a JobSet controls."""

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
