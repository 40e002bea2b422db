# SPDX-License-Identifier: Apache-2.0
"""Faults before there are pods: runtime, queue, refusals, the JobSet, and pods that cannot be created."""

import asyncio

from tests.e2e.faults.place import NEVER, Faults, Place, U, quota

FAULTS = Faults()
fault = FAULTS.seed


@fault(1, "RuntimeMissing: TrainingRuntime r does not exist in namespace", 1)
async def runtime_missing(place: Place) -> None:
    await place.job()


@fault(2, "SuspendedByOwner: the job is suspended by its spec.suspend", 3)
async def suspended(place: Place) -> None:
    await place.runtime(U)
    await place.job(suspend=True)


@fault(3, "QueueFull: the job waits in queue q: 8 more nvidia.com/gpu must become free; wait, or ask for less", 3)
async def queue_full(place: Place) -> None:
    await place.runtime(U)
    job = await place.job(suspend=True, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
    await place.create("LocalQueue", "kueue.x-k8s.io/v1beta2", "q", spec={})
    owner = {"apiVersion": job["apiVersion"], "kind": "TrainJob", "name": "j", "uid": job["metadata"]["uid"]}
    message = (
        "couldn't assign flavors to pod set node: insufficient unused quota for nvidia.com/gpu in flavor f, "
        "8 more needed"
    )
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    await place.create(
        "Workload",
        "kueue.x-k8s.io/v1beta2",
        "trainjob-j",
        metadata={"ownerReferences": [{**owner, "controller": True}]},
        spec={"queueName": "q"},
        status={"conditions": [condition]},
    )


@fault(
    9,
    "NotQueued: the job is labelled for queue q, but there is no Workload for it: Kueue does not manage",
    1,
    patience=60,
)
async def not_queued(place: Place) -> None:
    await place.runtime(U)
    await place.create("LocalQueue", "kueue.x-k8s.io/v1beta2", "q", spec={})
    await place.job(suspend=True, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})


@fault(10, "ManagedElsewhere: the job is managed by kueue.x-k8s.io/multikueue", 3)
async def managed_elsewhere(place: Place) -> None:
    await place.runtime(U)
    await place.job(managedBy="kueue.x-k8s.io/multikueue")


@fault(15, "NameTooLong: the name jjjj", 1)
async def name_too_long(place: Place) -> None:
    await place.runtime(U)
    await place.job("j" * 60)


@fault(16, "NameTaken: JobSet j exists already and was not made for this job", 1)
async def name_taken(place: Place) -> None:
    job = {"template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], **U}}}}}
    spec = {"suspend": True, "replicatedJobs": [{"name": "other", **job}]}
    await place.create("JobSet", "jobset.x-k8s.io/v1alpha2", "j", spec=spec)
    await place.runtime(U)
    await place.job()


@fault(17, "SnapshotInvalid: ConfigMap j-runtime-snapshot ", 1)
async def snapshot_spoiled(place: Place) -> None:
    await place.create("ConfigMap", "v1", "j-runtime-snapshot", data={"runtime": "nothing"})
    await place.runtime(U)
    await place.job()


@fault(18, "BuildFailed: the MPI plugin refuses the job: ", 1)
async def plugin_refuses(place: Place) -> None:
    await place.runtime(U, mlPolicy={"numNodes": 1, "mpi": {"mpiImplementation": ""}})
    await place.job()


@fault(19, "ObjectQuotaExceeded: ResourceQuota q allows 0 jobsets.jobset.x-k8s.io in namespace", 3)
async def object_quota(place: Place) -> None:
    await place.create("ResourceQuota", "v1", "q", spec={"hard": {"count/jobsets.jobset.x-k8s.io": "0"}})
    await place.runtime(U)
    await place.job()


@fault(22, "JobNotCreated: JobSet cannot create Job j-node-0: a Job of that name exists", 1)
async def job_taken(place: Place) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], **U, **NEVER}
    await place.create("Job", "batch/v1", "j-node-0", spec={"template": {"spec": pod}})
    await place.runtime(U)
    await place.job()


@fault(23, "ServiceNotCreated: JobSet cannot create Service j, by which the nodes find each other", 1)
async def service_not_created(place: Place) -> None:
    await quota(place, {"count/services": "0"})
    await place.runtime(U)
    await place.job()


@fault(24, "ServiceTaken: the nodes cannot find each other: Service j selects app=web", 1)
async def service_taken(place: Place) -> None:
    await place.create("Service", "v1", "j", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    await place.runtime(U)
    await place.job(nodes=2)
    await place.held({}, 2)


@fault(26, "NoNodeMatches: no node has the label nowhere=yes, which the runtime asks for", 1, patience=10)
async def step_waits(place: Place) -> None:
    await place.runtime(U, steps=("dataset-initializer",))
    await place.job()


@fault(27, "QuotaExceeded: 0 of 1 pod could be created: ResourceQuota q allows 4 nvidia.com/gpu", 1)
async def quota_exceeded(place: Place) -> None:
    await quota(place, {"requests.nvidia.com/gpu": "4"})
    await place.runtime({"container": {"resources": {"limits": {"nvidia.com/gpu": "8"}}}, **U})
    await place.job()


@fault(28, "PodSecurityRefused: namespace ", 1)
async def pod_security(place: Place) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    await asyncio.to_thread(place.control_plane.kubectl, "label", "namespace", place.namespace, label)
    await place.runtime(U)
    await place.job()


@fault(30, "PriorityClassMissing: PriorityClass gold does not exist", 1)
async def priority_class_missing(place: Place) -> None:
    await place.runtime({"priorityClassName": "gold"})
    await place.job()


@fault(31, "RuntimeClassMissing: RuntimeClass nvidia does not exist", 1)
async def runtime_class_missing(place: Place) -> None:
    await place.runtime({"runtimeClassName": "nvidia"})
    await place.job()


@fault(32, "LimitRangeRefused: LimitRange l of namespace ", 1)
async def limit_range(place: Place) -> None:
    await place.create("LimitRange", "v1", "l", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
    await place.runtime({"container": {"resources": {"limits": {"cpu": "2"}}}})
    await place.job()


@fault(33, "PodWebhookUnreachable: pods of the job cannot be created: webhook pods.example.com does not answer", 3)
async def pod_webhook(place: Place) -> None:
    webhook = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/none"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    metadata = {"name": place.namespace}
    await asyncio.to_thread(place.control_plane.apply, {**document, "metadata": metadata, "webhooks": [webhook]})
    await place.runtime(U)
    await place.job()
