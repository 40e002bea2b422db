# SPDX-License-Identifier: Apache-2.0
"""What users do with JobSets."""

from tests.integration.local.controllers.comparison import Note
from tests.integration.local.controllers.conftest import World, conditions, ended, of, replicated, template
from trainwright.controller.local.controllers.objects import JOB, JOBSET


async def jobset_completes(world: World, note: Note) -> None:
    first = replicated("first", replicas=2, pods=2)
    first["groupName"] = "one"
    first["template"]["metadata"] = {"labels": {"job": "label"}, "annotations": {"job": "annotation"}}
    second = replicated("second", backoffLimit=3)
    coordinator = {"replicatedJob": "first", "jobIndex": 1, "podIndex": 1}
    await world.create(JOBSET, "train", {"replicatedJobs": [first, second], "coordinator": coordinator})
    pods = await world.running(5)
    await note("running")
    world.end(*of(pods, "train-first-0"))
    await world.until(
        JOBSET, "train", lambda js: any(c["succeeded"] for c in js.get("status", {}).get("replicatedJobsStatus", ()))
    )
    await note("one Job is complete")
    world.end(*pods)
    await ended(world)
    await note("complete")


async def jobset_fails(world: World, note: Note) -> None:
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a"), replicated("b", pods=2)]})
    pods = await world.running(3)
    world.end(*of(pods, "train-a-0"), code=3)
    await ended(world)
    await world.running(0)
    await note("failed")


async def jobset_restarts(world: World, note: Note) -> None:
    rules = [{"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["b"]}]
    policy = {"maxRestarts": 1, "rules": rules}
    jobs = [replicated("a"), replicated("b")]
    await world.create(JOBSET, "train", {"replicatedJobs": jobs, "failurePolicy": policy})
    for attempt, job in enumerate(("b", "a", "a")):
        label = f"jobset.sigs.k8s.io/restart-attempt={attempt}"
        pods = await world.running(2, label)
        await note(f"attempt {attempt}")
        world.end(*of(pods, f"train-{job}-0"), code=1)
    await ended(world)
    await note("failed")


async def jobset_is_suspended(world: World, note: Note) -> None:
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a", pods=2)], "suspend": True})
    await world.until(JOB, "train-a-0", lambda job: "Suspended" in conditions(job))
    await note("suspended")
    jobset = await world.until(JOBSET, "train", bool)
    jobs = jobset["spec"]["replicatedJobs"]
    pod = jobs[0]["template"]["spec"]["template"]
    pod["metadata"]["labels"] = {"new": "label"}
    pod["spec"] |= {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": False, "replicatedJobs": jobs}})
    await world.running(2)
    await note("resumed")
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": True}})
    await world.pods(lambda pods: not pods)
    await note("suspended again")
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": False}})
    world.end(*await world.running(2))
    await ended(world)
    await note("complete")


async def jobset_starts_in_order(world: World, note: Note) -> None:
    spec = {
        "replicatedJobs": [replicated("a"), replicated("b")],
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["b"]},
    }
    await world.create(JOBSET, "train", spec)
    pods = await world.running(2)
    await note("running")
    world.end(*of(pods, "train-b-0"))
    await ended(world)
    await world.running(0)
    await note("complete")


async def jobset_depends(world: World, note: Note) -> None:
    b, c = replicated("b"), replicated("c")
    b["dependsOn"] = [{"name": "a", "status": "Complete"}]
    c["dependsOn"] = [{"name": "b", "status": "Ready"}]
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a"), b, c]})
    pods = await world.running(1)
    await note("the first runs")
    world.end(*pods)
    pods = await world.running(2)
    await note("the others run")
    world.end(*pods)
    await ended(world)
    await note("complete")


async def jobset_fails_by_a_rule(world: World, note: Note) -> None:
    fatal = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    spec = {"restartPolicy": "Never"}
    job = replicated("a", backoffLimit=3, podFailurePolicy={"rules": [fatal]}, template=template(**spec))
    rules = [
        {"name": "elsewhere", "action": "RestartJobSet", "targetReplicatedJobs": ["b"]},
        {"name": "fatal", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
    ]
    policy = {"maxRestarts": 3, "rules": rules}
    await world.create(JOBSET, "train", {"replicatedJobs": [job, replicated("b")], "failurePolicy": policy})
    pods = await world.running(2)
    world.end(*of(pods, "train-a-0"), code=42)
    await ended(world)
    await world.running(0)
    await note("failed")


async def jobset_waits_for_the_old_jobs(world: World, note: Note) -> None:
    policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
    jobs = [replicated("a"), replicated("b", pods=2)]
    await world.create(JOBSET, "train", {"replicatedJobs": jobs, "failurePolicy": policy})
    world.end(*of(await world.running(3), "train-a-0"), code=1)
    pods = await world.running(3, "jobset.sigs.k8s.io/restart-attempt=1")
    await note("restarted")
    world.end(*pods)
    await ended(world)
    await note("complete")
