# SPDX-License-Identifier: Apache-2.0
"""Faults before the JobSet works: runtime, queue, manager, refusals. The number is that of the catalogue."""

import pytest

from tests.unit.trainer.explain.world import World, at, condition
from trainwright.controller.trainer.recovery.verdict import KEY, Summary, text_of

MISSING = (
    "RuntimeMissing: ClusterTrainingRuntime torch does not exist: create it, or create the job again with a runtime "
    "that `kubectl get clustertrainingruntimes` lists"
)


def test_the_runtime_is_missing() -> None:
    world = World(jobset=False)
    world.objects.remove(world.runtime)
    assert world.says() == MISSING
    world.blocked("RuntimeMissing", "ClusterTrainingRuntime torch does not exist: create it, or delete this TrainJob")
    assert world.says() == MISSING
    world.add("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "torch", spec={})
    assert world.says() == (
        "RuntimeMissing: ClusterTrainingRuntime torch does not exist: there is a TrainingRuntime of that name: "
        "create the "
        "job again with spec.runtimeRef.kind: TrainingRuntime"
    )


def test_suspended_by_its_owner() -> None:
    world = World(jobset=False)
    world.job["spec"]["suspend"] = True
    world.ended("Suspended", "Suspended")
    assert world.says() == (
        "SuspendedByOwner: the job is suspended by its spec.suspend: set it to false to start the job"
    )
    assert world.explained().exit_code == 3


def test_waits_in_a_queue() -> None:
    world = World(jobset=False)
    message = (
        "couldn't assign flavors to pod set node: insufficient unused quota for "
        "nvidia.com/gpu in flavor a100, 8 more needed"
    )
    workload = world.workload(condition("QuotaReserved", "Pending", message, "False"))
    expected = (
        "QueueFull: the job waits in queue q (ClusterQueue c): 8 more nvidia.com/gpu must become free; "
        "wait, or ask for less"
    )
    assert world.says() == expected
    workload["status"]["conditions"][0]["reason"] = "WaitingForQuota"
    assert world.says() == expected
    assert world.explained().exit_code == 3


UNUSED = "insufficient unused quota for cpu in flavor {}, {} more needed"


@pytest.mark.parametrize(
    ("message", "needed"),
    [
        # The second number contains the first.
        (f"{UNUSED.format('a', 2)}; {UNUSED.format('a', 4)}", "4 more cpu"),
        (f"{UNUSED.format('a', '10')}; {UNUSED.format('a', '9500m')}", "10 more cpu"),
        (f"{UNUSED.format('a', 2)}, {UNUSED.format('b', 1)}", "2 more cpu of flavor a or 1 more cpu of flavor b"),
        (f"{UNUSED.format('a', 2)}; {UNUSED.format('a', 1).replace('cpu', 'memory')}", "1 more memory and 2 more cpu"),
    ],
)
def test_what_must_become_free_is_said_once(message: str, needed: str) -> None:
    world = World(jobset=False)
    world.workload(
        condition("QuotaReserved", "Pending", f"couldn't assign flavors to pod set node: {message}", "False")
    )
    assert world.says() == (
        f"QueueFull: the job waits in queue q (ClusterQueue c): {needed} must become free; wait, or ask for less"
    )


@pytest.mark.parametrize(
    "passed_over", [[], ["Bypassed scheduling evaluation because an equivalent workload recently failed"]]
)
def test_a_job_behind_an_equal_one_says_what_that_one_lacks(passed_over: list[str]) -> None:
    world = World(jobset=False)
    workload = world.workload(*(condition("QuotaReserved", "Pending", text, "False") for text in passed_over))
    waits = "QueueFull: the job waits in queue q (ClusterQueue c): "
    alone = "a job that asks for the same did not fit; Kueue looks at both again when quota becomes free"
    assert world.says() == waits + (alone if passed_over else "Kueue has not looked at it yet")
    spec = {**workload["spec"], "podSets": [{"name": "node", "count": 2, "template": {"spec": {"containers": []}}}]}
    pending = {"conditions": [condition("QuotaReserved", "Pending", UNUSED.format("a", 3), "False")]}
    other = world.add("kueue.x-k8s.io/v1beta1", "Workload", "trainjob-i", spec=spec, status=pending)
    workload["spec"] = {**spec, "podSets": [{**spec["podSets"][0], "count": 1}]}
    assert "3 more cpu" not in world.says()
    workload["spec"] = {**other["spec"]}
    assert world.says() == (
        f"{waits}a job that asks for the same waits, too: 3 more cpu must become free; wait, or ask for less"
    )


def test_can_never_be_admitted() -> None:
    world = World(jobset=False)
    message = (
        "couldn't assign flavors to pod set node: insufficient quota for nvidia.com/gpu in flavor a100, previously "
        "considered podsets requests (0) + current podset request (16) > maximum capacity (8)"
    )
    older = "insufficient quota for nvidia.com/gpu in flavor a100, request > maximum capacity (16 > 8)"
    workload = world.workload(condition("QuotaReserved", "ExceedsMaxQuota", message, "False"))
    told = (
        "QueueTooSmall: the job asks for 16 nvidia.com/gpu, and ClusterQueue c gives at most 8: ask for less, or use "
        "another queue"
    )
    assert world.says() == told
    assert world.explained().exit_code == 1
    workload["status"]["conditions"][0] |= {"reason": "Pending", "message": older}
    assert world.says() == told


def test_the_queue_does_not_exist() -> None:
    world = World(jobset=False)
    world.workload(condition("QuotaReserved", "Misconfigured", "LocalQueue q doesn't exist", "False"))
    world.objects = [obj for obj in world.objects if obj["kind"] != "LocalQueue"]
    assert world.says() == (
        "QueueMissing: LocalQueue q does not exist in namespace n: correct the label kueue.x-k8s.io/queue-name"
    )


def test_a_job_names_no_queue_where_it_must() -> None:
    world = World(jobset=False)
    workload = world.workload(condition("QuotaReserved", "Inadmissible", "LocalQueue  doesn't exist", "False"))
    workload["spec"]["queueName"], world.job["metadata"]["labels"] = "", {}
    assert world.says() == (
        "QueueMissing: the job names no queue, and Kueue manages jobs without one here: add the label "
        "kueue.x-k8s.io/queue-name"
    )


def test_the_queue_is_stopped() -> None:
    world = World(jobset=False)
    world.workload(condition("QuotaReserved", "Suspended", "LocalQueue q is stopped", "False"))
    assert world.says() == (
        "QueueStopped: LocalQueue q is stopped by its administrator: wait until it is started, or use another queue"
    )
    next(obj for obj in world.objects if obj["kind"] == "ClusterQueue")["spec"]["stopPolicy"] = "Hold"
    assert "ClusterQueue c is stopped" in world.says()


def test_an_admission_check_is_open() -> None:
    world = World(jobset=False)
    world.workload(
        condition("QuotaReserved", "QuotaReserved"),
        condition("Admitted", "NoChecks", status="False"),
        admissionChecks=[{"name": "provisioning", "state": "Pending", "message": "a node group is being made"}],
    )
    assert world.says() == (
        "AdmissionCheckPending: the job has its quota and waits for admission check provisioning: a node group is "
        "being made"
    )


def test_a_job_that_was_admitted_and_is_not_resumed() -> None:
    world = World(jobset=False)
    workload = world.workload(condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted"))
    admitted, name = workload["status"]["conditions"][1], workload["metadata"]["name"]
    admitted["lastTransitionTime"] = at(5)
    assert world.says() == f"QueueFull: Kueue has admitted Workload {name}, and the job is about to be resumed"
    assert world.explained().exit_code == 3
    admitted["lastTransitionTime"] = at(61)
    assert world.says() == (
        f"QueueFull: Kueue has admitted Workload {name}, but has not resumed the job: ask the administrator; the log "
        "of Kueue's manager says why"
    )
    assert world.explained().exit_code == 1


def test_a_job_that_kueue_has_resumed_and_that_recovers_is_not_the_queues() -> None:
    """Its JobSet is suspended between two attempts."""
    world = World()
    world.without_pods()
    world.workload(condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted", ago=3600))
    world.job["spec"]["suspend"] = False
    world.jobset["spec"] |= {"suspend": True, "failurePolicy": {"rules": [{"name": "infra"}]}}
    summary = Summary(judged=1, hold_until=at(-9), why="rank 0 failed with exit code 1", paid="1 of 3 retries used")
    world.add("v1", "ConfigMap", "j-failures", owner=world.job, data={KEY: text_of(summary)})
    assert world.says().startswith("Restarting: attempt 2 begins at ")
    assert world.explained().exit_code == 3


def test_an_eviction_is_told_before_its_pods_have_ended() -> None:
    world = World(jobset=False)
    world.workload(
        condition("QuotaReserved", "QuotaReserved", ago=3600),
        condition("Admitted", "Admitted", ago=3600),
        condition("Evicted", "Preempted", "Preempted to accommodate a workload"),
    )
    assert world.says() == (
        "EvictedByQueue: Kueue stops the job (preempted by a job of higher priority): it is queued again once its pods "
        "have ended"
    )
    assert world.explained().exit_code == 3


def test_taken_out_of_the_queue_again() -> None:
    world = World(jobset=False)
    world.workload(
        condition("QuotaReserved", "Pending", "Preempted to accommodate a workload", "False"),
        condition("Evicted", "Preempted", "Preempted to accommodate a workload"),
    )
    assert world.says() == (
        "EvictedByQueue: Kueue stopped the job (preempted by a job of higher priority); it is queued again in queue q "
        "(ClusterQueue c) and starts by itself"
    )


def test_deactivated() -> None:
    world = World(jobset=False)
    world.workload(condition("Evicted", "Deactivated", "it was requeued 3 times"))["spec"]["active"] = False
    assert world.says() == (
        "EvictedByQueue: Workload trainjob-j is deactivated (it was requeued 3 times): set its spec.active to true to "
        "queue the job again"
    )
    assert world.explained().exit_code == 1


def test_the_jobset_waits_in_a_queue() -> None:
    world = World()
    world.without_pods()
    message = "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"
    workload = world.workload(condition("QuotaReserved", "Pending", message, "False"))
    world.job["spec"]["suspend"] = False
    world.jobset["spec"]["suspend"] = True
    workload["metadata"]["ownerReferences"][0]["uid"] = world.jobset["metadata"]["uid"]
    assert world.says().startswith("QueueFull: the job waits in queue q (ClusterQueue c): 8 more nvidia.com/gpu")


def test_labelled_for_a_queue_and_not_queued() -> None:
    world = World(jobset=False)
    world.job["spec"]["suspend"] = True
    world.job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert "there is no Workload for it: Kueue is not installed" in world.says()
    assert world.says().startswith("NotQueued: ")
    world.unserved = ()
    world.add("kueue.x-k8s.io/v1beta1", "LocalQueue", "q", spec={"clusterQueue": "c"})
    assert "Kueue does not manage TrainJobs" in world.says()
    world.job["metadata"]["creationTimestamp"] = at(20)
    assert world.says().startswith("QueueFull: ")


def test_another_controller_is_responsible() -> None:
    world = World(jobset=False)
    world.job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert world.says() == (
        "ManagedElsewhere: the job is managed by kueue.x-k8s.io/multikueue (spec.managedBy): it runs in another "
        "cluster, "
        "look there"
    )


def test_a_job_of_another_cluster_waits_in_a_queue_of_this_one() -> None:
    world = World(jobset=False)
    workload = world.workload(condition("QuotaReserved", "Pending", UNUSED.format("a", 2), "False"))
    world.job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert world.says().startswith("QueueFull: the job waits in queue q (ClusterQueue c): 2 more cpu")
    check = {"name": "multikueue", "state": "Pending"}
    workload["status"] = {"conditions": [condition("QuotaReserved", "QuotaReserved")], "admissionChecks": [check]}
    assert world.says() == "AdmissionCheckPending: the job has its quota and waits for admission check multikueue"
    workload["status"] = {"conditions": [condition("Admitted", "Admitted")]}
    managed = "ManagedElsewhere: the job is managed by kueue.x-k8s.io/multikueue (spec.managedBy): queue q admitted it"
    assert world.says() == f"{managed}, and it runs in another cluster, look there"
    workload["status"] = {**workload["status"], "clusterName": "worker-1"}
    assert world.says() == f"{managed}, and it runs in cluster worker-1, look there"


def test_no_manager_works() -> None:
    world = World(jobset=False)
    assert world.says() == (
        "ManagerMissing: no manager has looked at the job since it was created: no Deployment, Lease or webhook of a "
        "manager was found in this cluster; install or start one"
    )
    lease = world.add(
        "coordination.k8s.io/v1",
        "Lease",
        "trainer.kubeflow.org",
        namespace="kubeflow-system",
        spec={"holderIdentity": "manager-1_x", "renewTime": "2026-11-22T13:00:00.000000Z", "leaseDurationSeconds": 15},
    )
    assert "no manager holds Lease trainer.kubeflow.org (last renewed 2026-11-22T13:00:00Z)" in world.says()
    lease["spec"]["renewTime"] = at(2)
    assert "the manager manager-1 leads, and has not come to it" in world.says()
    assert world.explained().exit_code == 3
    world.job["metadata"]["creationTimestamp"] = at(10)
    assert world.says().startswith("Starting: ")


def test_the_manager_is_found_wherever_it_is() -> None:
    world = World(jobset=False)
    labels = {"app.kubernetes.io/name": "kubeflow-trainer", "app.kubernetes.io/component": "manager"}
    says = "ManagerMissing: no manager has looked at the job since it was created: "
    service = {"namespace": "team", "name": "s"}
    webhooks = world.add(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validator.trainer.kubeflow.org",
        namespace="",
        webhooks=[{"clientConfig": {"service": service}}],
    )
    assert world.says() == f"{says}is a manager running? See `kubectl get pods,leases -n team`"
    world.add("apps/v1", "Deployment", "other", namespace="apps", labels={"app.kubernetes.io/component": "manager"})
    deployment = world.add("apps/v1", "Deployment", "mine", namespace="training", labels=labels)
    assert world.says() == f"{says}is a manager running? See `kubectl get pods,leases -n training`"
    # Its Lease may have another name.
    lease = world.add(
        "coordination.k8s.io/v1",
        "Lease",
        "another",
        namespace="training",
        spec={"holderIdentity": "mine-7d_x", "renewTime": "2026-11-22T13:00:00.000000Z"},
    )
    told = (
        f"{says}no manager holds Lease another of namespace training (last renewed 2026-11-22T13:00:00Z); start the "
        "manager"
    )
    assert world.says() == told
    assert str(world.explained().cause.about) == "Lease training/another"
    lease["metadata"]["name"] = "trainer.kubeflow.org"
    for obj in (webhooks, deployment):
        world.objects.remove(obj)
    assert world.says() == told.replace("another", "trainer.kubeflow.org")


def test_without_a_right_to_look_no_command_is_made_up() -> None:
    world = World(jobset=False)
    world.unreadable = ("leases", "deployments", "validatingwebhookconfigurations")
    assert world.says() == (
        "ManagerMissing: no manager has looked at the job since it was created: is a manager running? Where it runs "
        "may not be read: ask its administrator"
    )


def test_jobset_is_not_installed() -> None:
    world = World(jobset=False)
    world.unserved = (*world.unserved, "jobset.x-k8s.io")
    assert world.says().startswith("JobSetMissing: JobSet is not installed in this cluster")


@pytest.mark.parametrize(
    ("webhook", "who"),
    [
        ("mjobset.kb.io", "the JobSet controller"),
        ("jobset.example.com", "the JobSet controller"),
        ("policy.example.com", "the program behind it"),
    ],
)
def test_a_webhook_of_jobsets_does_not_answer(webhook: str, who: str) -> None:
    world = World(jobset=False)
    message = (
        f'jobsets/j: Internal error occurred: failed calling webhook "{webhook}": failed to call webhook: Post '
        '"https://127.0.0.1:1/mutate": dial tcp 127.0.0.1:1: connect: connection refused'
    )
    world.blocked("ApplyRefused", message)
    assert world.says() == (
        f"WebhookUnreachable: jobsets/j cannot be made: webhook {webhook} does not answer; is {who} running?"
    )
    assert world.explained().exit_code == 3


def test_on_kubeflow_trainer_the_event_tells_it() -> None:
    world = World(jobset=False)
    world.event(
        world.job,
        "TrainJobResourcesCreationFailed",
        'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook',
    )
    assert world.says().startswith("WebhookUnreachable: jobsets/j cannot be made: webhook mjobset.kb.io")


def test_the_manager_may_not() -> None:
    world = World(jobset=False)
    message = (
        'jobsets/j: jobsets.jobset.x-k8s.io "j" is forbidden: User "system:serviceaccount:kubeflow-system:manager" '
        'cannot patch resource "jobsets" in API group "jobset.x-k8s.io" in the namespace "n"'
    )
    world.blocked("ApplyRefused", message)
    assert world.says() == (
        "ManagerForbidden: the manager (kubeflow-system/manager) may not patch jobsets in namespace n: its "
        "administrator "
        "must apply the roles that `trainwright rbac` prints"
    )


def test_the_name_is_too_long() -> None:
    world = World(jobset=False)
    world.job["metadata"]["name"] = "x" * 60
    message = 'jobsets/x: admission webhook "vjobset.kb.io" denied the request: JobSet name is too long, job names'
    world.blocked("ApplyRefused", message)
    assert world.says() == (
        f"NameTooLong: the name {'x' * 60} makes pod names of 75 characters, and 63 are allowed: create the job "
        "again with "
        "a name that is shorter by 12"
    )


def test_the_name_is_taken() -> None:
    world = World(jobset=False)
    world.add("jobset.x-k8s.io/v1alpha2", "JobSet", "j", spec={})
    told = (
        "NameTaken: JobSet j exists already and was not made for this job: delete it, or "
        "create the job under another name"
    )
    assert world.says() == told
    world.blocked("ApplyRefused", "JobSet j exists without a controller and was not changed: delete or rename it")
    assert world.says() == told


def test_the_snapshot_was_spoiled() -> None:
    world = World(jobset=False)
    world.blocked(
        "SnapshotInvalid", "ConfigMap j-runtime-snapshot has no key runtime; delete it, and a new snapshot is taken"
    )
    assert world.says() == (
        "SnapshotInvalid: ConfigMap j-runtime-snapshot has no key runtime; delete it, and a new snapshot is taken"
    )


def test_a_plugin_refuses() -> None:
    world = World(jobset=False)
    world.blocked("BuildFailed", "plugin MPI: mpiImplementation '' is not supported; use OpenMPI")
    assert world.says() == (
        "BuildFailed: the MPI plugin refuses the job: mpiImplementation '' is not supported; use OpenMPI; correct the "
        "runtime, or use another one"
    )


def test_quota_for_jobsets() -> None:
    world = World(jobset=False)
    message = (
        'jobsets/j: jobsets.jobset.x-k8s.io "j" is forbidden: exceeded quota: q, requested: '
        "count/jobsets.jobset.x-k8s.io=1, used: count/jobsets.jobset.x-k8s.io=0, limited: "
        "count/jobsets.jobset.x-k8s.io=0"
    )
    world.blocked("ApplyRefused", message)
    assert world.says() == (
        "ObjectQuotaExceeded: ResourceQuota q allows 0 jobsets.jobset.x-k8s.io in namespace n, and 0 are used: delete "
        "finished jobs, or ask for a larger quota"
    )


def test_a_quota_that_is_not_counted_yet() -> None:
    world = World(jobset=False)
    resource = "count/jobsets.jobset.x-k8s.io"
    refused = 'jobsets.jobset.x-k8s.io "j" is forbidden: status unknown for quota'
    world.blocked("ApplyRefused", f"jobsets/j: {refused}: q, resources: {resource}")
    assert world.says() == (
        "ObjectQuotaExceeded: ResourceQuota q of namespace n is not counted yet for jobsets.jobset.x-k8s.io; it is "
        "tried again"
    )
    world.add("v1", "ResourceQuota", "q", spec={"hard": {resource: "0"}})
    assert world.says() == (
        "ObjectQuotaExceeded: ResourceQuota q allows 0 jobsets.jobset.x-k8s.io in namespace n: ask for a larger quota"
    )


def test_the_gang_scheduler_is_not_installed() -> None:
    world = World(jobset=False)
    world.blocked(
        "BuildFailed",
        "the cluster does not serve PodGroup of scheduling.volcano.sh/v1beta1, which the runtime needs: install "
        "Volcano "
        "(https://volcano.sh) and restart the manager, or use another runtime",
    )
    assert world.says() == (
        "GangSchedulerMissing: ClusterTrainingRuntime torch needs Volcano, which this cluster does not have: install "
        "it "
        "and restart the manager, or use another runtime"
    )


def test_an_unknown_refusal_is_quoted() -> None:
    world = World(jobset=False)
    world.blocked("ApplyRefused", 'jobsets/j: admission webhook "policy.example.com" denied the request: no team label')
    assert world.says() == (
        "Refused: an object of the job is refused: jobsets/j: admission webhook "
        '"policy.example.com" denied the request: '
        "no team label"
    )
