# SPDX-License-Identifier: Apache-2.0
"""Faults of the JobSet and its Jobs, and pods that cannot be created or scheduled."""

import pytest

from tests.unit.trainer.explain.world import JOBSET_NAME, World, at, condition

GPU = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No victims."


# ---------------------------------------------------------------------- the JobSet and its Jobs


def test_the_jobset_controller_is_silent() -> None:
    world = World()
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod")]
    del world.jobset["status"]
    assert world.says() == (
        "JobSetControllerSilent: JobSet j exists and the JobSet controller has not looked at it: is the JobSet "
        "controller running? See `kubectl get pods -n jobset-system`"
    )
    world.jobset["metadata"]["creationTimestamp"] = at(30)
    assert world.says().startswith("Starting: ")


def test_a_job_cannot_be_created() -> None:
    world = World()
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod")]
    world.add("batch/v1", "Job", "j-node-0", spec={}, status={})
    assert world.says() == (
        "JobNotCreated: JobSet cannot create Job j-node-0: a Job of that name exists and is not of this JobSet; "
        "delete that "
        "Job"
    )
    world.objects.pop()
    world.event(world.jobset, "JobCreationFailed", 'job "j-node-0" creation failed with error: no')
    assert world.says() == 'JobNotCreated: JobSet cannot create a Job: job "j-node-0" creation failed with error: no'


def test_the_service_cannot_be_created() -> None:
    world = World()
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod", "Service")]
    world.event(world.jobset, "HeadlessServiceCreationFailed", 'services "j" is forbidden: exceeded quota: q')
    assert world.says() == (
        "ServiceNotCreated: JobSet cannot create Service j, by which the nodes find each "
        'other: services "j" is forbidden: '
        "exceeded quota: q"
    )


def test_the_service_is_of_another() -> None:
    world = World()
    service = next(obj for obj in world.objects if obj["kind"] == "Service")
    service["spec"] = {"clusterIP": "10.0.0.1", "selector": {"app": "web"}}
    assert world.says() == (
        "ServiceTaken: the nodes cannot find each other: Service j selects app=web and not the pods of this job; "
        "delete it, "
        "or create the job under another name"
    )
    service["spec"] = {"clusterIP": "10.0.0.1", "selector": {JOBSET_NAME: "j"}}
    assert "is not headless" in world.says()


def test_a_claim_cannot_be_created() -> None:
    world = World()
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod")]
    world.event(
        world.jobset, "PVCCreationFailed", 'persistentvolumeclaims "initializer-j" is forbidden: exceeded quota: q'
    )
    assert world.says() == (
        "ClaimNotCreated: JobSet cannot create a volume claim of the runtime: "
        'persistentvolumeclaims "initializer-j" is '
        "forbidden: exceeded quota: q"
    )


def test_a_step_waits_for_the_one_before() -> None:
    world = World(steps=("dataset-initializer",))
    assert world.says() == "StepWaits: node starts when dataset-initializer is complete"
    assert world.explained().exit_code == 3
    world.unschedulable("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
    world.pods[0]["spec"]["nodeSelector"] = {"nowhere": "yes"}
    assert world.says().startswith("NoNodeMatches: ")
    assert "StepWaits" not in {cause.reason for cause in world.explained().others}


# ---------------------------------------------------------------------- pods cannot be created


def quota(requested: int, used: int, limited: int) -> str:
    name = "requests.nvidia.com/gpu"
    return (
        f'pods "j-node-0-0-x" is forbidden: exceeded quota: q, requested: {name}={requested}, used: {name}={used}, '
        f"limited: {name}={limited}"
    )


def test_quota_exceeded() -> None:
    world = World(pods=2)
    world.failed_create(quota(8, 0, 4))
    assert world.says() == (
        "QuotaExceeded: 0 of 2 pods could be created: ResourceQuota q allows 4 nvidia.com/gpu, 0 are used, and "
        "each "
        "pod asks for 8; it never fits: ask for less, or for a larger quota"
    )
    assert world.explained().exit_code == 1
    world = World(pods=2)
    world.failed_create(quota(4, 4, 4))
    assert world.says().endswith("wait until other jobs end, or ask for a larger quota")
    assert world.explained().exit_code == 3


def test_without_its_event() -> None:
    world = World(pods=2)
    world.without_pods()
    name = "requests.nvidia.com/gpu"
    world.add("v1", "ResourceQuota", "q", status={"hard": {name: "4"}, "used": {name: "0"}})
    assert world.says().startswith("QuotaExceeded: 0 of 2 pods could be created: ResourceQuota q allows 4")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            (
                'pods "x" is forbidden: violates PodSecurity "restricted:latest": '
                "allowPrivilegeEscalation != false (container "
                '"node" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot '
                '!= true (pod or container "node" '
                "must set securityContext.runAsNonRoot=true)"
            ),
            (
                "PodSecurityRefused: namespace n allows restricted pods only, and those of the "
                "job violate that: they lack "
                "allowPrivilegeEscalation=false and runAsNonRoot=true; use another runtime, or another namespace"
            ),
        ),
        (
            'pods "x" is forbidden: error looking up service account n/trainer: serviceaccount "trainer" not found',
            (
                "ServiceAccountMissing: ServiceAccount trainer does not exist in namespace n: "
                "create it, or correct the "
                "runtime and create the job again"
            ),
        ),
        (
            'pods "x" is forbidden: no PriorityClass with name gold was found',
            (
                "PriorityClassMissing: PriorityClass gold does not exist: correct priorityClassName in the runtime, or "
                "have the "
                "class created"
            ),
        ),
        (
            'pods "x" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
            (
                "RuntimeClassMissing: RuntimeClass nvidia does not exist: correct runtimeClassName in the runtime, or "
                "have the "
                "class created"
            ),
        ),
        (
            'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
            (
                "LimitRangeRefused: LimitRange l of namespace n allows at most 1 cpu for a container, and the pods ask "
                "for 2: "
                "change spec.trainer.resourcesPerNode, or the runtime"
            ),
        ),
        (
            (
                'Internal error occurred: failed calling webhook "pods.example.com": failed to '
                'call webhook: Post "x": refused'
            ),
            (
                "PodWebhookUnreachable: pods of the job cannot be created: webhook "
                "pods.example.com does not answer; ask "
                "who "
                "runs it"
            ),
        ),
        (
            'admission webhook "policy.example.com" denied the request: no team label',
            "PodsRefused: 0 of 4 pods could be created: webhook policy.example.com refuses them: no team label",
        ),
    ],
    ids=["28", "29", "30", "31", "32", "33", "denied"],
)
def test_pods_are_refused(answer: str, told: str) -> None:
    world = World()
    world.add("v1", "LimitRange", "l", spec={})
    world.failed_create(answer)
    assert world.says() == told


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("serviceAccountName", "ServiceAccountMissing"),
        ("priorityClassName", "PriorityClassMissing"),
        ("runtimeClassName", "RuntimeClassMissing"),
    ],
)
def test_without_their_events(field: str, reason: str) -> None:
    world = World()
    world.without_pods()
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["spec"]["template"]["spec"][field] = "gold"
    assert world.says().startswith(f"{reason}: ")


# ---------------------------------------------------------------------- pods cannot be scheduled


def test_not_enough_free_devices_now() -> None:
    world = World()
    for number in range(3):
        world.add_node(f"other-{number}", {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8"})
    world.unschedulable(GPU, 2, 3)
    assert world.says() == (
        "NoFreeNode: 2 of 4 pods wait for 8 nvidia.com/gpu each: there are nodes of that size, and other pods use "
        "them; "
        "wait, or ask for less"
    )
    assert world.explained().exit_code == 3


def test_a_job_that_is_larger_than_all_nodes_together() -> None:
    world = World()
    closed = {"key": "closed", "effect": "NoSchedule"}
    world.add_node("closed", {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "32"}, None, closed)
    world.unschedulable(GPU, 1, 2, 3)
    assert world.says() == (
        "NoFreeNode: 3 of 4 pods wait for 8 nvidia.com/gpu each: together, the nodes that match have room for 1 such "
        "pod; use a smaller numNodes, or ask for less, unless an autoscaler adds nodes"
    )


def test_cannot_be_told_apart_without_nodes() -> None:
    world = World()
    world.unschedulable(GPU, 2, 3)
    world.unreadable = ("nodes",)
    assert world.says() == (
        "NoFreeNode: 2 of 4 pods wait for 8 nvidia.com/gpu each: no node has that much free; wait, or ask for less"
    )
    assert world.explained().unread == ("no right to list nodes",)


def test_no_node_is_large_enough() -> None:
    world = World()
    world.unschedulable(GPU)
    for pod in world.pods:
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 16
    assert world.says() == (
        "NodesTooSmall: no node has 16 nvidia.com/gpu (the largest has 8): ask for at most 8 per node, on more nodes, "
        "unless an autoscaler adds larger nodes"
    )


def test_a_laptop_is_not_told_to_look_after_a_device_plugin() -> None:
    """No device plugin runs in a local cluster."""
    for runtime, sentence in (
        ("containerd://2.1.0", "no node offers nvidia.com/gpu, and each pod asks for 8: is its device plugin running?"),
        ("local://processes", "this machine has no nvidia.com/gpu, and each pod asks for 8: run the job on a cluster"),
    ):
        world = World()
        world.unschedulable(GPU)
        for node in (obj for obj in world.objects if obj["kind"] == "Node"):
            node["status"]["allocatable"].pop("nvidia.com/gpu")
            node["status"]["nodeInfo"] = {"containerRuntimeVersion": runtime}
        assert sentence in world.says()


@pytest.mark.parametrize(("node", "reason"), [("big", "NoFreeNode"), ("other", "NoNodeMatches")])
def test_affinity_may_name_a_node(node: str, reason: str) -> None:
    world = World()
    world.unschedulable(GPU)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    for pod in world.pods:
        pod["spec"]["affinity"] = {"nodeAffinity": required}
    assert world.says().startswith(f"{reason}: ")


def asked_by(world: World, *kinds: str, **asked: object) -> None:
    """Let these objects of the job ask for something of its nodes."""
    for obj in world.objects:
        if obj["kind"] == "Pod" and "Pod" in kinds:
            obj["spec"].update(asked)
        elif obj["kind"] == "Job" and "Job" in kinds:
            obj["spec"]["template"]["spec"].update(asked)
        elif obj["kind"] == "JobSet" and "JobSet" in kinds:
            obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = {"spec": asked}
        elif obj["kind"] == "ClusterTrainingRuntime" and "ClusterTrainingRuntime" in kinds:
            obj["spec"]["template"]["spec"]["replicatedJobs"][0]["template"] = {"spec": {"template": {"spec": asked}}}


ALL = ("Pod", "Job", "JobSet", "ClusterTrainingRuntime")
NO_NODE = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("kinds", "origin"),
    [
        (ALL, "which the runtime asks for: correct it there"),
        (ALL[:3], "which JobSet j asks for and the runtime does not: correct it there"),
        (ALL[:2], "which Job j-node-0 asks for and the runtime does not: correct it there"),
        (ALL[:1], "which Pod j-node-0-0-abcde asks for and the runtime does not: correct it there"),
        (("Pod", "Job", "ClusterTrainingRuntime"), "which Job j-node-0 asks for and the runtime does not"),
    ],
)
def test_who_selects_nodes_that_do_not_exist_is_looked_up(kinds: tuple[str, ...], origin: str) -> None:
    world = World()
    world.unschedulable(NO_NODE)
    asked_by(world, *kinds, nodeSelector={"nowhere": "yes", "pool": "gpu"})
    assert world.says().startswith(f"NoNodeMatches: no node has the label nowhere=yes, {origin}")


def test_a_patch_selects_nodes_that_do_not_exist() -> None:
    world = World()
    world.unschedulable(NO_NODE)
    asked_by(world, *ALL[:3], nodeSelector={"nowhere": "yes"})
    patch = {"template": {"spec": {"replicatedJobs": [{"x": {"nodeSelector": {"nowhere": "yes"}}}]}}}
    world.job["spec"]["runtimePatches"] = [{"manager": "acme.com/team", "trainingRuntimeSpec": patch}]
    assert "which the patch of acme.com/team asks for" in world.says()
    # A patch with another value of the label is not the one.
    patch["template"]["spec"]["replicatedJobs"][0]["x"]["nodeSelector"]["nowhere"] = "no"
    assert "which JobSet j asks for and the runtime does not" in world.says()


def test_who_asks_for_an_affinity_is_looked_up() -> None:
    world = World()
    world.unschedulable(NO_NODE)
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    asked_by(world, "Pod", "Job", affinity={"nodeAffinity": required})
    assert "no node matches the node affinity that Job j-node-0 asks for and the runtime does not" in world.says()


def test_taints() -> None:
    world = World()
    world.objects = [obj for obj in world.objects if obj["kind"] != "Node"]
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    world.add_node("gpu", {"nvidia.com/gpu": "8", "memory": "128Gi"}, None, taint)
    world.add_node("cpu", {"cpu": "32", "memory": "128Gi"})
    world.unschedulable("0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s).")
    assert world.says() == (
        "NodesTainted: the one node that fits has the taint gpu=yes, which the pods do not tolerate: add a "
        "toleration to the "
        "runtime"
    )
    asked_by(world, "ClusterTrainingRuntime", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert world.says().endswith(
        "the runtime tolerates and the pods, which were made otherwise, do not: create the job again"
    )
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    next(obj for obj in world.objects if obj["metadata"]["name"] == "gpu")["spec"]["taints"] = [cordon]
    assert "the nodes that fit (gpu) are cordoned" in world.says()


def test_nodes_that_are_not_ready() -> None:
    world = World()
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    next(obj for obj in world.objects if obj["kind"] == "Node")["spec"]["taints"] = [taint]
    world.unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
    assert "the nodes that fit (big) are not ready" in world.says()


def test_another_reason_of_the_scheduler_is_quoted() -> None:
    world = World()
    world.add_node("control", {}, None, {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
    reason = "1 node(s) didn't have free ports for the requested pod ports, 1 node(s) had untolerated taint(s)"
    world.unschedulable(f"0/2 nodes are available: {reason}. no new claims to deallocate, preemption: none")
    assert world.says() == f"Unschedulable: 4 of 4 pods have no node; the scheduler says: {reason}."


def test_a_claim_is_missing() -> None:
    world = World()
    world.unschedulable('0/1 nodes are available: persistentvolumeclaim "data" not found.')
    assert world.says() == (
        "ClaimMissing: PersistentVolumeClaim data does not exist in namespace n: create it, or correct the volume in "
        "the runtime and create the job again"
    )


def test_a_claim_is_not_bound() -> None:
    world = World()
    world.unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
    for pod in world.pods:
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    claim = world.add(
        "v1", "PersistentVolumeClaim", "data", spec={"storageClassName": "fast"}, status={"phase": "Pending"}
    )
    assert world.says() == (
        "ClaimPending: PersistentVolumeClaim data is Pending: StorageClass fast does not exist; use another class"
    )
    world.add("storage.k8s.io/v1", "StorageClass", "fast", namespace="")
    world.event(claim, "ProvisioningFailed", "the disk quota is exceeded")
    assert world.says() == "ClaimPending: PersistentVolumeClaim data is Pending: the disk quota is exceeded"


def test_no_such_scheduler() -> None:
    world = World()
    for pod in world.pods:
        pod["spec"] |= {"schedulerName": "volcano"}
        del pod["spec"]["nodeName"]
        pod["status"] = {"phase": "Pending"}
    assert world.says() == (
        "SchedulerMissing: no scheduler has looked at 4 of 4 pods: their schedulerName is volcano; is it installed and "
        "running? If not, use another runtime"
    )
    for pod in world.pods:
        pod["metadata"]["creationTimestamp"] = at(30)
    assert world.says().startswith("Starting: ")


def test_scheduling_gates() -> None:
    world = World()
    for pod in world.pods:
        pod["spec"] |= {"schedulingGates": [{"name": "a/b"}]}
        del pod["spec"]["nodeName"]
        reason = condition("PodScheduled", "SchedulingGated", "Scheduling is blocked", "False")
        pod["status"] = {"phase": "Pending", "conditions": [reason]}
    assert world.says() == (
        "SchedulingGated: 4 pods are held by scheduling gate a/b: the controller that set it has to remove it"
    )


def gang(world: World, group: str, *conditions: dict[str, str]) -> None:
    world.unserved = tuple(one for one in world.unserved if one != group.partition("/")[0])
    world.add(group, "PodGroup", "j", owner=world.job, spec={"minMember": 4}, status={"conditions": list(conditions)})


def test_the_gang_does_not_fit_volcano() -> None:
    world = World()
    message = "3/4 tasks in gang unschedulable\n3 nodes are too small"
    gang(world, "scheduling.volcano.sh/v1beta1", condition("Unschedulable", "NotEnoughResources", message))
    world.unschedulable(GPU)
    assert world.says() == (
        "GangDoesNotFit: all 4 pods have to start at the same time, and not all of them find room: 3 nodes are too "
        "small; wait, or ask for less"
    )
    assert "NoFreeNode" not in {cause.reason for cause in world.explained().others}


def test_the_gang_does_not_fit_coscheduling() -> None:
    world = World()
    gang(world, "scheduling.x-k8s.io/v1alpha1")
    world.unschedulable(
        'rejected due to timeout after waiting 60s: PodGroup n/j gets rejected due to Pod "x" is unschedulable'
    )
    assert world.says().startswith(
        "GangDoesNotFit: all 4 pods have to start at the same time, and not all of them find"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("resource gap: map[cpu:{{4000 -3} {<nil>}  DecimalSI}].", "the nodes lack 4 cpu"),
        ("resource gap: map[cpu:{{4500 -3} {<nil>} 4500m DecimalSI}].", "the nodes lack 4500m cpu"),
        (
            "resource gap: map[memory:{{1073741824 0} {<nil>}  BinarySI} nvidia.com/gpu:{{2 0} {<nil>} 2 DecimalSI}].",
            "the nodes lack 1Gi memory, 2 nvidia.com/gpu",
        ),
        ("pre-filter pod x cannot find enough sibling pods.", "pre-filter pod x cannot find enough sibling pods"),
    ],
)
def test_the_gang_does_not_fit_in_plain_words(said: str, why: str) -> None:
    """As the scheduler of the scheduler plugins says it; see tests/e2e/test_coscheduling.py."""
    world = World()
    gang(world, "scheduling.x-k8s.io/v1alpha1")
    world.unschedulable(
        f"0/2 nodes are available: {said} no new claims to deallocate, preemption: 0/2 nodes are available"
    )
    assert world.says() == (
        "GangDoesNotFit: all 4 pods have to start at the same time, and not all of them find room: "
        f"{why}; wait, or ask for less"
    )


def test_the_gang_waits_for_pods_that_come_later() -> None:
    world = World(pods=3, steps=("dataset-initializer",))
    gang(world, "scheduling.x-k8s.io/v1alpha1")
    world.unschedulable("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
    for pod in world.pods:
        pod["spec"]["nodeSelector"] = {"nowhere": "yes"}
    assert world.says() == (
        "GangCannotForm: the gang wants 4 pods at once, and 3 of them are created only after dataset-initializer has "
        "ended: "
        "this runtime cannot run as a gang; take podGroupPolicy or the steps out of it"
    )


def test_waits_for_a_new_node() -> None:
    world = World()
    world.unschedulable(GPU)
    world.event(world.pods[0], "TriggeredScaleUp", "pod triggered scale-up: [{gpu 0->1}]", kind="Normal")
    assert world.says() == "NodeComing: the autoscaler adds a node for 4 pods of the job; nothing is to be done"
    world.event(world.pods[0], "NotTriggerScaleUp", "pod didn't trigger scale-up", kind="Normal", ago=5)
    assert world.says().startswith("NoFreeNode: ")


@pytest.mark.parametrize("noted_by", ["Job", "JobSet"])
def test_a_job_that_was_resumed_has_time_for_its_pods(noted_by: str) -> None:
    world = World()
    world.without_pods()
    assert world.says().startswith("PodsRefused: Job j-node-0 has none of its 4 pods, and no event says why")
    about = next(obj for obj in world.objects if obj["kind"] == noted_by)
    for ago, is_stuck in ((30, False), (61, True)):
        about.setdefault("status", {})["conditions"] = [condition("Suspended", "Resumed", status="False", ago=ago)]
        assert world.says().startswith("PodsRefused") is is_stuck
