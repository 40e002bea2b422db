# SPDX-License-Identifier: Apache-2.0
"""What users do with Jobs."""

from tests.integration.local.controllers.comparison import Note
from tests.integration.local.controllers.conftest import CONTAINER, World, conditions, job_ended, job_spec, of
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.controllers.objects import JOB, POD


async def job_counts(world: World, note: Note) -> None:
    spec = job_spec(completions=3, parallelism=2)
    await world.create(JOB, "job", spec, labels={"own": "label"})
    pods = await world.running(2)
    await note("two run")
    world.end(pods[0])
    await world.pods(lambda pods: len(pods) == 3)
    pods = await world.running(2)
    await note("one has succeeded")
    world.end(*pods)
    await job_ended(world)
    await note("complete")


async def job_fails(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completions=2, parallelism=2, completionMode="Indexed", backoffLimit=0))
    pods = await world.running(2)
    world.end(of(pods, "job-1-")[0], code=7)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_has_restarts(world: World, note: Note) -> None:
    spec = job_spec(backoffLimit=2)
    spec["template"]["spec"]["restartPolicy"] = "OnFailure"
    await world.create(JOB, "job", spec)
    (pod,) = await world.running(1)
    world.kubelet.restart(world.namespace, name_of(pod), 1)
    await note("one restart")
    world.kubelet.restart(world.namespace, name_of(pod), 2)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_has_a_policy(world: World, note: Note) -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
    ]
    await world.create(JOB, "job", job_spec(parallelism=2, completions=2, podFailurePolicy={"rules": rules}))
    pods = await world.running(2)
    await note("running")
    world.end(pods[0], code=42)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_is_overdue(world: World, note: Note) -> None:
    # The deadline comes once the pod was seen: a look that is late would miss a pod that runs for two seconds.
    await world.create(JOB, "job", job_spec())
    await world.running(1)
    await world.client.patch(JOB, "job", world.namespace, {"spec": {"activeDeadlineSeconds": 1}})
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_loses_a_pod(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completionMode="Indexed", completions=1, parallelism=1))
    (pod,) = await world.running(1)
    await world.client.delete(POD, name_of(pod), world.namespace)
    await world.pods(lambda pods: name_of(pod) not in [name_of(p) for p in pods])
    await world.running(1)
    await note("replaced")


async def job_shrinks(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completions=4, parallelism=3))
    await world.running(3)
    await world.client.patch(JOB, "job", world.namespace, {"spec": {"parallelism": 1}})
    await world.pods(lambda pods: len(pods) == 1)
    await note("one is left")


async def job_has_no_room(world: World, note: Note) -> None:
    spec = job_spec()
    spec["template"]["spec"]["containers"] = [{**CONTAINER, "resources": {"requests": {"cpu": "99"}}}]
    await world.create(JOB, "job", spec)
    await world.pods(lambda pods: any("Unschedulable" in str(pod["status"]) for pod in pods))
    await note("no room")


async def job_ends_by_its_policy(world: World, note: Note) -> None:
    rules = [{"succeededIndexes": "0", "succeededCount": 1}]
    spec = job_spec(completionMode="Indexed", completions=3, parallelism=3, successPolicy={"rules": rules})
    await world.create(JOB, "job", spec)
    pods = await world.running(3)
    world.end(*of(pods, "job-0-"))
    await job_ended(world)
    await world.running(0)
    await note("complete")


async def job_has_a_limit_per_index(world: World, note: Note) -> None:
    spec = job_spec(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=0)
    await world.create(JOB, "job", spec)
    pods = await world.running(2)
    world.end(*of(pods, "job-1-"), code=1)
    await world.until(JOB, "job", lambda job: job["status"].get("failedIndexes") == "1")
    await note("one index has failed")
    world.end(*pods)
    await job_ended(world)
    await note("failed")


async def job_replaces_a_failed_pod(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completionMode="Indexed", completions=1, parallelism=1, backoffLimit=2))
    (pod,) = await world.running(1)
    await world.fails(pod, 1)
    (pod,) = await world.running(1)
    await note("replaced")
    world.end(pod)
    await job_ended(world)
    await note("complete")


async def job_is_deleted_without_a_policy(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec())
    await world.running(1)
    await world.client.delete(JOB, "job", world.namespace)
    await world.gone(JOB, "job")
    await note("the pod is an orphan")


async def job_has_indexes(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completionMode="Indexed", completions=3, parallelism=2))
    world.end(*of(await world.running(2), "job-1-"))
    await world.pods(lambda pods: len(pods) == 3)
    pods = await world.running(2)
    await note("1 is complete, 2 runs")
    world.end(*pods)
    await job_ended(world)
    await note("complete")


async def job_fails_again_and_again(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(backoffLimit=1))
    (pod,) = await world.running(1)
    await world.fails(pod, 1)
    (pod,) = await world.running(1)
    world.end(pod, code=2)
    await job_ended(world)
    await note("failed")


async def job_ignores_and_counts(world: World, note: Note) -> None:
    def rule(action: str, code: int) -> Document:
        return {"action": action, "onExitCodes": {"operator": "In", "values": [code]}}

    rules = [rule("Ignore", 5), rule("Count", 6), rule("FailJob", 7)]
    await world.create(JOB, "job", job_spec(backoffLimit=0, podFailurePolicy={"rules": rules}))
    (pod,) = await world.running(1)
    await world.fails(pod, 5)
    (pod,) = await world.running(1)
    await note("ignored")
    world.end(pod, code=6)
    await job_ended(world)
    await note("counted")


async def job_is_suspended(world: World, note: Note) -> None:
    async def suspend(value: bool) -> None:
        await world.client.patch(JOB, "job", world.namespace, {"spec": {"suspend": value}})

    await world.create(JOB, "job", job_spec(completions=2, parallelism=2))
    await world.running(2)
    await suspend(True)
    await world.pods(lambda pods: not pods)
    await note("suspended")
    await suspend(False)
    pods = await world.running(2)
    await note("resumed")
    world.end(*pods)
    await job_ended(world)
    await note("complete")


async def job_is_created_suspended(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(suspend=True))
    await world.until(JOB, "job", lambda job: "Suspended" in conditions(job))
    await note("suspended")
    template = {"spec": {"nodeSelector": {"disk": "fast"}}}
    await world.client.patch(JOB, "job", world.namespace, {"spec": {"template": template}})
    await world.client.patch(JOB, "job", world.namespace, {"spec": {"suspend": False}})
    world.end(*await world.running(1))
    await job_ended(world)
    await note("complete")


async def job_of_another_controller(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(managedBy="example.com/other"))
    await note("untouched")


async def pod_is_tracked_by_no_job(world: World, note: Note) -> None:
    pod = {"containers": [CONTAINER], "terminationGracePeriodSeconds": 1}
    await world.create(POD, "lone", pod, finalizers=["batch.kubernetes.io/job-tracking", "example.com/own"])
    await world.until(POD, "lone", lambda found: found["metadata"]["finalizers"] == ["example.com/own"])
    await note("released")
    await world.client.patch(POD, "lone", world.namespace, {"metadata": {"finalizers": None}})
