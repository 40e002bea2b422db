# SPDX-License-Identifier: Apache-2.0
"""What users do with JobSets."""

from tests.integration.local.controllers.comparison import Note
from tests.integration.local.controllers.conftest import World, conditions, ended, of, replicated
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
