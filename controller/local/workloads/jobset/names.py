# SPDX-License-Identifier: Apache-2.0
"""Labels, annotations and conditions of the JobSet API, and the names of what a JobSet creates.

Source: https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
"""

from trainwright.api.objects import Document, name_of
from trainwright.controller.local.workloads.documents import spec_of

PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = PREFIX + "jobset-name"
JOBSET_UID = PREFIX + "jobset-uid"
REPLICATED_JOB = PREFIX + "replicatedjob-name"
RESTART_ATTEMPT = PREFIX + "restart-attempt"
REPLICAS = PREFIX + "replicatedjob-replicas"
GLOBAL_REPLICAS = PREFIX + "global-replicas"
JOB_INDEX = PREFIX + "job-index"
JOB_KEY = PREFIX + "job-key"
JOB_GLOBAL_INDEX = PREFIX + "job-global-index"
GROUP_NAME = PREFIX + "group-name"
GROUP_REPLICAS = PREFIX + "group-replicas"
JOB_GROUP_INDEX = PREFIX + "job-group-index"
COORDINATOR = PREFIX + "coordinator"
PRIORITY = PREFIX + "priority"
"""Label of a pod, so that exclusive placement only looks at pods of the same priority."""
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"
MANAGED_BY_US = "jobset.sigs.k8s.io/jobset-controller"

COMPLETED, FAILED, SUSPENDED = "Completed", "Failed", "Suspended"
RESTARTING = "RestartingJobSet"
STARTUP_IN_PROGRESS, STARTUP_COMPLETED = "StartupPolicyInProgress", "StartupPolicyCompleted"


def replicated_jobs(jobset: Document) -> list[Document]:
    """`spec.replicatedJobs`, in their order."""
    return spec_of(jobset).get("replicatedJobs") or []


def replicas_of(replicated: Document) -> int:
    """How many Jobs a replicated job has."""
    replicas = replicated.get("replicas")
    return 1 if replicas is None else int(replicas)


def job_name(jobset: Document, replicated: Document, index: int) -> str:
    """The name of a Job."""
    return f"{name_of(jobset)}-{replicated.get('name')}-{index}"


def subdomain(jobset: Document) -> str:
    """The name of the headless Service, and the domain in which the pods have their names."""
    return str((spec_of(jobset).get("network") or {}).get("subdomain") or name_of(jobset))


def has_host_names(jobset: Document) -> bool:
    """Whether the pods have DNS names."""
    return bool((spec_of(jobset).get("network") or {}).get("enableDNSHostnames"))


def coordinator_endpoint(jobset: Document) -> str:
    """The DNS name of the coordinator's pod. The JobSet must name a coordinator."""
    coordinator = spec_of(jobset)["coordinator"]
    numbers = f"{coordinator.get('jobIndex') or 0}-{coordinator.get('podIndex') or 0}"
    return f"{name_of(jobset)}-{coordinator.get('replicatedJob')}-{numbers}.{subdomain(jobset)}"


def claim_name(jobset: Document, template: Document) -> str:
    """The name of a claim that `spec.volumeClaimPolicies` asks for."""
    return f"{name_of(template)}-{name_of(jobset)}"
