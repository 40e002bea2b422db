# SPDX-License-Identifier: Apache-2.0
"""A queue patches a suspended job, changes its patch and takes it away, as Kueue does at each eviction.

JobSet's webhooks are real. For every shipped runtime, and for one with everything that a patch can name, and for every
kind of field that a patch may hold: the job resumes, its JobSet is as if there had never been a patch, nothing is
refused where the field may change, and the user is warned where it may not.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import yaml

from tests.builders import train_job
from tests.e2e.conftest import NOWHERE, REAL_CHAIN, Trainer
from tests.program_versions import JOBSET_MAKES_CLAIMS
from tests.repository import ROOT
from tests.rungs import LOCAL
from trainwright.api.conditions import is_true
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import Forbidden, Invalid
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

Json = dict[str, Any]
AT_ONCE = 8
PARITY_LOCAL = pytest.param(LOCAL, marks=[pytest.mark.local_is_enough, pytest.mark.parity])
"""All parts take a minute of CPU time, most of it in the one thread of the local cluster."""
PARTS = 4
"""The first has the runtime with everything, the others share the shipped ones."""
SECONDS = 120.0
ROUNDS = 2
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def metadata(where: str, value: str) -> Json:
    return {where: {"example.com/team": value}}


def pod_of(**spec: Any) -> Json:
    return {"template": {"spec": {"template": {"spec": spec}}}}


def container(**fields: Any) -> Json:
    return pod_of(containers=[{"name": "node", **fields}])


def affinity(value: str) -> Json:
    term = {"matchExpressions": [{"key": "example.com/zone", "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}


QUEUED_POD: Callable[[str], Json] = lambda value: {  # noqa: E731 - one of a table
    "nodeSelector": {"example.com/flavor": value},
    "tolerations": [{"key": f"example.com/{value}", "operator": "Exists"}],
    "schedulingGates": [{"name": f"example.com/{value}"}],
}
QUEUED: Callable[[str], Json] = lambda value: {  # noqa: E731 - one of a table
    "labels": {"kueue.x-k8s.io/podset": value, "kueue.x-k8s.io/priority-class": value},
    "annotations": {"kueue.x-k8s.io/workload": value},
}

CHANGEABLE: dict[str, Callable[[str], Json]] = {
    "pod-labels": lambda v: {"template": {"spec": {"template": {"metadata": metadata("labels", v)}}}},
    "pod-annotations": lambda v: {"template": {"spec": {"template": {"metadata": metadata("annotations", v)}}}},
    "node-selector": lambda v: pod_of(nodeSelector={"example.com/team": v}),
    "tolerations": lambda v: pod_of(tolerations=[{"key": f"example.com/{v}", "operator": "Exists"}]),
    "gates": lambda v: pod_of(schedulingGates=[{"name": f"example.com/{v}"}]),
    "queue": lambda v: {"template": {"spec": {"template": {"metadata": QUEUED(v), "spec": QUEUED_POD(v)}}}},
}
"""Parts of a replicated job that may change while its JobSet is suspended."""
FIXED: dict[str, Callable[[str], Json]] = {
    "job-labels": lambda v: {"template": {"metadata": metadata("labels", v)}},
    "job-annotations": lambda v: {"template": {"metadata": metadata("annotations", v)}},
    "service-account": lambda v: pod_of(serviceAccountName=v),
    "affinity": lambda v: pod_of(affinity=affinity(v)),
    "volumes": lambda v: pod_of(volumes=[{"name": "extra", "configMap": {"name": v}}]),
    "pull-secrets": lambda v: pod_of(imagePullSecrets=[{"name": v}]),
    "pod-security": lambda v: pod_of(securityContext={"supplementalGroups": [len(v)], "runAsUser": 1000}),
    "grace": lambda v: pod_of(terminationGracePeriodSeconds=len(v)),
    "mounts": lambda v: pod_of(
        volumes=[{"name": "mounted", "emptyDir": {}}],
        containers=[{"name": "node", "volumeMounts": [{"name": "mounted", "mountPath": f"/{v}"}]}],
    ),
    "security": lambda v: container(securityContext={"runAsUser": len(v), "capabilities": {"add": [v.upper()]}}),
}
"""Parts that may not."""
FULL: dict[str, Callable[[str], Json]] = {
    "env": lambda v: pod_of(containers=[{"name": "sidecar", "env": [{"name": "TEAM", "value": v}]}]),
    "init": lambda v: pod_of(
        initContainers=[{"name": "prepare", "env": [{"name": "T", "value": v}], "securityContext": {"runAsUser": 7}}]
    ),
    "empty-dir": lambda v: pod_of(volumes=[{"name": "scratch", "emptyDir": {"sizeLimit": f"{len(v)}Gi"}}]),
}
"""Parts that only the runtime with everything has a place for; they may not change either."""
OF_THE_SET: dict[str, Callable[[str], Json]] = {
    "set-labels": lambda v: metadata("labels", v),
    "set-annotations": lambda v: metadata("annotations", v),
}
"""Metadata of the JobSet itself, which may always change."""
EVERY_FIXED = "fixed"
"""All of FIXED in one job, for the shipped runtimes."""


@dataclass(frozen=True)
class Patched:
    """One TrainJob, and the patch that comes and goes."""

    name: str
    runtime: Json
    kind: str
    born: bool = False
    """Whether the job had the patch when it was created."""

    @property
    def target(self) -> str:
        """The replicated job that trains."""
        jobs = self.runtime["spec"]["template"]["spec"]["replicatedJobs"]
        found: str = next(
            job["name"]
            for job in jobs
            if STEP in job["template"].get("metadata", {}).get("labels", {})
            and job["template"]["metadata"]["labels"][STEP] == "trainer"
        )
        return found

    @property
    def may_change(self) -> bool:
        return self.kind in CHANGEABLE or self.kind in OF_THE_SET or not self.kind

    def patches(self, value: str) -> list[Json]:
        """An entry for each kind of field, each of a manager of its own."""
        kinds = FIXED if self.kind == EVERY_FIXED else [self.kind] if self.kind else []
        return [
            {"manager": f"example.com/{kind}", "trainingRuntimeSpec": {"template": self._template(kind, value)}}
            for kind in kinds
        ]

    def _template(self, kind: str, value: str) -> Json:
        if kind in OF_THE_SET:
            return {"metadata": OF_THE_SET[kind](value)}
        part = {**CHANGEABLE, **FIXED, **FULL}[kind](value)
        return {"spec": {"replicatedJobs": [{"name": self.target, **part}]}}

    def document(self, namespace: str) -> Json:
        steps = {job["name"] for job in self.runtime["spec"]["template"]["spec"]["replicatedJobs"]}
        spec: Json = {"runtimeRef": {"kind": "TrainingRuntime", "name": self.runtime["metadata"]["name"]}}
        if "dataset-initializer" in steps:
            spec["initializer"] = {"dataset": {"storageUri": "hf://a/b"}, "model": {"storageUri": "hf://c/d"}}
        born = {"runtimePatches": self.patches("a")} if self.born else {}
        whole = {**spec, "suspend": True, "trainer": {"numNodes": 1}, **born}
        return wire(train_job(self.name, namespace, uid="", **whole))


def runtimes(namespace: str) -> Iterator[Json]:
    """The shipped ones, in the namespace, and one that has everything that a patch can name. No pod finds a node."""
    everything = {
        "initContainers": [{"name": "prepare", "image": "example.com/none"}],
        "containers": [{"name": name, "image": "example.com/none"} for name in ("node", "sidecar")],
        "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}],
        "tolerations": [{"key": "example.com/base", "operator": "Exists"}],
        "nodeSelector": {"example.com/base": "yes"},
    }
    template = {"metadata": {"labels": {"example.com/base": "yes"}}, "spec": everything}
    job = {"metadata": {"labels": {STEP: "trainer"}}, "spec": {"template": template}}
    jobs = {"replicatedJobs": [{"name": "node", "template": job}]}
    spec = {"mlPolicy": {"numNodes": 1}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": jobs}}
    yield {"metadata": {"name": "everything", "namespace": namespace}, "spec": spec}
    for file in sorted((ROOT / "config" / "runtimes").glob("*-*.yaml")):
        shipped = yaml.safe_load(file.read_text())
        if "volumeClaimPolicies" in shipped["spec"]["template"]["spec"] and not JOBSET_MAKES_CLAIMS:
            continue
        for replicated in shipped["spec"]["template"]["spec"]["replicatedJobs"]:
            pod = replicated["template"]["spec"]["template"]["spec"]
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **NOWHERE["nodeSelector"]}
        yield {"metadata": {"name": shipped["metadata"]["name"], "namespace": namespace}, "spec": shipped["spec"]}


def jobs_of(runtime: Json) -> Iterator[Patched]:
    name = runtime["metadata"]["name"].replace(".", "-")
    full = name == "everything"
    kinds = ("", *CHANGEABLE, *OF_THE_SET, *((*FIXED, *FULL) if full else (EVERY_FIXED,)))
    for kind in kinds:
        yield Patched(f"{name[:14].strip('-')}-{name[-2:]}-{kind or 'plain'}", runtime, kind)
    if full:
        for kind in (*CHANGEABLE, *FIXED, *FULL):
            yield Patched(f"born-{kind}", runtime, kind, born=True)


class Queue:
    """Does what a queueing system does, to many jobs at a time."""

    def __init__(self, client: Client, trainer: Trainer) -> None:
        self.client = client
        self.trainer = trainer
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def each(self, jobs: list[Patched], what: Callable[[Patched], Awaitable[None]]) -> None:
        async def one(job: Patched) -> None:
            async with self._gate:
                await what(job)

        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(one(job), name=job.name)

    async def say(self, job: Patched, **spec: Any) -> None:
        """Patches are refused while pods are left; a queue tries again. Some can come and go, but not change.

        It waits longer each time, as queues do: eight that ask at each moment leave a slow cluster no time to delete.
        """
        pause = 0.2
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await self.client.patch(TrainJob.RESOURCE, job.name, self.trainer.namespace, {"spec": spec})
                except (Forbidden, Invalid) as error:
                    if "cannot be changed" in str(error) and job.kind not in CHANGEABLE:
                        return
                    if "active" not in str(error):
                        raise
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 1.0)
                else:
                    return

    async def jobsets(self) -> dict[str, Json]:
        found = await self.client.list(JobSet.RESOURCE, self.trainer.namespace)
        return {jobset["metadata"]["name"]: jobset for jobset in found.items}

    async def until(self, jobs: list[Patched], differs: Callable[[Patched, Json | None], str]) -> None:
        """Wait until no JobSet differs from what is wanted of it."""

        async def left() -> str:
            found = await self.jobsets()
            return "\n".join(f"{job.name}: {why}" for job in jobs if (why := differs(job, found.get(job.name))))

        await eventually(left, is_empty, seconds=SECONDS)

    def refused(self) -> Counter[str]:
        """How many writes of a JobSet were refused, by its name."""
        wanted = ("jobsets", self.trainer.namespace)
        calls = self.trainer.calls()
        return Counter(call.name for call in calls if (call.resource, call.namespace) == wanted and call.code >= 400)

    async def warned(self) -> set[str]:
        """Jobs with a Warning event."""
        events = await self.client.list(Event.RESOURCE, self.trainer.namespace)
        return {
            event["regarding"]["name"]
            for event in events.items
            if event["type"] == "Warning" and event["regarding"]["kind"] == "TrainJob"
        }


def holds(wanted: Any, found: Any) -> bool:
    """Whether everything wanted is there; items of lists are found by name, or by being equal."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and holds(item, found[name]) for name, item in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and all(any(holds(item, other) for other in found) for item in wanted)
    return bool(wanted == found)


def shows(value: str) -> Callable[[Patched, Json | None], str]:
    """What may change shows the value."""

    def differs(job: Patched, jobset: Json | None) -> str:
        if jobset is None:
            return "no JobSet"
        if not job.may_change or not job.kind:
            return ""
        [patch] = job.patches(value)
        template = patch["trainingRuntimeSpec"]["template"]
        return "" if holds(template, jobset) else f"does not have {template}"

    return differs


def has_jobs() -> Callable[[Patched, Json | None], str]:
    """Its Jobs were made before the patches: when JobSet resumes them, it adds marks to them and takes none away."""

    def differs(job: Patched, jobset: Json | None) -> str:
        found = (jobset or {}).get("status", {}).get("replicatedJobsStatus", ())
        return "" if any(one["suspended"] for one in found) else "it has no Jobs yet"

    return differs


def suspended(*, wanted: bool) -> Callable[[Patched, Json | None], str]:
    def differs(job: Patched, jobset: Json | None) -> str:
        return "" if jobset is not None and jobset["spec"]["suspend"] is wanted else f"suspend is not {wanted}"

    return differs


def plain(jobset: Json) -> Json:
    """What is compared of JobSets of several jobs."""
    name = jobset["metadata"]["name"]
    kept = {"labels": jobset["metadata"].get("labels"), "annotations": jobset["metadata"].get("annotations")}
    # JobSet writes empty metadata when it creates a set; an empty mapping and none mean the same there.
    text = json.dumps({**kept, "spec": jobset["spec"]}).replace(name, "<job>").replace('"metadata": {}, ', "")
    found: Json = json.loads(text)
    return found


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("chain", [PARITY_LOCAL, REAL_CHAIN], indirect=True, scope="session")
@pytest.mark.timeout(600)
async def test_a_patch_that_comes_changes_and_goes_leaves_nothing(trainer: Trainer, part: int) -> None:
    everything, *shipped = every = list(runtimes(trainer.namespace))
    names = [job.name for runtime in every for job in jobs_of(runtime)]
    assert len(set(names)) == len(names) > 100
    given = shipped[part - 1 :: PARTS - 1] if part else [everything]
    jobs = [job for runtime in given for job in jobs_of(runtime)]
    client = Client(HTTPTransport(load_config(trainer.cluster.kubeconfig)), user_agent="queue")
    queue = Queue(client, trainer)
    try:
        for runtime in given:
            kind = {"apiVersion": TrainingRuntime.RESOURCE.api_version, "kind": "TrainingRuntime"}
            await client.create({**kind, **runtime}, kind=TrainingRuntime.RESOURCE)
        await queue.each(jobs, lambda job: created(queue, job))
        await queue.until(jobs, suspended(wanted=True))
        await queue.until(jobs, has_jobs())
        for _ in range(ROUNDS):
            await queue.each(jobs, lambda job: queue.say(job, suspend=True))
            await queue.until(jobs, suspended(wanted=True))
            for value in ("a", "bb"):
                await queue.each(jobs, lambda job, value=value: queue.say(job, runtimePatches=job.patches(value)))  # type: ignore[misc]
                await queue.until(jobs, shows(value))
            await queue.each(jobs, lambda job: queue.say(job, runtimePatches=None))
            await queue.each(jobs, lambda job: queue.say(job, suspend=False))
            await queue.until(jobs, suspended(wanted=False))
            await complete(queue, jobs)
        # A job that waits for ever is explained for ever, which slows down the tests that follow.
        await client.delete_collection(TrainJob.RESOURCE, trainer.namespace)
    finally:
        await client.close()


async def created(queue: Queue, job: Patched) -> None:
    await queue.client.create(job.document(queue.trainer.namespace), kind=TrainJob.RESOURCE)


async def complete(queue: Queue, jobs: list[Patched]) -> None:
    """All jobs run as those that were never patched, and what was refused was told."""
    found = await queue.jobsets()
    reference = {job.runtime["metadata"]["name"]: plain(found[job.name]) for job in jobs if not job.kind}
    # Events are written beside the work that they tell of.
    await eventually(
        partial(unwarned, queue, jobs), is_empty, seconds=SECONDS, what="a warning for each patch kept back"
    )
    refused, warned = queue.refused(), await queue.warned()
    trainjobs = {
        one["metadata"]["name"]: one
        for one in (await queue.client.list(TrainJob.RESOURCE, queue.trainer.namespace)).items
    }
    wrong = []
    for job in jobs:
        if is_true(trainjobs[job.name].get("status", {}).get("conditions"), "Blocked"):
            wrong.append(f"{job.name}: {trainjobs[job.name]['status']['conditions']}")
        if job.may_change and plain(found[job.name]) != reference[job.runtime["metadata"]["name"]]:
            wrong.append(f"{job.name}: its JobSet is not as that of a job without patches")
        if job.may_change and (refused[job.name] or job.name in warned):
            wrong.append(f"{job.name}: {refused[job.name]} refused, warned: {job.name in warned}")
    assert not wrong, "\n".join(wrong)
    await pods_follow(queue, jobs, found)


async def unwarned(queue: Queue, jobs: list[Patched]) -> list[str]:
    """Jobs whose patch was kept back, and whose user was not told."""
    warned = await queue.warned()
    return [job.name for job in jobs if not job.may_change and job.name not in warned]


async def pods_follow(queue: Queue, jobs: list[Patched], jobsets: dict[str, Json]) -> None:
    """Pods of the trainer, where it need not wait for others, have the marks of their JobSet's template and no more."""

    async def differs() -> str:
        return "\n".join(await _pods_that_differ(queue, jobs, jobsets))

    await eventually(differs, is_empty, seconds=SECONDS)


async def _pods_that_differ(queue: Queue, jobs: list[Patched], jobsets: dict[str, Json]) -> list[str]:
    pods = (await queue.client.list(Pod.RESOURCE, queue.trainer.namespace)).items
    wrong = []
    for job in jobs:
        replicated = next(one for one in jobsets[job.name]["spec"]["replicatedJobs"] if one["name"] == job.target)
        if replicated.get("dependsOn") or job.born:
            continue
        template = replicated["template"]["spec"]["template"]
        marks = {"jobset.sigs.k8s.io/jobset-name": job.name, "jobset.sigs.k8s.io/replicatedjob-name": job.target}
        mine = [pod for pod in pods if holds(marks, pod["metadata"]["labels"])]
        if not mine:
            wrong.append(f"{job.name}: no pods")
        for pod in mine:
            team = {name: pod["metadata"].get(name, {}).get("example.com/team") for name in ("labels", "annotations")}
            wanted = {name: template.get("metadata", {}).get(name, {}).get("example.com/team") for name in team}
            if team != wanted or not holds(
                template["spec"].get("nodeSelector", {}), pod["spec"].get("nodeSelector", {})
            ):
                wrong.append(f"{job.name}: {team} in {pod['metadata']['name']}")
    return wrong
