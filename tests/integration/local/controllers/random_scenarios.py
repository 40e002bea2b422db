# SPDX-License-Identifier: Apache-2.0
"""Random JobSets and Jobs, and random things that happen to them. A seed is always the same scenario."""

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from tests.integration.local.controllers.comparison import Note, Scenario
from tests.integration.local.controllers.conftest import World, job_spec, replicated
from trainwright.api.base import Resource
from trainwright.api.objects import Document, labels_of, name_of
from trainwright.controller.local.controllers.objects import JOB, JOBSET, POD
from trainwright.controller.runtime.client.writes import Propagation
from trainwright.controller.runtime.errors import ApiError

Step: TypeAlias = tuple[str, int, Any]
"""What happens, to which of those that can be chosen from (modulo their number), and how."""
STEPS = 5
_POLICIES: tuple[Propagation, ...] = ("Background", "Foreground", "Orphan")
_NAMES = ("a", "b", "c")


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    drawn = random.Random(seed)
    spec, steps = _spec(drawn), list(_steps(drawn))

    async def random_jobset(world: World, note: Note) -> None:
        await world.create(JOBSET, "train", spec)
        await note("created")
        for number, step in enumerate(steps):
            await _do(world, step, JOBSET, "train")
            await note(f"step {number}: {step[0]} {step[2]}")

    random_jobset.__name__ = f"seed-{seed}"
    return random_jobset


def scenario_of_a_job(seed: int) -> Scenario:
    """The scenario of a seed, for a Job alone."""
    drawn = random.Random(seed)
    spec, steps = _spec_of_a_job(drawn), list(_steps(drawn))

    async def random_job(world: World, note: Note) -> None:
        await world.create(JOB, "job", spec)
        await note("created")
        for number, step in enumerate(steps):
            await _do(world, step, JOB, "job")
            await note(f"step {number}: {step[0]} {step[2]}")

    random_job.__name__ = f"job-seed-{seed}"
    return random_job


def _spec_of_a_job(drawn: random.Random) -> Document:
    """Failed pods are not retried, or at once: what waits for a back-off is compared by other scenarios."""
    indexed = drawn.random() < 0.6
    count = drawn.randint(1, 4)
    spec = job_spec(parallelism=drawn.randint(1, 4), completions=count, backoffLimit=0)
    if indexed:
        spec["completionMode"] = "Indexed"
    elif drawn.random() < 0.2:
        del spec["completions"]  # a queue of work: the first success is the last
    if indexed and drawn.random() < 0.3:
        rule: Document = {"succeededCount": drawn.randint(1, count)}
        if drawn.random() < 0.5:
            rule = {"succeededIndexes": f"0-{count - 1}", **rule} if count > 1 else {"succeededIndexes": "0"}
        spec["successPolicy"] = {"rules": [rule]}
    if drawn.random() < 0.4:
        codes = {"containerName": "main", "operator": drawn.choice(["In", "NotIn"]), "values": [drawn.randint(1, 2)]}
        spec["podFailurePolicy"] = {"rules": [{"action": drawn.choice(["FailJob", "Count"]), "onExitCodes": codes}]}
    elif drawn.random() < 0.3:
        spec["podReplacementPolicy"] = "Failed"
    if drawn.random() < 0.2:
        spec["suspend"] = True
    if drawn.random() < 0.2:
        spec["ttlSecondsAfterFinished"] = 0
    return spec


def _spec(drawn: random.Random) -> Document:
    names = _NAMES[: drawn.randint(1, 3)]
    jobs = [replicated(name, replicas=drawn.randint(1, 2), pods=drawn.randint(1, 2)) for name in names]
    spec: Document = {"replicatedJobs": jobs, "suspend": drawn.random() < 0.2}
    if drawn.random() < 0.3:
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    elif drawn.random() < 0.6:
        for before, job in itertools.pairwise(jobs):
            job["dependsOn"] = [{"name": before["name"], "status": drawn.choice(["Ready", "Complete"])}]
    if drawn.random() < 0.5:
        targets = drawn.sample(names, drawn.randint(0, len(names)))
        spec["successPolicy"] = {"operator": drawn.choice(["All", "Any"]), "targetReplicatedJobs": targets}
    if drawn.random() < 0.7:
        policy: Document = {
            "maxRestarts": drawn.randint(0, 2),
            "restartStrategy": drawn.choice(["Recreate", "BlockingRecreate"]),
        }
        actions = ["FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"]
        if drawn.random() < 0.5:
            policy["rules"] = [{"action": drawn.choice(actions), "targetReplicatedJobs": [drawn.choice(names)]}]
        spec["failurePolicy"] = policy
    if drawn.random() < 0.2:
        spec["ttlSecondsAfterFinished"] = 0
    if drawn.random() < 0.3:
        spec["coordinator"] = {"replicatedJob": drawn.choice(names)}
    return spec


def _steps(drawn: random.Random) -> Iterator[Step]:
    kinds = ["succeed"] * 6 + ["fail"] * 3 + ["lose a pod"] * 2 + ["lose a Job", "suspend", "resume", "resume"]
    for _ in range(STEPS):
        what = drawn.choice(kinds)
        yield what, drawn.randint(0, 100), drawn.choice(_POLICIES[:2]) if what == "lose a Job" else None
    yield "delete", 0, drawn.choice(_POLICIES)


async def _do(world: World, step: Step, owner: Resource, name: str) -> None:
    what, number, how = step
    if what in ("succeed", "fail"):
        if pods := [pod for pod in await _all(world, POD) if pod["status"]["phase"] == "Running"]:
            world.end(pods[number % len(pods)], code=0 if what == "succeed" else 1)
    elif what in ("lose a pod", "lose a Job"):
        kind = POD if what == "lose a pod" else JOB
        if found := await _all(world, kind):
            await world.client.delete(kind, name_of(found[number % len(found)]), world.namespace, propagation=how)
    elif what == "delete":
        with suppress(ApiError):  # its time to live is over
            await world.client.delete(owner, name, world.namespace, propagation=how)
    else:
        with suppress(ApiError):  # it is gone, or refuses
            await world.client.patch(owner, name, world.namespace, {"spec": {"suspend": what == "suspend"}})


async def _all(world: World, kind: Resource) -> list[Document]:
    """In an order that does not depend on the random ends of names."""

    def place(obj: Document) -> tuple[str, str]:
        labels = labels_of(obj)
        job = labels.get("batch.kubernetes.io/job-name") or name_of(obj)
        return job, labels.get("batch.kubernetes.io/job-completion-index", "")

    return sorted(await world.all(kind), key=place)
