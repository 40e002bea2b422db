# SPDX-License-Identifier: Apache-2.0
"""Faults of pods: no node, containers that cannot start, containers that fail; and ends of jobs."""

from tests.e2e.faults.place import NEVER, Document, Faults, Place, U, ended, own_node, waiting
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import name_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.volcano.v1beta1 import PodGroup
from trainwright.controller.runtime.testing.waiting import eventually

FAULTS = Faults()
fault = FAULTS.seed


@fault(34, "NoFreeNode: 1 of 1 pod waits for 8 nvidia.com/gpu: there are nodes of that size", 3, patience=10)
async def no_free_node(place: Place) -> None:
    pool = place.namespace
    await own_node(place)
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    container = {"name": "c", "image": "i", "resources": resources}
    await place.create("Pod", "v1", "full", spec={"nodeSelector": {"pool": pool}, "containers": [container]})

    async def bound() -> object:
        return (await place.client.get(Pod.RESOURCE, "full", place.namespace))["spec"].get("nodeName")

    await eventually(bound, what="a node for the pod that fills it")
    await place.runtime({"container": {"resources": resources}, "nodeSelector": {"pool": pool}})
    await place.job()


@fault(35, "NodesTooSmall: no node has 5000 nvidia.com/gpu (the largest has 1000)", 1, patience=10)
async def nodes_too_small(place: Place) -> None:
    await place.runtime({"container": {"resources": {"limits": {"nvidia.com/gpu": "5000"}}}})
    await place.job()


@fault(36, "NoNodeMatches: no node has the label nowhere=yes, which the runtime asks for", 1, patience=10)
async def no_node_matches(place: Place) -> None:
    await place.runtime(U)
    await place.job(nodes=2)


@fault(37, "NodesTainted: the one node that fits has the taint gpu=yes, which the pods do not tolerate", 1, patience=10)
async def nodes_tainted(place: Place) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    await own_node(place, taints=[taint])
    await place.runtime({"nodeSelector": {"pool": place.namespace}})
    await place.job()


@fault(38, "ClaimMissing: PersistentVolumeClaim data does not exist in namespace", 1, patience=10)
async def claim_missing(place: Place) -> None:
    await place.runtime({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    await place.job()


@fault(39, "ClaimPending: PersistentVolumeClaim data is Pending: StorageClass fast does not exist", 3, patience=10)
async def claim_pending(place: Place) -> None:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": resources}
    await place.create("PersistentVolumeClaim", "v1", "data", spec=spec)
    await place.runtime({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})
    await place.job()


@fault(40, "SchedulerMissing: no scheduler has looked at 1 of 1 pod: their schedulerName is volcano", 1, patience=60)
async def scheduler_missing(place: Place) -> None:
    await place.runtime({"schedulerName": "volcano"})
    await place.job()


@fault(41, "SchedulingGated: 1 pod is held by scheduling gate a.example.com/b", 3)
async def scheduling_gated(place: Place) -> None:
    await place.runtime({"schedulingGates": [{"name": "a.example.com/b"}]})
    await place.job()


@fault(42, "GangDoesNotFit: all 2 pods have to start at the same time", 3, patience=10)
async def gang_does_not_fit(place: Place) -> None:
    await place.runtime({"schedulerName": "volcano"}, podGroupPolicy={"volcano": {}})
    await place.job(nodes=2)
    await place.pods(2)
    message = "2/2 tasks in gang unschedulable\n1 node is too small"
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message}
    condition |= {"lastTransitionTime": format_time(wall_clock()), "transitionID": "x"}
    status = {"status": {"phase": "Pending", "conditions": [condition]}}
    await place.client.patch(PodGroup.RESOURCE, "j", place.namespace, status)


@fault(44, "GangCannotForm: the gang wants 3 pods at once, and 2 of them are created only after dataset-initializer", 1)
async def gang_cannot_form(place: Place) -> None:
    await place.runtime(U, steps=("dataset-initializer",), podGroupPolicy={"coscheduling": {}})
    await place.job(nodes=2)
    await place.pods(1)


@fault(46, "ImageMissing: 4 of 4 pods cannot pull example.com/none:v9: there is no such image or tag", 1)
async def image_missing(place: Place) -> None:
    await place.runtime(U)
    await place.job(nodes=4, trainer={"image": "example.com/none:v9"})
    message = 'Back-off pulling image "example.com/none:v9": ErrImagePull: rpc error: example.com/none:v9: not found'
    await place.held(waiting("ImagePullBackOff", message), 4)


@fault(49, "VariableSourceMissing: variable TOKEN of container node comes from Secret s, which has no key k", 1)
async def variable_source_missing(place: Place) -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    await place.runtime({"container": {"env": [{"name": "TOKEN", "valueFrom": reference}]}, **U})
    await place.job()
    await place.held(waiting("CreateContainerConfigError", f"couldn't find key k in Secret {place.namespace}/s"))


@fault(52, "InitializerFailed: init container fetch of rank 0 failed with exit code 1, so training has not begun", 1)
async def init_container_fails(place: Place) -> None:
    await place.runtime({"initContainers": [{"name": "fetch", "image": "i"}], **U, **NEVER})
    await place.job()
    status = ended(1)["containerStatuses"][0] | {"name": "fetch"}
    await place.held({"initContainerStatuses": [status], **waiting("PodInitializing", "")})


@fault(55, "OutOfMemory: rank 2 was killed for memory (OOMKilled, exit code 137): container node may use 16Gi", 3)
async def out_of_memory(place: Place) -> None:
    container = {"resources": {"limits": {"memory": "16Gi"}}}
    await place.runtime({"container": container, **U, **NEVER}, job={"backoffLimit": 9})
    await place.job(nodes=4)
    pods = await place.pods(4)
    await place.patch_pod(pods[2], ended(137, reason="OOMKilled"))
    # The Job makes another one after ten seconds: the job goes on for now.
    await place.pods(5)


@fault(56, "RankFailed: rank 3 failed with exit code 1; 3 others were stopped after it", 1)
async def rank_fails(place: Place) -> None:
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 9})
    await place.job(nodes=4)
    pods = await place.pods(4)
    # Before the first patch: who ended first must not depend on how long they take.
    stopped, failed = ended(143, ago=10), ended(1, ago=12)
    for pod, status in zip(pods, (stopped, stopped, stopped, failed), strict=True):
        await place.patch_pod(pod, status)


@fault(57, "CrashLoop: container node of rank 0 has failed 4 times, last with exit code 1; see `kubectl logs ", 1)
async def crash_loop(place: Place) -> None:
    await place.runtime({**U, "restartPolicy": "OnFailure"})
    await place.job()
    last = ended(1)["containerStatuses"][0]["state"]["terminated"]
    await place.held({"phase": "Running", **waiting("CrashLoopBackOff", "back-off", restarts=4, last=last)})


@fault(58, "Preempted: rank 1 had to give way to a pod of higher priority", 3)
async def preempted(place: Place) -> None:
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 9})
    await place.job(nodes=2)
    running: Document = {"name": "node", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    running["state"] = {"running": {"startedAt": format_time(wall_clock())}}
    ready = {"type": "Ready", "status": "True"}
    await place.held({"phase": "Running", "conditions": [ready], "containerStatuses": [running]}, 2)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    pods = await place.pods(2)
    status = {**ended(143), "conditions": [target, {**ready, "status": "False"}]}
    await place.patch_pod(pods[1], status)


@fault(60, "NodeLost: node gone, on which rank 0 ran, does not exist any more; the pod is made again", 3)
async def node_lost(place: Place) -> None:
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 9})
    await place.job()
    await place.held({})


@fault(62, "RestartsExhausted: the job failed after 4 attempts; the last: rank 0 failed with exit code 1", 1)
async def restarts_exhausted(place: Place) -> None:
    policy = {"failurePolicy": {"maxRestarts": 3}}
    await place.runtime({**U, **NEVER}, job={"backoffLimit": 0}, jobset=policy)
    await place.job()
    for attempt in range(4):

        async def present(attempt: int = attempt) -> Document | None:
            selector = f"jobset.sigs.k8s.io/jobset-name=j,jobset.sigs.k8s.io/restart-attempt={attempt}"
            found = (await place.client.list(Pod.RESOURCE, place.namespace, label_selector=selector)).items
            return found[0] if found else None

        pod = await eventually(present, what=f"attempt {attempt}")
        assert pod is not None
        await place.patch_pod(pod, ended(1))


@fault(63, "DeadlineExceeded: the job ran out of its time of 1 s (spec.activeDeadlineSeconds)", 1)
async def deadline(place: Place) -> None:
    await place.runtime(U)
    await place.job(activeDeadlineSeconds=1)


@fault(64, "JobDeadlineExceeded: the runtime allows a Job 1 s, and Job j-node-0 took longer", 1)
async def job_deadline(place: Place) -> None:
    await place.runtime(U, job={"activeDeadlineSeconds": 1})
    await place.job()


@fault(65, "EvidenceGone: Job j-node-0 reached its backoff limit, and its pods were deleted with their logs", 1)
async def evidence_gone(place: Place) -> None:
    await place.runtime({**U, "restartPolicy": "OnFailure"}, job={"backoffLimit": 1})
    await place.job()
    last = ended(1)["containerStatuses"][0]["state"]["terminated"]
    (pod,) = await place.pods()
    await place.patch_pod(pod, {"phase": "Running", **waiting("CrashLoopBackOff", "back-off", restarts=3, last=last)})


@fault(66, "NotReady: node is not ready: 1 of 1 pod runs and fails its readiness probe (tcp 2222)", 1, patience=60)
async def never_ready(place: Place) -> None:
    await place.runtime({"container": {"readinessProbe": {"tcpSocket": {"port": 2222}}}, **U})
    await place.job()
    running: Document = {"name": "node", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    running["state"] = {"running": {"startedAt": format_time(wall_clock())}}
    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    await place.held({"phase": "Running", "conditions": [ready], "containerStatuses": [running]})


@fault(68, "DeletionWaits: the job is being deleted and waits for finalizer example.com/keep", 1)
async def deletion_waits(place: Place) -> None:
    await place.runtime(U)
    job = await place.job(metadata={"finalizers": ["example.com/keep"]})
    await place.client.delete(TrainJob.RESOURCE, name_of(job), place.namespace)
