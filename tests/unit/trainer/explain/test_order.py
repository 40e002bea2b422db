# SPDX-License-Identifier: Apache-2.0
"""Several faults at once: which one is said first, and what the others add."""

from collections.abc import Iterable

from tests.builders import counts
from tests.unit.trainer.explain.world import NOW, World, at, condition
from trainwright.controller.trainer.why import GivenObjects, explain
from trainwright.controller.trainer.why.catalogue import CATALOGUE
from trainwright.controller.trainer.why.job import scheduling
from trainwright.plugins.contract import Cause, Link, Picture

GPU = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
SELECTOR = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


def reasons(world: World) -> list[str]:
    found = world.explained()
    return [found.cause.reason, *(cause.reason for cause in found.others)]


def test_the_first_rank_that_failed_and_not_the_job_that_counts_it() -> None:
    world = World()
    world.terminated(3, 1, ago=100)
    for index in range(3):
        world.terminated(index, 143, ago=98)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["status"] = {"conditions": [condition("Failed", "BackoffLimitExceeded")]}
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    assert world.says() == (
        "RankFailed: rank 3 failed with exit code 1; 3 others were stopped after it; see `kubectl logs "
        "j-node-0-3-abcde`"
    )
    assert reasons(world) == ["RankFailed"]


def test_a_reason_goes_before_a_number() -> None:
    world = World()
    world.terminated(0, 1, ago=100)
    world.terminated(1, 137, ago=100, reason="OOMKilled")
    assert world.says().startswith("OutOfMemory: rank 1 was killed for memory")


def test_an_image_that_is_missing_goes_before_a_shortage() -> None:
    world = World()
    world.waiting("ImagePullBackOff", "not found", 0, 1)
    world.unschedulable(GPU, 2, 3)
    assert reasons(world) == ["ImageMissing", "NoFreeNode"]
    assert "2 of 4 pods cannot pull" in world.says()


def test_a_suspended_job_without_its_runtime_would_not_start() -> None:
    world = World(jobset=False)
    world.job["spec"]["suspend"] = True
    world.objects.remove(world.runtime)
    world.blocked("RuntimeMissing", "ClusterTrainingRuntime torch does not exist: create it, or delete this TrainJob")
    assert reasons(world) == ["RuntimeMissing", "SuspendedByOwner"]


def test_a_queued_job_whose_pods_still_end() -> None:
    world = World(pods=2)
    message = "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"
    world.workload(condition("QuotaReserved", "Pending", message, "False"))
    for pod in world.pods:
        pod["metadata"]["deletionTimestamp"] = at(-20)
    assert reasons(world) == ["QueueFull", "PodsEnding"]
    assert world.explained().others[0].message == "2 pods of the job are still ending"


def test_a_failure_goes_before_the_quota_that_refuses_its_replacement() -> None:
    world = World(pods=1)
    world.terminated(0, 1)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["status"] = {"active": 0, "failed": 1}
    name = "requests.nvidia.com/gpu"
    refusal = f'pods "x" is forbidden: exceeded quota: q, requested: {name}=8, used: {name}=0, limited: {name}=8'
    world.event(job, "FailedCreate", f"Error creating: {refusal}", ago=5)
    assert reasons(world) == ["RankFailed", "QuotaExceeded"]


def test_the_scheduler_stops_at_a_claim() -> None:
    world = World()
    world.unschedulable('0/1 nodes are available: persistentvolumeclaim "data" not found.')
    for pod in world.pods:
        pod["spec"]["nodeSelector"] = {"nowhere": "yes"}
    assert reasons(world) == ["ClaimMissing"]
    world.unschedulable_message(SELECTOR)
    assert reasons(world) == ["NoNodeMatches"]


def test_the_image_of_the_initializer_and_not_the_step_that_waits() -> None:
    world = World(steps=("dataset-initializer",))
    world.waiting("ImagePullBackOff", "not found")
    assert reasons(world) == ["ImageMissing"]


def test_a_deadline_with_what_the_gang_waited_for() -> None:
    world = World(jobset=False)
    world.job["spec"]["activeDeadlineSeconds"] = 60
    world.ended("Failed", "DeadlineExceeded")
    pod = {"kind": "Pod", "metadata": {"name": "j-node-0-0-x", "uid": "gone"}}
    world.event(pod, "FailedScheduling", 'PodGroup n/j gets rejected due to Pod "x" is unschedulable')
    assert "before that: its pods waited for a node (PodGroup n/j gets rejected" in world.says()


def test_a_shortage_of_a_later_attempt_names_the_attempt() -> None:
    world = World()
    world.jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    world.jobset["status"] |= {"restarts": 2, "restartsCountTowardsMax": 2}
    world.jobset["status"]["conditions"] = [condition("RestartingJobSet", "Restarting", "it restarts")]
    for number in range(3):
        world.add_node(f"other-{number}", {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8"})
    for pod in world.pods:
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = "2"
    world.unschedulable(GPU)
    assert world.says() == (
        "NoFreeNode: 4 of 4 pods wait for 8 nvidia.com/gpu each: there are nodes of that size, and other pods use "
        "them; wait, or ask for less; attempt 3 of 4"
    )
    assert reasons(world) == ["NoFreeNode"]


def test_a_service_of_another_while_all_pods_run() -> None:
    world = World()
    service = next(obj for obj in world.objects if obj["kind"] == "Service")
    service["spec"] = {"clusterIP": "10.0.0.1", "selector": {"app": "web"}}
    assert reasons(world) == ["ServiceTaken"]
    assert world.explained().exit_code == 1


def test_a_lost_node_and_the_pod_that_replaces_its_pod() -> None:
    world = World(pods=1)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    world.pods[0]["spec"]["nodeName"] = "gone"
    world.pods[0]["metadata"]["deletionTimestamp"] = at(20)
    world.pods[0]["status"]["conditions"] = [condition("DisruptionTarget", "DeletionByPodGC", ago=60)]
    replacement = world.add_pod(job, "node", 0, ago=40)
    replacement["metadata"]["name"] = "j-node-0-0-other"
    world.unschedulable(GPU, 1, ago=30)
    assert reasons(world) == ["NodeLost", "NoFreeNode"]


# ---------------------------------------------------------------------- other rules


def test_ranks_of_an_earlier_attempt_are_no_causes() -> None:
    world = World()
    world.jobset["status"]["restarts"] = 1
    for pod in world.pods[1:]:
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = "1"
    world.terminated(0, 1)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    world.add_pod(job, "node", 0, attempt=1)["metadata"]["name"] = "j-node-0-0-next"
    assert world.says() == "Running: 4 of 4 pods run, attempt 2 of 2"


def test_a_failed_pod_whose_replacement_runs_is_a_note() -> None:
    world = World()
    world.terminated(1, 1)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    replacement = world.add_pod(job, "node", 1, ago=60)
    replacement["metadata"] |= {"name": "j-node-0-1-other", "uid": "other"}
    found = world.explained()
    assert found.cause.message == "4 of 4 pods run, attempt 1"
    assert [one.message for one in found.others] == ["rank 1 has failed 1 time, first with exit code 1, and runs again"]
    world.pods[1]["status"]["conditions"].append(condition("DisruptionTarget", "PreemptionByScheduler"))
    assert reasons(world) == ["Running"]


def test_a_failed_pod_and_its_replacement_count_as_one() -> None:
    world = World(pods=2)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    world.terminated(0, 1)
    again = world.add_pod(job, "node", 0, ago=60)
    again["metadata"] |= {"name": "j-node-0-0-again", "uid": "again"}
    world.unschedulable(GPU, 2)
    found = world.explained()
    assert found.cause.message == "rank 0 failed with exit code 1; see `kubectl logs j-node-0-0-abcde`"
    (other,) = found.others
    assert other.message.startswith("1 of 2 pods waits for 8 nvidia.com/gpu: together, the nodes that match have room ")
    world.terminated(2, 1, ago=20)
    assert world.explained().cause.message == found.cause.message


def test_pods_of_a_step_that_has_ended_are_not_waited_for() -> None:
    world = World(steps=("dataset-initializer",))
    world.jobset["status"]["replicatedJobsStatus"][0]["succeeded"] = 1
    world.without_pods()
    job = world.add_job("node", 4)
    assert world.says() == "Running: 4 of 4 pods run, attempt 1"
    assert job["status"] == {"active": 4}


def test_the_states_that_have_just_begun_are_not_said() -> None:
    world = World()
    world.unschedulable(GPU, ago=scheduling.UNSCHEDULABLE_SECONDS - 1)
    assert world.says() == "Starting: the job is starting: 0 of 4 pods run, attempt 1"
    world.waiting("ErrImagePull", "not found", 0)
    world.pods[0]["status"]["conditions"] = [condition("PodScheduled", "", ago=5)]
    assert world.says().startswith("Starting: ")


def test_a_job_whose_pod_was_deleted_is_not_starting() -> None:
    world = World(pods=1)
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    world.without_pods()
    job["status"] = {"failed": 1}
    found = world.explained().cause.message
    assert found == "a pod has ended, and its Job makes another one in its place: 0 of 1 pod run, attempt 1"


def test_a_job_that_is_over_says_nothing_of_what_waited_elsewhere() -> None:
    world = World()
    world.terminated(1, 1)
    world.unschedulable(GPU, 2, 3)
    world.ended("Failed", "FailedJobs", "jobset failed")
    assert reasons(world) == ["RankFailed"]


NODE = counts(active=1)


def test_without_the_right_to_read_pods_the_status_and_the_rights_are_said() -> None:
    world = World()
    world.unreadable = ("pods", "events")
    world.job["status"] = {"jobsStatus": [{**NODE, "ready": 1}]}
    assert world.explained().cause.message == (
        "the pods of all replicated jobs are ready, by the status of the job; pods may not be read"
    )
    world.job["status"] = {"jobsStatus": [NODE]}
    found = world.explained()
    assert found.cause.message == (
        "pods of node are not ready, by the status of the job; pods may not be read, which would say why"
    )
    assert found.exit_code == 3
    assert "no right to list pods in namespace n" in found.unread


def test_a_user_with_the_usual_rights_reads_neither_jobsets_nor_nodes() -> None:
    world = World()
    world.unreadable = ("jobsets", "nodes")
    assert world.says() == "Running: 4 of 4 pods run, attempt 1"
    world.unschedulable(GPU, 2, 3, ago=5)
    assert world.says() == "Starting: the job is starting: 2 of 4 pods run, attempt 1"
    for pod in world.pods[2:]:
        pod["status"]["conditions"][0]["lastTransitionTime"] = at(60)
    assert world.says().startswith("NoFreeNode: 2 of 4 pods wait for 8 nvidia.com/gpu each")
    world.failed_create('pods "x" is forbidden: no PriorityClass with name gold was found')
    assert world.says().startswith("PriorityClassMissing: ")
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod")]
    assert world.says() == "Starting: the job has no pods yet; JobSets may not be read, which could say why"


def test_nothing_may_be_read_but_the_job() -> None:
    world = World()
    world.unreadable = ("pods", "events", "jobs", "jobsets", "services", "configmaps", "clustertrainingruntimes")
    assert (world.explained().outcome, world.explained().exit_code) == ("Pending", 3)
    assert "no right to get jobsets.jobset.x-k8s.io in namespace n" in world.explained().unread


def test_the_sentence_does_not_depend_on_the_order_of_objects() -> None:
    world = World()
    world.waiting("ImagePullBackOff", "not found", 0, 1)
    world.unschedulable(GPU, 2, 3)
    before = world.explained()
    world.objects.reverse()
    assert world.explained() == before


def test_a_plugin_that_fails_hides_nothing() -> None:
    class Broken:
        name = "Broken"

        def explain(self, picture: Picture) -> Iterable[Cause]:  # noqa: ARG002 - the contract's
            raise KeyError("x")

    class Acme:
        name = "Acme"

        def explain(self, picture: Picture) -> Iterable[Cause]:  # noqa: ARG002 - the contract's
            yield Cause(reason="AcmeHeld", message="Acme holds the job", link=Link.SCHEDULING)

    world = World()
    picture = GivenObjects(world.objects, unserved=world.unserved).picture(world.job, NOW)
    found = explain(picture, (Broken(), Acme()))
    assert (found.cause.message, found.exit_code) == ("Acme holds the job", 1)
    [unread] = found.unread
    assert unread.startswith("what plugin Broken knows: explain failed: KeyError: 'x' (")


def test_every_number_stands_for_one_reason() -> None:
    numbers = sorted(entry.number for entry in CATALOGUE.values() if entry.number)
    assert numbers == [number for number in range(1, 71) if number != 43]  # 43 is 42 with another scheduler
