# SPDX-License-Identifier: Apache-2.0
"""Faults of containers that cannot start, of those that run, and of jobs that are over."""

import json
from datetime import timedelta

import pytest

from tests.unit.trainer.explain.world import NOW, World, at, condition, container
from tests.unit.trainer.test_last_words import summary
from trainwright.api.manifest import dump
from trainwright.api.times import format_time
from trainwright.plugins.contract import About

# ---------------------------------------------------------------------- containers cannot start


def test_the_image_does_not_exist() -> None:
    world = World()
    world.waiting(
        "ImagePullBackOff",
        'Back-off pulling image "train:v9": ErrImagePull: failed to resolve reference '
        '"docker.io/library/train:v9": not found',
    )
    assert world.says() == (
        "ImageMissing: 4 of 4 pods cannot pull train:v9: there is no such image or tag; correct spec.trainer.image in "
        "a new job"
    )


def test_of_a_back_off_without_words_the_event_tells() -> None:
    world = World(pods=1)
    world.waiting("ImagePullBackOff", 'Back-off pulling image "train:v9"')
    world.event(world.pods[0], "Failed", 'Failed to pull image "train:v9": manifest unknown')
    assert world.says().startswith("ImageMissing: 1 of 1 pod cannot pull train:v9: there is no such image or tag")


def test_the_registry_refuses() -> None:
    world = World()
    world.waiting("ErrImagePull", "pull access denied, repository does not exist or may require authorization: 401")
    assert world.says() == (
        "ImageForbidden: 4 of 4 pods cannot pull train:v9 (spec.trainer.image): the registry refuses it; the pods have "
        "no imagePullSecrets: add one to the runtime or to their service account"
    )
    for pod in world.pods:
        pod["spec"]["imagePullSecrets"] = [{"name": "pull"}]
    assert "Secret pull of imagePullSecrets does not exist in namespace n: create it" in world.says()


def test_the_registry_does_not_answer() -> None:
    world = World()
    world.waiting("ErrImagePull", 'failed to pull "train:v9": dial tcp 10.0.0.1:443: i/o timeout')
    assert world.says() == ("RegistryUnavailable: 4 of 4 pods cannot pull train:v9 now: i/o timeout; it is tried again")
    assert world.explained().exit_code == 3


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "couldn't find key k in Secret n/s",
            (
                "variable TOKEN of container node comes from Secret s, which has no key k: add the key, or correct the "
                "variable in a new job"
            ),
        ),
        (
            'secret "s" not found',
            (
                "variable TOKEN of container node comes from Secret s, which does not exist in "
                "namespace n: create it, or "
                "correct the variable in a new job"
            ),
        ),
    ],
)
def test_the_source_of_a_variable_is_missing(message: str, told: str) -> None:
    world = World()
    world.waiting("CreateContainerConfigError", message)
    for pod in world.pods:
        reference = {"secretKeyRef": {"name": "s", "key": "k"}}
        pod["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "valueFrom": reference}]
    assert world.says() == f"VariableSourceMissing: {told}"


def test_the_source_of_a_volume_is_missing() -> None:
    world = World(pods=1)
    world.waiting("ContainerCreating")
    world.pods[0]["spec"]["volumes"] = [{"name": "cfg", "configMap": {"name": "c"}}]
    told = (
        "VolumeSourceMissing: volume cfg is made from ConfigMap c, which does not exist in namespace n: create it, or "
        "correct the runtime and create the job again"
    )
    assert world.says() == told
    world.event(world.pods[0], "FailedMount", 'MountVolume.SetUp failed for volume "cfg" : configmap "c" not found')
    assert world.says() == told


def test_a_claim_that_the_node_misses_is_said_before_the_slow_start() -> None:
    world = World(pods=1)
    world.waiting("ContainerCreating")
    message = 'MountVolume.SetUp failed for volume "data" : persistentvolumeclaim "nodata" not found'
    world.event(world.pods[0], "FailedMount", message, ago=20)
    assert world.says() == (
        "VolumeSourceMissing: volume data is made from PersistentVolumeClaim nodata, which does not exist in namespace "
        "n: create it, or correct the runtime and create the job again"
    )
    assert not world.explained().others


def test_a_volume_that_cannot_be_mounted_is_said_before_the_slow_start() -> None:
    world = World(pods=1)
    world.waiting("ContainerCreating")
    world.event(world.pods[0], "FailedMount", 'MountVolume.SetUp failed for volume "nfs" : no route', ago=20)
    found = world.explained()
    assert (found.cause.reason, found.others) == ("VolumeNotMounted", ())


def test_all_variables_of_a_secret_that_is_missing() -> None:
    world = World(pods=1)
    world.waiting("CreateContainerConfigError", 'secret "s" not found')
    world.pods[0]["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "s"}}]
    assert world.says() == (
        "VariableSourceMissing: envFrom of container node comes from Secret s, which does not exist in namespace n: "
        "create it, or correct envFrom in a new job"
    )


def test_a_container_that_cannot_be_created_is_quoted() -> None:
    world = World(pods=1)
    world.waiting("CreateContainerError", "no command specified")
    assert world.says() == "ContainerNotStarted: container node of rank 0 cannot be started: no command specified"
    world.waiting("RunContainerError")
    assert world.says() == (
        "ContainerNotStarted: container node of rank 0 cannot be started: see `kubectl describe pod j-node-0-0-abcde`"
    )


def test_the_shell_says_which_program_is_missing() -> None:
    world = World(pods=1)
    world.terminated(0, 127)
    world.logs["j-node-0-0-abcde/node"] = ["sh: 1: trainit: not found"]
    assert world.says() == (
        "ProgramMissing: container node of rank 0 cannot run its command: a program is not in the image (exit code "
        "127); correct the command in the runtime or the image in a new job; its log ends with: sh: 1: trainit: not "
        "found"
    )


def test_a_container_that_runs_now_has_its_program() -> None:
    world = World(pods=1)
    ended = {"terminated": {"exitCode": 127, "reason": "Error", "finishedAt": at(50)}}
    world.pods[0]["status"]["containerStatuses"] = [
        container("node", {"running": {"startedAt": at(40)}}, restarts=1, last=ended)
    ]
    assert world.says() == "Running: 1 of 1 pod runs, attempt 1"


def test_the_command_does_not_exist() -> None:
    world = World(pods=1)
    message = 'failed to create containerd task: exec: "torchrun": executable file not found in $PATH: unknown'
    world.terminated(0, 128, reason="StartError", message=message)
    told = (
        "ProgramMissing: container node of rank 0 cannot run torchrun: it is not in the image; correct the command "
        "in the "
        "runtime or the image in a new job"
    )
    assert world.says() == told
    world.waiting(
        "CrashLoopBackOff",
        "back-off",
        restarts=3,
        last={"terminated": {"exitCode": 128, "reason": "StartError", "message": message}},
    )
    assert world.says() == told


def test_an_initializer_fails() -> None:
    world = World(steps=("dataset-initializer",))
    world.job["spec"]["initializer"] = {"dataset": {"storageUri": "hf://a/b"}}
    world.terminated(0, 1)
    world.logs["j-dataset-initializer-0-0-abcde/node"] = ["…", "401: the dataset is private", ""]
    assert world.says() == (
        "InitializerFailed: dataset-initializer failed with exit code 1, so training has not begun; storageUri is "
        "hf://a/b; "
        "its log ends with: 401: the dataset is private"
    )


def test_a_download_fails_and_its_sentence_is_the_cause() -> None:
    """Without any log: users may have no right to read it."""
    world = World(steps=("model-initializer",))
    world.job["spec"]["initializer"] = {"model": {"storageUri": "hf://o/n"}}
    sentence = "model o/n needs a token: put ACCESS_TOKEN into a Secret and name it in spec.initializer.model.secretRef"
    world.terminated(0, 1, message=f'{sentence}\n{{"state":"failed"}}\n')
    assert world.says() == f"InitializerFailed: model-initializer failed: {sentence}; storageUri is hf://o/n"
    # A sentence is not cut for the sake of the address, which the user knows.
    sentence = f"{'long ' * 50}end"
    world.terminated(0, 1, message=sentence)
    assert world.says() == f"InitializerFailed: model-initializer failed: {sentence}"


def test_a_message_that_is_a_progress_document_or_the_log_is_no_sentence() -> None:
    world = World(steps=("dataset-initializer",))
    world.terminated(0, 1, message='{"state": "failed"}')
    assert "failed with exit code 1, so training has not begun" in world.says()
    world = World(steps=("dataset-initializer",))
    world.pods[0]["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    world.terminated(0, 1, message="Traceback (most recent call last):")
    assert "failed with exit code 1, so training has not begun" in world.says()


def test_an_init_container_fails() -> None:
    world = World(pods=1)
    world.waiting("PodInitializing")
    state = {"exitCode": 1, "reason": "Error", "finishedAt": at(50)}
    world.pods[0]["status"]["initContainerStatuses"] = [container("fetch", {"terminated": state})]
    assert world.says() == (
        "InitializerFailed: init container fetch of rank 0 failed with exit code 1, so training has not begun; "
        "see `kubectl logs j-node-0-0-abcde -c fetch`"
    )


def test_an_initializer_is_killed_for_memory() -> None:
    world = World(steps=("dataset-initializer",))
    world.terminated(0, 137, reason="OOMKilled")
    assert world.says().startswith("OutOfMemory: dataset-initializer was killed for memory (OOMKilled, exit code 137)")


def test_a_pod_that_failed_as_a_whole() -> None:
    world = World()
    message = "Pod was active on the node longer than the specified deadline"
    world.pods[1]["status"] = {"phase": "Failed", "reason": "DeadlineExceeded", "message": message}
    assert world.says() == f"RankFailed: rank 1 failed (DeadlineExceeded: {message})"


def test_the_node_refuses_the_pod() -> None:
    world = World()
    world.pods[1]["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to no healthy devices present; cannot allocate nvidia.com/gpu",
    }
    assert world.says() == (
        "NodeRefusedPod: node big refused rank 1 (UnexpectedAdmissionError: Allocate failed due to no healthy devices "
        "present; cannot allocate nvidia.com/gpu); the Job makes another pod; if that happens again, ask the "
        "administrator "
        "to check the node"
    )
    assert world.explained().exit_code == 3


def test_the_sandbox_cannot_be_made() -> None:
    world = World()
    world.waiting("ContainerCreating", "", 0)
    world.event(world.pods[0], "FailedCreatePodSandBox", "Failed to create pod sandbox: no IP addresses available")
    assert world.says() == (
        "SandboxFailed: node big cannot set up the network of rank 0: Failed to create pod sandbox: no IP addresses "
        "available; it is tried again; ask the administrator of the node"
    )


# ---------------------------------------------------------------------- running


def test_out_of_memory() -> None:
    world = World()
    world.terminated(2, 137, reason="OOMKilled")
    assert world.says() == (
        "OutOfMemory: rank 2 was killed for memory (OOMKilled, exit code 137): container node may use 16Gi; ask for "
        "more "
        "memory, or use less"
    )


def test_one_rank_fails_and_others_are_stopped() -> None:
    world = World()
    world.terminated(3, 1, ago=100, startedAt=at(340))
    for index in range(3):
        world.terminated(index, 143, ago=98)
    world.logs["j-node-0-3-abcde/node"] = ["Traceback", "ValueError: no data"]
    assert world.says() == (
        "RankFailed: rank 3 failed with exit code 1, 4 minutes after its start; 3 others were stopped after it; its "
        "log ends with: ValueError: no data"
    )


def test_a_probe_that_failed_is_the_reason_of_the_end() -> None:
    world = World()
    pod = world.terminated(2, 137, ago=100, startedAt=at(140))
    pod["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["false"]}}
    end = "RankFailed: rank 2 failed with exit code 137"
    since = ", 40 seconds after its start; see `kubectl logs j-node-0-2-abcde`"
    assert world.says() == f"{end} (killed){since}"
    world.event(pod, "Unhealthy", "Liveness probe failed: too slow", ago=139)
    world.event(pod, "Unhealthy", "Readiness probe failed: not yet", ago=129)
    world.event(pod, "Killing", "Container peer failed liveness probe, will be restarted", ago=130, kind="Normal")
    # Its pod was deleted, ten seconds after the probe had failed once.
    world.event(pod, "Killing", "Stopping container node", ago=129, kind="Normal")
    assert world.says() == f"{end} (killed){since}"
    other = world.event(pod, "Unhealthy", "Liveness probe failed: of another", ago=129)
    other["involvedObject"]["fieldPath"] = "spec.containers{peer}"
    assert world.says() == f"{end} (killed){since}"
    world.event(pod, "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500", ago=130)
    told = "its liveness probe failed: HTTP probe failed with statuscode: 500"
    assert world.says() == f"{end} (stopped since {told}){since}"
    # A program that catches SIGTERM may end with any code.
    world.terminated(2, 1, ago=100, startedAt=at(140))
    assert world.says() == f"RankFailed: rank 2 failed with exit code 1 (stopped since {told}){since}"
    # The run after that has failed by itself.
    world.terminated(2, 137, ago=20, startedAt=at(60))
    assert world.says() == f"{end} (killed){since}"


def test_a_startup_probe_in_a_crash_loop() -> None:
    world = World()
    last = {"terminated": {"exitCode": 143, "startedAt": at(90), "finishedAt": at(30)}}
    world.waiting("CrashLoopBackOff", "back-off", 0, restarts=2, last=last)
    pod = world.pods[0]
    pod["spec"]["containers"][0]["startupProbe"] = {"httpGet": {"port": 8000}}
    world.event(pod, "Unhealthy", "Startup probe failed: ", ago=32)
    world.event(pod, "Killing", "Container node failed startup probe, will be restarted", ago=31, kind="Normal")
    assert world.says().startswith(
        "CrashLoop: container node of rank 0 has failed 2 times, last with exit code 143 (stopped since its startup "
        "probe failed); see"
    )


def test_the_events_of_a_pod_that_is_gone_tell_of_its_probe() -> None:
    world = World()
    pod = world.pods[2]
    world.without_pods()
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    entry = {"attempt": 0, "pod": "j-node-0-2-x", "podUid": pod["metadata"]["uid"], "replicatedJob": "node", "rank": 2}
    entry |= {"container": "node", "exitCode": 143, "reason": "Error", "finishedAt": at(50)}
    record = world.add("v1", "ConfigMap", "j-failures", owner=world.job, data={"attempt-0": dump(entry)})
    assert world.says() == "RankFailed: rank 2 failed with exit code 143"
    world.event(pod, "Unhealthy", "Liveness probe failed: stuck", ago=51)
    world.event(pod, "Killing", "Container node failed liveness probe, will be restarted", ago=51, kind="Normal")
    assert world.says() == (
        "RankFailed: rank 2 failed with exit code 143 (stopped since its liveness probe failed: stuck)"
    )
    record["data"]["attempt-0"] = dump({**entry, "stopped": True})
    assert world.says() == "RankFailed: rank 2 failed with exit code 143"


def test_a_crash_loop() -> None:
    world = World()
    last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at(30)}}
    world.waiting("CrashLoopBackOff", "back-off", 0, restarts=4, last=last)
    assert world.says() == (
        "CrashLoop: container node of rank 0 has failed 4 times, last with exit code 1; see `kubectl logs "
        "j-node-0-0-abcde --previous`; after 6 restarts the Job gives up, "
        "and its "
        "pods are deleted with their logs"
    )


def test_a_container_that_runs_again_is_a_note() -> None:
    world = World()
    last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at(200)}}
    world.pods[1]["status"]["containerStatuses"] = [
        container("node", {"running": {"startedAt": at(190)}}, 1, lastState=last)
    ]
    found = world.explained()
    assert found.cause.message == "4 of 4 pods run, attempt 1"
    assert found.exit_code == 0
    assert [one.message for one in found.others] == ["rank 1 has failed 1 time, first with exit code 1, and runs again"]


def test_preempted() -> None:
    world = World()
    world.terminated(1, 143)["status"]["conditions"].append(condition("DisruptionTarget", "PreemptionByScheduler"))
    assert world.says() == "Preempted: rank 1 had to give way to a pod of higher priority; the pod is made again"
    assert world.explained().exit_code == 3


def test_evicted_by_its_node() -> None:
    world = World()
    message = (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 1Gi. Container node "
        "was using "
        "40Gi, request is 0, has larger consumption of ephemeral-storage. "
    )
    world.pods[1]["status"] = {"phase": "Failed", "reason": "Evicted", "message": message}
    assert world.says() == (
        "EvictedByNode: node big was low on ephemeral-storage and evicted rank 1, which used 40Gi; the pod is made "
        "again; "
        "request what it needs"
    )


VOLUME_FULL = 'Usage of EmptyDir volume "data" exceeds the limit "5Mi". '


def test_a_job_that_an_eviction_ended() -> None:
    world = World()
    world.pods[1]["status"] |= {"phase": "Failed", "reason": "Evicted", "message": VOLUME_FULL}
    world.terminated(1, 137)
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    told = 'EvictedByNode: node big evicted rank 1: Usage of EmptyDir volume "data" exceeds the limit "5Mi".'
    assert world.says() == told
    assert world.explained().exit_code == 1
    # It failed by itself; the other was evicted after that.
    world.terminated(3, 1, ago=300)
    assert world.says().startswith("RankFailed: rank 3 failed with exit code 1")


def test_the_record_of_an_eviction() -> None:
    world = World()
    world.without_pods()
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    entry = {"attempt": 0, "pod": "j-node-0-2-x", "replicatedJob": "node", "rank": 2, "container": ""}
    recorded = {**entry, "reason": "Evicted", "message": VOLUME_FULL}
    world.add("v1", "ConfigMap", "j-failures", owner=world.job, data={"attempt-0": dump(recorded)})
    assert world.says() == (
        'EvictedByNode: its node evicted rank 2: Usage of EmptyDir volume "data" exceeds the limit "5Mi".'
    )
    assert world.explained().exit_code == 1


def test_nothing_is_made_again_for_a_job_that_has_failed() -> None:
    world = World()
    world.terminated(1, 143)["status"]["conditions"].append(condition("DisruptionTarget", "EvictionByEvictionAPI"))
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    assert world.says() == "Preempted: rank 1 was evicted, as when a node is drained"


def test_the_node_is_gone() -> None:
    world = World()
    world.pods[1]["spec"]["nodeName"] = "gone"
    world.pods[1]["status"]["conditions"][1] = condition("Ready", "NodeNotReady", status="False")
    told = "NodeLost: node gone, on which rank 1 ran, does not exist any more; the pod is made again"
    assert world.says() == told
    world.add_node("gone", {})["status"]["conditions"] = [condition("Ready", "NodeStatusUnknown", "", "Unknown")]
    assert world.says() == (
        "NodeLost: node gone, on which rank 1 runs, is not ready: NodeStatusUnknown; the pod is made again if the "
        "node does "
        "not come back"
    )


@pytest.mark.parametrize(("counted", "most"), [({"restartsCountTowardsMax": 1}, 4), ({}, 5)])
def test_a_restart_that_costs_nothing_leaves_more_attempts(counted: dict[str, int], most: int) -> None:
    """JobSet leaves out the number of those that count while it is zero."""
    world = World()
    world.jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    world.jobset["status"] |= {"restarts": 1, **counted}
    world.jobset["status"]["conditions"] = [
        condition("RestartingJobSet", "Restarting", "jobset is restarting (first failed job: j-node-0)")
    ]
    world.objects = [obj for obj in world.objects if obj["kind"] not in ("Job", "Pod")]
    assert world.says().startswith(f"Restarting: attempt 2 of {most} starts: Job j-node-0 failed in the one before")


def test_restarts_are_used_up() -> None:
    world = World()
    world.jobset["spec"]["failurePolicy"] = {"maxRestarts": 3}
    world.jobset["status"]["restarts"] = 3
    for pod in world.pods:
        pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] = "3"
    world.terminated(0, 1)
    world.ended("Failed", "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    assert world.says() == (
        "RestartsExhausted: the job failed after 4 attempts; the last: rank 0 failed with exit code 1; see `kubectl "
        "logs j-node-0-0-abcde`"
    )
    assert world.explained().exit_code == 1


def test_deadline() -> None:
    world = World(jobset=False)
    world.job["spec"]["activeDeadlineSeconds"] = 60
    world.ended("Failed", "DeadlineExceeded", "TrainJob exceeded its activeDeadlineSeconds")
    assert world.says() == (
        "DeadlineExceeded: the job ran out of its time of 60 s (spec.activeDeadlineSeconds); allow more time, or "
        "find out "
        "what took so long"
    )
    pod = {"kind": "Pod", "metadata": {"name": "j-node-0-0-x", "uid": "gone"}}
    world.event(pod, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu. preemption: none")
    assert world.says() == (
        "DeadlineExceeded: the job ran out of its time of 60 s (spec.activeDeadlineSeconds); before that: its pods "
        "waited "
        "for a node (0/1 nodes are available: 1 Insufficient cpu.)"
    )


def test_a_deadline_of_the_runtime() -> None:
    world = World()
    world.without_pods()
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["spec"]["activeDeadlineSeconds"] = 60
    job["status"] = {"conditions": [condition("Failed", "DeadlineExceeded")]}
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    assert world.says() == (
        "JobDeadlineExceeded: the runtime allows a Job 60 s, and Job j-node-0 took longer (DeadlineExceeded); this "
        "is not "
        "the deadline of the TrainJob: change the runtime"
    )


def test_the_evidence_is_gone() -> None:
    world = World()
    world.without_pods()
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["status"] = {"conditions": [condition("Failed", "BackoffLimitExceeded")]}
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    assert world.says() == (
        "EvidenceGone: Job j-node-0 reached its backoff limit, and its pods were deleted with their logs; "
        "to keep them, set restartPolicy: Never in the runtime"
    )
    job["spec"]["template"] = {"spec": {"restartPolicy": "Never"}}
    assert world.says() == (
        "EvidenceGone: Job j-node-0 reached its backoff limit since a pod of it was deleted while it ran: by hand, or "
        "evicted, as when a node is drained; to go on after that, a job needs retries (annotation "
        "trainwright.dev/recovery: gang)"
    )


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        (
            {"exitCode": 128, "reason": "StartError", "message": 'exec: "trainn": executable file not found in $PATH'},
            (
                "ProgramMissing: container node of rank 2 cannot run trainn: it is not in the image; correct the "
                "command in the runtime or the image in a new job"
            ),
        ),
        (
            {"exitCode": 1, "reason": "Error", "message": "loss is not a number"},
            "RankFailed: rank 2 failed with exit code 1: loss is not a number",
        ),
        ({"exitCode": 1, "reason": "Error"}, "RankFailed: rank 2 failed with exit code 1"),
    ],
)
def test_the_record_tells_without_a_log(recorded: dict[str, object], told: str) -> None:
    world = World()
    world.without_pods()
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    entry = {"attempt": 0, "pod": "j-node-0-2-x", "replicatedJob": "node", "rank": 2, "container": "node", **recorded}
    world.add("v1", "ConfigMap", "j-failures", owner=world.job, data={"attempt-0": dump(entry)})
    assert world.says() == told


def test_of_pods_that_are_gone_the_record_tells() -> None:
    world = World()
    world.without_pods()
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["status"] = {"conditions": [condition("Failed", "BackoffLimitExceeded")]}
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    entry = {
        "attempt": 0,
        "pod": "j-node-0-2-x",
        "replicatedJob": "node",
        "rank": 2,
        "container": "node",
        "exitCode": 137,
    }
    data = {"attempt-0": dump({**entry, "reason": "OOMKilled", "finishedAt": at(50)}), "attempt-0.log": "a\nstep 41\n"}
    record = world.add("v1", "ConfigMap", "j-failures", owner=world.job, data=data)
    assert world.says() == (
        "OutOfMemory: rank 2 was killed for memory (OOMKilled, exit code 137): ask for more memory, or use less; "
        "its log ends with: step 41; ConfigMap j-failures "
        "keeps more of the log"
    )
    assert world.explained().exit_code == 1
    record["metadata"]["ownerReferences"] = []
    assert world.says().startswith("EvidenceGone: ")


def test_of_a_culprit_whose_pod_is_gone_the_record_tells_though_its_victims_are_there() -> None:
    world = World()
    world.terminated(0, 1)
    gone = world.pods[1]
    world.objects.remove(gone)
    world.ended("Failed", "FailedJobs", "jobset failed due to one or more job failures (first failed job: j-node-0)")
    entry = {"attempt": 0, "pod": "j-node-0-1-x", "replicatedJob": "node", "rank": 1, "container": "node"}
    entry |= {"podUid": gone["metadata"]["uid"], "exitCode": 3, "reason": "Error"}
    data = {"attempt-0": dump(entry), "attempt-0.log": "ValueError: bad shape\n"}
    record = world.add("v1", "ConfigMap", "j-failures", owner=world.job, data=data)
    assert world.says().startswith("RankFailed: rank 1 failed with exit code 3; its log ends with: ValueError: bad")
    record["data"]["attempt-0"] = dump({**entry, "attempt": 1})
    assert world.says().startswith("RankFailed: rank 0 failed with exit code 1")


def test_never_ready() -> None:
    world = World(pods=2)
    replicated = world.jobset["spec"]["replicatedJobs"]
    launcher = {"name": "launcher", "template": {"spec": {}}, "dependsOn": [{"name": "node", "status": "Ready"}]}
    replicated.append(launcher)
    for pod in world.pods:
        pod["status"]["conditions"][1] = condition("Ready", "ContainersNotReady", status="False")
        pod["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 2222}}
    assert world.says() == (
        "NotReady: launcher starts when node is ready: 2 of 2 pods run and fail their readiness probe (tcp 2222); "
        "look at "
        "its log, or correct the probe in the runtime"
    )


def test_over_but_pods_remain() -> None:
    world = World(pods=2)
    for pod in world.pods:
        pod["metadata"]["deletionTimestamp"] = at(100)
        pod["spec"]["nodeName"] = "gone"
    world.ended("Complete", "AllJobsCompleted")
    assert world.says() == (
        "PodsRemain: the job is complete, but 2 pods still hold 16 nvidia.com/gpu: node gone does not answer; ask the "
        "administrator, or delete them with --force"
    )
    assert world.explained().exit_code == 0


def test_deletion_does_not_end() -> None:
    world = World()
    world.job["metadata"] |= {"deletionTimestamp": at(10), "finalizers": ["example.com/keep"]}
    assert world.says() == (
        "DeletionWaits: the job is being deleted and waits for finalizer example.com/keep: the controller that set "
        "it must "
        "remove it"
    )
    world.job["metadata"]["finalizers"] = ["foregroundDeletion"]
    assert world.says() == "Deleting: the job is being deleted"
    world.job["metadata"]["deletionTimestamp"] = at(100)
    world.jobset["metadata"] |= {"deletionTimestamp": at(100), "finalizers": ["example.com/keep"]}
    assert world.says() == (
        "DeletionWaits: the job is being deleted and waits for JobSet j, which has finalizer example.com/keep"
    )


def test_no_report_for_long() -> None:
    world = World()
    world.job["status"] = {
        "conditions": [condition("Stalled", "NoReport")],
        "trainerStatus": {"progressPercentage": 41, "lastUpdatedTime": at(720)},
    }
    assert world.says() == (
        "NoReport: the job has stopped reporting its progress (last: 41 %); 4 of 4 pods are ready: look at the logs, "
        "it may "
        "hang"
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "NeverReported",
            (
                "the job has never reported its progress; 4 of 4 pods are ready: look at the logs, it may hang, or "
                "not report at all"
            ),
        ),
        (
            "NoAdvance",
            (
                "the job reports, and its progress does not change (last: 41 %); 4 of 4 pods are ready: look at the "
                "logs, it may hang"
            ),
        ),
    ],
)
def test_what_stands_still(reason: str, told: str) -> None:
    world = World()
    reported = {"progressPercentage": 41, "lastUpdatedTime": at(1)} if reason == "NoAdvance" else None
    world.job["status"] = {"conditions": [condition("Stalled", reason, ago=60)], "trainerStatus": reported}
    assert world.says() == f"NoReport: {told}"
    assert format_time(world.explained().cause.since or NOW) == at(60)


def ready_since(world: World, ago: float) -> None:
    """All pods became ready then."""
    for pod in world.pods:
        for one in pod["status"]["conditions"]:
            one["lastTransitionTime"] = at(ago)


def test_without_a_manager_the_declared_silence_counts() -> None:
    world = World()
    ready_since(world, 3600)
    world.job["metadata"]["annotations"] = {"trainwright.dev/progress-stall-after": "10m"}
    world.job["status"] = {"trainerStatus": {"progressPercentage": 41, "lastUpdatedTime": at(720)}}
    assert world.says().startswith("NoReport: the job has stopped reporting its progress (last: 41 %)")
    world.job["status"]["trainerStatus"]["lastUpdatedTime"] = at(500)
    assert world.says().startswith("Running: ")


def test_a_job_that_was_resumed_is_not_blamed_for_the_report_of_its_earlier_pods() -> None:
    world = World()
    world.job["metadata"]["annotations"] = {"trainwright.dev/progress-stall-after": "10m"}
    world.job["status"] = {"trainerStatus": {"progressPercentage": 41, "lastUpdatedTime": at(86_400)}}
    for ago, says in ((500, "Running: "), (700, "NoReport: ")):
        ready_since(world, ago)
        assert world.says().startswith(says)


def test_nothing_is_wrong() -> None:
    world = World()
    assert world.says() == "Running: 4 of 4 pods run, attempt 1"
    found = world.explained()
    assert (found.exit_code, found.others, found.unread) == (0, (), ())


def test_complete() -> None:
    world = World()
    world.ended("Complete", "AllJobsCompleted")
    assert world.says() == "Complete: the job is complete"
    assert world.explained().exit_code == 0


# ---------------------------------------------------------------------- who failed first, and whose words it are


def test_equal_seconds_choose_no_victim_where_the_record_knows() -> None:
    world = World()
    world.terminated(0, 1)
    world.terminated(2, 137)
    world.logs["j-node-0-2-abcde/node"] = ["step 41"]
    assert world.says().startswith("RankFailed: rank 0 failed with exit code 1; 1 other was stopped after it")
    entry = {"attempt": 0, "pod": "j-node-0-2-abcde", "podUid": "Pod/j-node-0-2-abcde", "container": "node"}
    data = {"attempt-0": dump({**entry, "exitCode": 137, "finishedAt": at(100)})}
    world.add("v1", "ConfigMap", "j-failures", owner=world.job, data=data)
    assert world.says() == (
        "RankFailed: rank 2 failed with exit code 137 (killed); 1 other failed too; its log ends with: step 41"
    )


def test_a_rank_that_lost_another_one_is_a_victim() -> None:
    world = World()
    for index in (0, 1, 3):
        world.terminated(index, 1)
        world.logs[f"j-node-0-{index}-abcde/node"] = ["ConnectionResetError: [Errno 104] Connection reset by peer"]
    world.terminated(2, 1, ago=98)
    world.logs["j-node-0-2-abcde/node"] = ["ValueError: bad shape", "=" * 60]
    assert world.says() == (
        "RankFailed: rank 2 failed with exit code 1; 3 others failed too; its log ends with: ValueError: bad shape"
    )
    # What ended long after the others is not the reason.
    world.terminated(2, 1, ago=20)
    assert world.says().startswith("RankFailed: rank 0 failed with exit code 1; 3 others failed too; ")
    # torchrun may end late, and its summary says when its process did.
    killed = summary(2, -9).replace("2026-01-15_05:44:28", at(100)[:-1].replace("T", "_"))
    world.logs["j-node-0-2-abcde/node"] = killed.split("\n")
    # The number of its pod is that of a node; the processes have ranks.
    assert world.says().startswith("RankFailed: node 2 failed with exit code 1; 3 others failed too; ")


def test_the_time_that_a_node_tells_exactly_counts() -> None:
    world = World()
    for index, micros in ((0, "900000"), (1, "100000")):
        pod = world.terminated(index, 1, containerID="local://u/node/0")
        exact = {"container": "node", "run": 0, "exitCode": 1, "at": f"{at(100)[:-1]}.{micros}Z"}
        pod["metadata"]["annotations"] = {"node.trainwright.dev/failures": json.dumps([exact])}
    assert world.says().startswith("RankFailed: rank 1 failed with exit code 1; 1 other failed too")


def test_who_was_stopped_and_who_failed_by_itself() -> None:
    world = World()
    world.terminated(0, 1, ago=100)
    world.terminated(1, 1, ago=98)
    assert "rank 0 failed with exit code 1; 1 other failed too; see" in world.says()
    world.terminated(2, 143, ago=98)
    world.terminated(3, 137, ago=98)
    assert "1 other failed too; 2 others were stopped after it; see" in world.says()


def test_what_a_kubelet_answers_is_no_log() -> None:
    world = World()
    world.terminated(0, 1)
    world.logs["j-node-0-0-abcde/node"] = ["unable to retrieve container logs for containerd://43b90bd87901"]
    assert world.says() == "RankFailed: rank 0 failed with exit code 1; see `kubectl logs j-node-0-0-abcde`"


def test_of_a_container_that_failed_twice_the_present_run_tells() -> None:
    world = World()
    pod = world.terminated(0, 3, ago=20)
    last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": at(60)}}
    pod["status"]["containerStatuses"][0] |= {"lastState": last, "restartCount": 1}
    world.terminated(1, 1, ago=40)
    # Rank 0 was the first to fail.
    assert world.says() == (
        "RankFailed: rank 0 failed with exit code 3; 1 other failed too; see `kubectl logs j-node-0-0-abcde`"
    )


def test_control_characters_reach_no_terminal() -> None:
    world = World()
    world.terminated(0, 1)
    world.logs["j-node-0-0-abcde/node"] = ["\x1b[31mValueError\x1b[0m: \u202ebad shape\x07", "\x00\x00\x00"]
    assert world.says().endswith("its log ends with: ValueError: bad shape")
    world = World()
    world.pods[1]["status"] = {"phase": "Failed", "reason": "Odd\x1b[2J", "message": "a\nb\x00\x9b2J"}
    assert world.says() == "RankFailed: rank 1 failed (Odd: a b)"


def test_a_job_that_tries_again_is_not_stuck() -> None:
    world = World()
    pod = world.terminated(0, 1)
    assert world.explained().outcome == "Stuck"
    # Its container starts again in place.
    pod["status"]["phase"], pod["spec"]["restartPolicy"] = "Running", "OnFailure"
    assert (world.says()[:24], world.explained().outcome) == ("RankFailed: rank 0 faile", "Restarting")
    pod["status"]["containerStatuses"][0]["restartCount"] = 6
    assert world.explained().outcome == "Stuck"
    # The Job has made another pod.
    pod["status"]["phase"], pod["spec"]["restartPolicy"] = "Failed", "Never"
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    again = world.add_pod(job, "node", 0, ago=5)
    again["metadata"] |= {"name": "j-node-0-0-again", "uid": "again"}
    again["status"]["conditions"] = []
    assert (world.says()[:24], world.explained().outcome) == ("RankFailed: rank 0 faile", "Restarting")
    job["status"] = {"conditions": [condition("FailureTarget", "BackoffLimitExceeded")]}
    assert world.explained().outcome == "Waiting"


FINAL = {
    "name": "final",
    "action": "FailJobSet",
    "onJobFailureReasons": ["PodFailurePolicy"],
    "onJobFailureMessagePatterns": ["matching FailJob rule at index 1$"],
    "targetReplicatedJobs": ["node"],
}
FREE = {**FINAL, "name": "infra", "action": "RestartJobSetAndIgnoreMaxRestarts"}
BY_RULE = condition("FailureTarget", "PodFailurePolicy", "Container node failed matching FailJob rule at index 1")
BY_LIMIT = condition("FailureTarget", "BackoffLimitExceeded")


@pytest.mark.parametrize(
    ("policy", "used", "ends", "outcome", "told"),
    [
        ({"maxRestarts": 2}, 1, BY_LIMIT, "Restarting", "; all ranks restart"),
        ({"maxRestarts": 2}, 1, None, "Restarting", "; all ranks restart"),
        ({"maxRestarts": 2}, 2, BY_LIMIT, "Waiting", "; the job fails when its other pods have ended"),
        ({}, 0, BY_LIMIT, "Waiting", "; the job fails when its other pods have ended"),
        ({"maxRestarts": 2, "rules": [FINAL]}, 1, BY_RULE, "Waiting", "is decided when its other pods have ended"),
        ({"maxRestarts": 2, "rules": [FINAL]}, 1, BY_LIMIT, "Restarting", "; all ranks restart"),
        ({"maxRestarts": 2, "rules": [FREE]}, 2, BY_RULE, "Restarting", "; all ranks restart"),
        ({"maxRestarts": 2, "rules": [FREE]}, 2, BY_LIMIT, "Waiting", "is decided when its other pods have ended"),
    ],
)
@pytest.mark.parametrize("is_whole", [False, True])
def test_what_follows_is_said_while_the_other_ranks_take_their_grace(
    policy: dict[str, object], used: int, ends: dict[str, object] | None, outcome: str, told: str, is_whole: bool
) -> None:
    """A container was killed for memory, or a pod has failed as a whole; the other rank needs its 30 seconds to end."""
    world = World(pods=2)
    world.jobset["spec"]["failurePolicy"] = policy
    world.jobset["status"]["restartsCountTowardsMax"] = used
    if is_whole:
        world.pods[1]["status"] = {"phase": "Failed", "reason": "NodeLost", "message": "the node is gone"}
    else:
        world.terminated(1, 137, reason="OOMKilled", ago=20)
    world.pods[0]["metadata"] |= {"deletionTimestamp": at(-10), "deletionGracePeriodSeconds": 30}
    job = next(obj for obj in world.objects if obj["kind"] == "Job")
    job["spec"] |= {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never"}}}
    job["status"] = {"conditions": [ends] if ends else []}
    found = world.explained()
    first = "rank 1 failed (NodeLost" if is_whole else "rank 1 was killed for memory (OOMKilled"
    assert (found.outcome, found.cause.message[: len(first)]) == (outcome, first)
    assert told in found.cause.message


# ---------------------------------------------------------------------- pods that the cluster ended


@pytest.mark.parametrize("reason", ["Terminated", "NodeShutdown", "Preempting"])
def test_a_pod_that_its_node_has_ended_has_not_failed(reason: str) -> None:
    world = World()
    pod = world.terminated(1, 143)
    pod["status"] |= {"reason": reason, "message": "Pod was terminated in response to imminent node shutdown."}
    assert "exit code" not in world.says()
    assert world.explained().exit_code == 3
    pod["status"]["conditions"].append(condition("DisruptionTarget", "TerminationByKubelet"))
    assert world.explained().outcome == "Waiting"
    assert "exit code" not in world.says()
    # A job that failed for it.
    world.ended("Failed", "FailedJobs", "jobset failed (first failed job: j-node-0)")
    assert "rank 1 was ended by its node" in world.says()
    assert "exit code" not in world.says()


def test_a_pod_that_is_stopped_since_it_is_deleted_has_not_failed() -> None:
    world = World()
    pod = world.terminated(1, 143, ago=100)
    pod["metadata"] |= {"deletionTimestamp": at(70), "deletionGracePeriodSeconds": 30}
    assert "failed" not in world.says()


def test_a_lost_node_is_no_wrong_probe() -> None:
    world = World()
    for pod in world.pods[:2]:
        # What the cluster writes of a node that does not answer: nothing but the status changes.
        pod["status"]["conditions"][1] = condition("Ready", "", status="False", ago=90)
        pod["spec"]["nodeName"] = "lost"
    lost = world.add_node("lost", {})
    lost["status"]["conditions"] = [condition("Ready", "NodeStatusUnknown", "Kubelet stopped posting.", "Unknown")]
    assert world.says() == (
        "NodeLost: node lost, on which rank 0 runs, is not ready: Kubelet stopped posting.; the pod is made again if "
        "the node does not come back"
    )
    assert "NotReady" not in [one.reason for one in world.explained().others]
    # Without the right to read nodes.
    world.unreadable = ("nodes",)
    assert world.says() == (
        "NotReady: node is not ready: 2 of 4 pods run and have no readiness probe, so node lost may not answer; ask "
        "the administrator"
    )
    assert world.explained().outcome == "Waiting"


def test_a_probe_of_start_up_is_a_probe() -> None:
    world = World(pods=1)
    world.pods[0]["status"]["conditions"][1] = condition("Ready", "ContainersNotReady", status="False")
    world.pods[0]["spec"]["containers"][0]["startupProbe"] = {"exec": {"command": ["ready"]}}
    assert "1 of 1 pod runs and fails its readiness probe (ready)" in world.says()


# ---------------------------------------------------------------------- volumes


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            'MountVolume.SetUp failed for volume "cfg" : configmap "c" not found',
            (
                "volume cfg is made from ConfigMap c, which does not exist in namespace n: create it, or correct the "
                "runtime and create the job again"
            ),
        ),
        (
            'MountVolume.SetUp failed for volume "cfg" : secret "c" not found',
            (
                "volume cfg is made from Secret c, which does not exist in namespace n: create it, or correct the "
                "runtime and create the job again"
            ),
        ),
        (
            'MountVolume.SetUp failed for volume "cfg" : configmap references non-existent config key: k',
            (
                "volume cfg takes key k from ConfigMap c, which does not have it: add the key, or correct the runtime "
                "and create the job again"
            ),
        ),
    ],
)
def test_an_event_names_at_once_what_is_missing(message: str, told: str) -> None:
    world = World(pods=1)
    world.waiting("ContainerCreating")
    world.pods[0]["status"]["conditions"][0] = condition("PodScheduled", "", ago=2)
    assert world.says().startswith("Starting: ")
    world.pods[0]["spec"]["volumes"] = [{"name": "cfg", "configMap": {"name": "c", "optional": True}}]
    if "key" in message:
        world.pods[0]["spec"]["volumes"] = [{"name": "cfg", "configMap": {"name": "c"}}]
    world.event(world.pods[0], "FailedMount", message, ago=1)
    assert world.says() == f"VolumeSourceMissing: {told}"
    if "key" not in message:
        # It was made meanwhile: the next try mounts it.
        kind = "Secret" if "secret" in message else "ConfigMap"
        world.add("v1", kind, "c")
        assert world.says().startswith("Starting: ")


def test_a_mount_that_may_succeed_later_is_waited_for() -> None:
    world = World(pods=1)
    world.waiting("ContainerCreating")
    world.pods[0]["status"]["conditions"][0] = condition("PodScheduled", "", ago=2)
    world.event(world.pods[0], "FailedMount", 'MountVolume.SetUp failed for volume "cfg" : timed out', ago=1)
    assert world.says().startswith("Starting: ")
    world.pods[0]["spec"]["volumes"] = [{"name": "cfg", "configMap": {"name": "c"}}]
    world.pods[0]["status"]["conditions"][0] = condition("PodScheduled", "", ago=12)
    assert world.says().startswith("VolumeSourceMissing: volume cfg is made from ConfigMap c")


# ---------------------------------------------------------------------- ranks that end before the others


def ended_rank(world: World, index: int, *, ago: float) -> None:
    world.terminated(index, 0, ago=ago, reason="Completed")["status"]["phase"] = "Succeeded"


def test_a_rank_that_ends_while_others_run_on_is_told_without_a_manager() -> None:
    world = World()
    ended_rank(world, 2, ago=599)
    assert world.says().startswith("Running: 3 of 3 pods run, 1 pod completed")
    ended_rank(world, 2, ago=600)
    assert world.says() == (
        f"RankEnded: rank 2 ended with exit code 0 at {at(600)}, and 3 others run on; "
        "look at their logs, they may wait for it"
    )
    found = world.explained()
    assert (found.outcome, found.exit_code) == ("Stalled", 1)
    assert (found.cause.about, found.cause.since) == (
        About(kind="Pod", namespace="n", name="j-node-0-2-abcde"),
        NOW - timedelta(seconds=600),
    )


def test_the_job_says_how_long_others_may_run_on() -> None:
    world = World()
    ended_rank(world, 2, ago=700)
    world.job["metadata"]["annotations"] = {"trainwright.dev/progress-stall-after": "15m"}
    assert world.says().startswith("Running: ")
    world.job["metadata"]["annotations"] = {"trainwright.dev/progress-stall-after": "2m"}
    ended_rank(world, 2, ago=130)
    assert world.says().startswith("RankEnded: ")


@pytest.mark.parametrize(("reason", "said"), [("RankEnded", "RankEnded"), ("RankSilent", "NoReport")])
def test_what_the_manager_knows_of_a_rank_is_said_in_its_words(reason: str, said: str) -> None:
    world = World()
    world.job["status"] = {"conditions": [condition("Stalled", reason, "rank 1 has sent no report")]}
    assert world.says() == f"{said}: rank 1 has sent no report"
    assert world.explained().outcome == "Stalled"


def test_a_launcher_that_waits_for_the_others_says_which_process_ended() -> None:
    world = World()
    log = ["step 1", "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 4)"]
    world.logs["j-node-0-1-abcde/node"] = log
    # Not of torchrun, as far as its pod says.
    assert world.says().startswith("Running: ")
    for one in world.pods:
        one["spec"]["containers"][0]["env"] = [{"name": "PET_NNODES", "value": "4"}]
    assert world.says() == (
        "RankEnded: a process of node 1 has ended, and the others wait for it; its log ends with: "
        "torchrun: local rank 0, exit code -9, signal 9"
    )
    assert world.explained().outcome == "Stalled"
    # A job that reports trains.
    world.job["status"] = {"trainerStatus": {"lastUpdatedTime": at(5)}}
    assert world.says().startswith("Running: ")
