# SPDX-License-Identifier: Apache-2.0
"""The manager of TrainJobs in a simulated world: runtimes, jobs, and what users do to them."""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.repository import documents
from tests.simulation.coverage import Coverage
from tests.simulation.rules import RULES, is_on
from trainwright.api.base import Resource
from trainwright.api.config.v1alpha1 import Cleanup, Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Namespace, Pod, Secret
from trainwright.api.objects import Document, uid_of
from trainwright.api.scheduling.v1alpha1 import PodGroup
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.cli.local.training import definitions
from trainwright.controller.local.cluster import install
from trainwright.controller.runtime import Manager
from trainwright.controller.runtime.certificates.configurations import webhooks_by_url
from trainwright.controller.runtime.errors import AlreadyExists, ApiError, NotFound
from trainwright.controller.simulation.plan import (
    CHAOS_SECONDS,
    ScenarioPlan,
    Step,
    drawn_faults,
    drawn_lives,
    drawn_steps,
)
from trainwright.controller.simulation.rules import WorldRule
from trainwright.controller.simulation.simulate import MACHINE_WEIGHTS, Action
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process, World
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

SPACE = "default"
TEAM = "team"
"""A namespace that users delete and make again."""
RUNTIMES = ("gang", "plain", "mpi", "brief", "wide")
_RUNTIME_WEIGHTS = (3, 1, 3, 1, 1)
"""Those that own the most are the most likely."""
GATES = ("Explain", "CreatedCondition")
CLEANUP = "cleanup"
QUEUE = "queue"
"""Whether another program writes conditions of its own while the manager writes."""
_QUEUE_SECONDS = 2.0
MARKS = "marks"
"""What the runtimes of a world are annotated with."""
_WEBHOOKS = "https://trainwright.simulated"
_POD_GROUPS = Path(__file__).parents[1] / "conformance" / "crds" / "scheduler-plugins-podgroups.yaml"
_API = "trainer.kubeflow.org/v1alpha1"
_ANCESTOR = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
JOBS = 12
_DEADLINES = ("+deadline", "+deadline", "+deadline", "+hour")
"""A minute, which passes in most worlds, or an hour, which passes only in a sleep or a jump of the clock."""
_MOSTLY = 0.6
_SLOW_STARTS = (5.0, 300.0)
"""In a third of the other worlds images are large, so that jobs wait for their pods."""
_ABOUT_A_DEADLINE = (54.0, 62.0)
"""Where most jobs have a deadline, half of all worlds let pods end about then: jobs complete and fail at once."""

ACTIONS: Mapping[str, float] = {
    "suspend": 3,
    "resume": 4,
    "delete": 3,
    "delete-foreground": 1,
    "delete-orphan": 0.5,
    "recreate": 2,
    "label-job": 1,
    "annotate-job": 0.7,
    "delete-podgroup": 4,
    "edit-podgroup": 2,
    "foreign-podgroup": 2,
    "delete-jobset": 2,
    "edit-jobset": 1,
    "suspend-jobset": 0.7,
    "resume-jobset": 0.7,
    "foreign-jobset": 0.7,
    "delete-snapshot": 2,
    "edit-snapshot": 0.5,
    "foreign-snapshot": 0.5,
    "delete-secret": 2,
    "edit-secret": 1.5,
    "foreign-secret": 1.5,
    "delete-hostfile": 2,
    "edit-hostfile": 2,
    "foreign-hostfile": 1.5,
    "delete-record": 2,
    "edit-record": 1,
    "delete-pod": 2,
    "edit-runtime": 1,
    "replace-runtime": 0.5,
    "delete-runtime": 0.5,
    "lose-runtime": 1,
    "take-runtime": 1,
    "old-finalizer": 0.3,
    "foreign-condition": 0.7,
    "foreign-finalizer": 0.7,
    "patch-as-a-queue": 1,
    "delete-namespace": 0.5,
}
"""What users do to jobs, with weights."""


class TrainJobs:
    """The scenario of this project."""

    def __init__(self) -> None:
        self.lease = "trainer.kubeflow.org"
        self.gates: Sequence[str] = GATES
        self.rules: Sequence[type[WorldRule]] = (*RULES, Coverage)
        self.actions: Mapping[str, Action] = _ACTIONS

    def plan(self, seed: str) -> ScenarioPlan:
        """A world with twelve jobs; each seed draws its own mix."""
        chance = random.Random(f"{seed}/plan")
        replicas = chance.choice([1, 1, 2, 3])
        kinds = list(dict.fromkeys(chance.choices(RUNTIMES, _RUNTIME_WEIGHTS, k=chance.choice([1, 2, 3]))))
        away = chance.choice([0.0, 0.0, 0.4])
        late = chance.choice([0.1, 0.2, _MOSTLY])
        targets = []
        for number in range(JOBS):
            more = "+suspended" if chance.random() < 0.2 else ""
            more += chance.choice(_DEADLINES) if chance.random() < late else ""
            more += "+ttl" if chance.random() < 0.1 else ""
            more += "+team" if chance.random() < away else ""
            targets.append(f"j{number}:{chance.choice(kinds)}{more}")
        lives = drawn_lives(chance)
        if late == _MOSTLY and chance.random() < 0.5:
            lives = replace(lives, runs=_ABOUT_A_DEADLINE)
        options = {name: chance.random() < 0.4 for name in (*self.gates, CLEANUP, QUEUE)}

        def fits(action: str, target: str) -> bool:
            return _fits(action, target) and (options["Explain"] or not action.endswith("-record"))

        plan = ScenarioPlan(
            seed=seed,
            faults=drawn_faults(chance),
            lives=lives,
            replicas=replicas,
            election=replicas > 1 or chance.random() < 0.4,
            drift=chance.choice([0.0, 0.0, 0.05, 0.1]),
            eager=chance.choice([0.0, 0.3, 0.8]),
            options=options,
            steps=drawn_steps(
                chance, targets, ACTIONS, MACHINE_WEIGHTS, replicas=replicas, fits=fits, clean_up="delete"
            ),
        )
        if plan.lives.runs != _ABOUT_A_DEADLINE and chance.random() < 1 / 3:
            plan = replace(plan, lives=replace(plan.lives, starts=_SLOW_STARTS))
        return plan

    def gates_of(self, plan: ScenarioPlan, version: int) -> dict[str, bool]:
        """The gates of a version of the manager."""
        return {name: is_on(name, plan.options, version) for name in self.gates}

    def marks(self, plan: ScenarioPlan) -> Mapping[str, str]:  # noqa: ARG002 - others ask it
        """The annotations of all runtimes."""
        return {}

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Install what `trainwright local` installs, and the runtimes."""
        await install(world.admin, [*definitions(), *documents(_POD_GROUPS)], owner="admin")

        world.notes.update(plan.options)
        world.notes[MARKS] = self.marks(plan)

        async def boot(process: Process) -> Manager:
            gates = self.gates_of(plan, process.version)
            # The job's annotation may say otherwise.
            cleanup = Cleanup(train_job_ttl_seconds=3600, object_ttl_seconds=30) if plan.options.get(CLEANUP) else None
            settings = replace(
                settings_of(Configuration(feature_gates=gates, cleanup=cleanup)),
                metrics_address=None,
                probe_address=None,
                election=None,
            )
            return await make_manager(
                CONFIG,
                settings,
                user_agent=process.name,
                transport=process.network,
                answer_here=process.answer,
                elector=process.elector,
                process=PROCESS,
            )

        await asyncio.sleep(2.0)  # until the new kinds are served
        for _ in range(plan.replicas):
            world.add_replica(boot)
        world.serve_webhooks(_WEBHOOKS)
        await world.admin.create(_runtime_in(world, "wide"), kind=ClusterTrainingRuntime.RESOURCE)
        for name in RUNTIMES[:-1]:
            await world.admin.create(_runtime_in(world, name), kind=TrainingRuntime.RESOURCE)
        await _make_team(world)
        hooks = [webhooks_by_url(one, _WEBHOOKS, b"", {}) for one in webhook_configurations()]
        await install(world.admin, hooks, owner="admin")
        if plan.options.get(QUEUE):
            _let_a_queue_write(world)


# ---------------------------------------------------------------------- objects


def runtime(name: str, *, space: str = SPACE, image: str = "i", marks: Mapping[str, str] | None = None) -> Document:
    """A runtime: `gang` has a PodGroup, `mpi` keys and a host file, the others neither.

    The JobSets of `brief` are deleted soon after their end. `wide` is a ClusterTrainingRuntime.
    """
    pod = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": image}]}}}}
    spec: Document = {"mlPolicy": {"numNodes": 2}}
    node = {"name": "node", "template": {"metadata": {"labels": _ANCESTOR}, **pod}}
    template: Document = {"replicatedJobs": [node]}
    if name == "gang":
        spec["podGroupPolicy"] = {"coscheduling": {}}
    elif name == "brief":
        template["ttlSecondsAfterFinished"] = 20
    elif name == "mpi":
        spec["mlPolicy"]["mpi"] = {
            "mpiImplementation": "OpenMPI",
            "numProcPerNode": 1,
            "runLauncherAsNode": True,
            "sshAuthMountPath": "/root/.ssh",
        }
        launcher = {"name": "launcher", "template": {"metadata": {"labels": _ANCESTOR}, **pod}}
        template = {
            "network": {"publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
            "replicatedJobs": [{"name": "node", "template": pod}, launcher],
        }
    metadata: Document = {"name": name} if name == "wide" else {"name": name, "namespace": space}
    if marks:
        metadata["annotations"] = dict(marks)
    return {
        "apiVersion": _API,
        "kind": "ClusterTrainingRuntime" if name == "wide" else "TrainingRuntime",
        "metadata": metadata,
        "spec": {**spec, "template": {"spec": template}},
    }


def _runtime_in(world: World, name: str, *, space: str = SPACE) -> Document:
    return runtime(name, space=space, marks=world.notes[MARKS])


def train_job(said: str) -> Document:
    """A job by its words, such as `j1:mpi+suspended+deadline`."""
    name, _, variant = said.partition(":")
    kind, *more = (variant or "gang").split("+")
    reference = "ClusterTrainingRuntime" if kind == "wide" else "TrainingRuntime"
    spec: Document = {"runtimeRef": {"kind": reference, "name": kind, "apiGroup": "trainer.kubeflow.org"}}
    if "suspended" in more:
        spec["suspend"] = True
    if "deadline" in more:
        spec["activeDeadlineSeconds"] = 60
    elif "hour" in more:
        spec["activeDeadlineSeconds"] = 3600
    metadata: Document = {"name": name, "namespace": TEAM if "team" in more else SPACE}
    if "ttl" in more:
        metadata["annotations"] = {"trainwright.dev/ttl-seconds-after-finished": "30"}
    return {"apiVersion": _API, "kind": "TrainJob", "metadata": metadata, "spec": spec}


def _fits(action: str, target: str) -> bool:
    """Whether a job of these words has, or could have, what the action is on."""
    what = action.rpartition("-")[2]
    runtime = target.partition(":")[2].partition("+")[0]
    if what == "podgroup":
        return runtime == "gang"
    if what in ("secret", "hostfile"):
        return runtime == "mpi"
    return what != "namespace" or "+team" in target


def _name(step: Step) -> str:
    return step.on.partition(":")[0]


def _space(step: Step) -> str:
    return TEAM if "+team" in step.on else SPACE


def _runtime(step: Step) -> tuple[Resource, str, str]:
    """Kind, name and namespace of the runtime of a job."""
    name = (step.on.partition(":")[2] or "gang").partition("+")[0]
    if name == "wide":
        return ClusterTrainingRuntime.RESOURCE, name, ""
    return TrainingRuntime.RESOURCE, name, _space(step)


# ---------------------------------------------------------------------- what users do

_JOB = TrainJob.RESOURCE


async def _create(world: World, step: Step) -> None:
    await world.admin.create(train_job(step.on), kind=_JOB)


async def _patch(world: World, step: Step, patch: Mapping[str, Any]) -> None:
    await world.admin.patch(_JOB, _name(step), _space(step), patch)


def _deletes(kind: Resource, suffix: str = "", **options: Any) -> Action:
    """Deletes an object that has the name of a job and this suffix."""

    async def act(world: World, step: Step) -> None:
        await world.admin.delete(kind, f"{_name(step)}{suffix}", _space(step), **options)

    return act


def _patches(kind: Resource, patch: Document, suffix: str = "") -> Action:
    """Changes such an object. The text AT stands for the time of the step."""

    async def act(world: World, step: Step) -> None:
        text = json.dumps(patch).replace('"AT"', json.dumps(str(step.at)))
        await world.admin.patch(kind, f"{_name(step)}{suffix}", _space(step), json.loads(text))

    return act


def _owned_by_job(collection: str, kind: Any, patch: Document | None = None) -> Action:
    """Changes an object that a job owns, or deletes it."""

    async def act(world: World, step: Step) -> str:
        if (name := _owned(world, collection, step)) is None:
            return "none"
        if patch is None:
            await world.admin.delete(kind, name, _space(step))
            return f"deleted {name}"
        await world.admin.patch(kind, name, _space(step), patch)
        return f"edited {name}"

    return act


_SUSPENDED, _RESUMED = {"spec": {"suspend": True}}, {"spec": {"suspend": False}}
_MARKED: Document = {"metadata": {"labels": {"l": "AT"}}}
_delete = _deletes(_JOB, propagation="Background")
_suspend, _resume = _patches(_JOB, _SUSPENDED), _patches(_JOB, _RESUMED)
_delete_snapshot = _deletes(ConfigMap.RESOURCE, "-runtime-snapshot")


async def _recreate(world: World, step: Step) -> None:
    await _delete(world, step)
    await _create(world, step)


async def _delete_pod(world: World, step: Step) -> str:
    found = await world.admin.list(
        Pod.RESOURCE, _space(step), label_selector=f"jobset.sigs.k8s.io/jobset-name={_name(step)}"
    )
    if not found.items:
        return "none"
    name: str = min(pod["metadata"]["name"] for pod in found.items)
    await world.admin.delete(Pod.RESOURCE, name, _space(step))
    return f"deleted {name}"


async def _edit_runtime(world: World, step: Step) -> None:
    kind, name, space = _runtime(step)
    patch: Document = {"metadata": {"labels": {"edited": str(int(step.at))}}}
    if step.more > 20:  # what no running JobSet may change
        image = f"i{int(step.at)}"
        patch["spec"] = {"template": runtime(name, space=space, image=image)["spec"]["template"]}
    elif name == "gang":
        patch["spec"] = {"podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 10 + int(step.at) % 50}}}
    await world.admin.patch(kind, name, space, patch)


async def _delete_runtime(world: World, step: Step) -> None:
    await world.admin.delete(*_runtime(step))


async def _replace_runtime(world: World, step: Step) -> None:
    """It is gone for a while, or was gone before."""
    kind, name, space = _runtime(step)
    with suppress(NotFound):
        await world.admin.delete(kind, name, space)
    await asyncio.sleep(step.more % 1)
    await world.admin.create(_runtime_in(world, name, space=space), kind=kind)


async def _lose_runtime(world: World, step: Step) -> None:
    """Somebody removes a runtime, and what a job kept of it."""
    await _delete_snapshot(world, step)
    await _delete_runtime(world, step)


async def _take_runtime(world: World, step: Step) -> None:
    """Somebody edits a runtime, and lets a job take it as it is now: while it runs, or suspended for that moment."""
    kind, name, space = _runtime(step)
    edited = runtime(name, space=space, image=f"i{step.at}")["spec"]["template"]
    pauses = step.more > 15
    if pauses:
        await _suspend(world, step)
        await asyncio.sleep(step.more % 3)
    await world.admin.patch(kind, name, space, {"spec": {"template": edited}})
    await _delete_snapshot(world, step)
    if pauses:
        await asyncio.sleep(step.more % 2)
        await _resume(world, step)


def _owned(world: World, collection: str, step: Step) -> str | None:
    """An object of the job, but neither its snapshot nor its record."""
    for one in world.stored(collection):
        metadata = one["metadata"]
        owners = [owner["name"] for owner in metadata.get("ownerReferences") or ()]
        if _name(step) in owners and not metadata["name"].endswith(("-runtime-snapshot", "-failures")):
            name: str = metadata["name"]
            return name
    return None


async def _edit_snapshot(world: World, step: Step) -> None:
    """Its label, or what it holds."""
    name = f"{_name(step)}-runtime-snapshot"
    patch: Document = {"metadata": {"labels": {"l": str(step.at)}}}
    if step.more > 20:
        patch["data"] = dict.fromkeys(
            (await world.admin.get(ConfigMap.RESOURCE, name, _space(step))).get("data") or (), "edited"
        )
    await world.admin.patch(ConfigMap.RESOURCE, name, _space(step), patch)


def _makes_foreign(kind: Resource, suffix: str = "", **fields: Any) -> Action:
    """An object of somebody else under a name of ours; half of them are deleted again."""

    async def act(world: World, step: Step) -> None:
        name, space = f"{_name(step)}{suffix}", _space(step)
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": space}}
        await world.admin.create({**head, **fields}, kind=kind)
        if step.more > 20:
            made = await world.admin.get(kind, name, space)

            async def delete() -> None:
                await asyncio.sleep((step.more - 20) * 3)
                with suppress(ApiError):
                    await world.admin.delete(kind, name, space, uid=uid_of(made), propagation="Background")

            world.start(f"deletes {name}", delete())

    return act


async def _foreign_finalizer(world: World, step: Step) -> None:
    """Another program holds a job for a while."""
    name, space = _name(step), _space(step)
    await _patch(world, step, {"metadata": {"finalizers": ["example.com/held"]}})

    async def let_go() -> None:
        await asyncio.sleep(step.more)
        while True:
            try:
                await world.admin.patch(_JOB, name, space, {"metadata": {"finalizers": None}})
            except NotFound:
                return
            except ApiError:  # while no webhook answers
                await asyncio.sleep(1.0)
            else:
                return

    world.start(f"lets {name} go", let_go())


async def _delete_namespace(world: World, step: Step) -> str:
    """It is made again as soon as it is gone, with its runtimes."""
    if _space(step) != TEAM:
        return "not that one"
    await world.admin.delete(Namespace.RESOURCE, TEAM)
    world.start("makes the namespace again", _make_again(world))
    return "deleted"


async def _make_again(world: World) -> None:
    """Once it is gone: in one that is being deleted, nothing can be made."""
    while True:
        await asyncio.sleep(0.5)
        if not any(one["metadata"]["name"] == TEAM for one in world.stored("namespaces")):
            break
    while True:
        with suppress(ApiError):  # while no webhook answers
            return await _make_team(world)
        await asyncio.sleep(0.5)


async def _make_team(world: World) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    with suppress(AlreadyExists):
        await world.admin.create(namespace, kind=Namespace.RESOURCE)
    for name in RUNTIMES[:-1]:
        with suppress(AlreadyExists):
            await world.admin.create(_runtime_in(world, name, space=TEAM), kind=TrainingRuntime.RESOURCE)


async def _old_finalizer(world: World, step: Step) -> None:
    """A runtime with the finalizer of earlier versions of Kubeflow Trainer is deleted."""
    name = f"old-{_name(step)}"
    old = _runtime_in(world, "plain")
    old["metadata"] = {"name": name, "namespace": _space(step), "finalizers": ["trainer.kubeflow.org/resource-in-use"]}
    await world.admin.create(old, kind=TrainingRuntime.RESOURCE)
    await world.admin.delete(TrainingRuntime.RESOURCE, name, _space(step))


async def _foreign_condition(world: World, step: Step) -> None:
    """Another program writes a condition of its own."""
    found = await world.admin.get(_JOB, _name(step), _space(step))
    conditions = [one for one in (found.get("status") or {}).get("conditions") or [] if one["type"] != "Quota"]
    moment = "2030-01-01T00:00:00Z"
    quota = {"type": "Quota", "status": "True", "reason": "Q", "message": str(step.at), "lastTransitionTime": moment}
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
    patch = {"metadata": metadata, "status": {"conditions": [*conditions, quota]}}
    await world.admin.patch(_JOB, _name(step), _space(step), patch, subresource="status")


def _let_a_queue_write(world: World) -> None:
    """Another program writes its condition when the state of a job changes, which is when the manager writes it."""
    loop, chance = asyncio.get_running_loop(), world.chance.of("queue")
    end, last = loop.time() + CHAOS_SECONDS, dict[str, float]()
    context = copy_context()  # that of the world: a manager's writes are those of its process

    def sent(process: str, path: str) -> None:
        parts = path.split("/")
        if not process.startswith("manager-") or parts[-1] != "status" or parts[-3] != "trainjobs":
            return
        if last.get(path, 0.0) + _QUEUE_SECONDS < loop.time() < end:  # each meets a write; more would stop the manager
            last[path] = loop.time()
            context.run(world.start, "queue", write(parts[-4], parts[-2], chance.random()))

    async def write(space: str, name: str, part: float) -> None:
        await asyncio.sleep(3 * world.faults.latency * part)
        variant = "gang+team" if space == TEAM else "gang"
        with suppress(ApiError):
            await _foreign_condition(world, Step(loop.time(), "foreign-condition", f"{name}:{variant}"))

    world.hooks.sent.append(sent)


async def _patch_as_a_queue(world: World, step: Step) -> None:
    """As Kueue starts a job: node selectors by a runtime patch, and no suspension any more."""
    template = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}
    jobs = [{"name": "node", "template": {"spec": template}}]
    patch = {
        "manager": "kueue.x-k8s.io/manager",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }
    await _patch(world, step, {"spec": {"suspend": True}})
    await _patch(world, step, {"spec": {"runtimePatches": [patch], "suspend": False}})


_FOREIGN_JOBS = [
    {
        "name": "other",
        "template": {
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
        },
    }
]
_ACTIONS: Mapping[str, Action] = {
    "create": _create,
    "suspend": _suspend,
    "resume": _resume,
    "delete": _delete,
    "delete-foreground": _deletes(_JOB, propagation="Foreground"),
    "delete-orphan": _deletes(_JOB, propagation="Orphan"),
    "recreate": _recreate,
    "label-job": _patches(_JOB, _MARKED),
    "annotate-job": _patches(_JOB, {"metadata": {"annotations": {"a": "AT"}}}),
    "delete-podgroup": _deletes(PodGroup.RESOURCE),
    "edit-podgroup": _patches(PodGroup.RESOURCE, {"spec": {"minMember": 7}}),
    "foreign-podgroup": _makes_foreign(PodGroup.RESOURCE, spec={"minMember": 1}),
    "delete-jobset": _deletes(JobSet.RESOURCE, propagation="Background"),
    "edit-jobset": _patches(JobSet.RESOURCE, _MARKED),
    "suspend-jobset": _patches(JobSet.RESOURCE, _SUSPENDED),
    "resume-jobset": _patches(JobSet.RESOURCE, _RESUMED),
    "foreign-jobset": _makes_foreign(JobSet.RESOURCE, spec={"replicatedJobs": _FOREIGN_JOBS}),
    "delete-snapshot": _delete_snapshot,
    "edit-snapshot": _edit_snapshot,
    "foreign-snapshot": _makes_foreign(ConfigMap.RESOURCE, "-runtime-snapshot"),
    "delete-secret": _owned_by_job("secrets", Secret.RESOURCE),
    "edit-secret": _owned_by_job("secrets", Secret.RESOURCE, {"data": {"more": "eA=="}}),
    "foreign-secret": _makes_foreign(Secret.RESOURCE, "-mpi-ssh-auth"),
    "delete-hostfile": _owned_by_job("configmaps", ConfigMap.RESOURCE),
    "edit-hostfile": _owned_by_job("configmaps", ConfigMap.RESOURCE, {"data": {"hostfile": "elsewhere"}}),
    "foreign-hostfile": _makes_foreign(ConfigMap.RESOURCE, "-mpi-hostfile"),
    "delete-record": _deletes(ConfigMap.RESOURCE, "-failures"),
    "edit-record": _patches(ConfigMap.RESOURCE, {"data": {"more": "AT"}}, "-failures"),
    "delete-pod": _delete_pod,
    "edit-runtime": _edit_runtime,
    "delete-runtime": _delete_runtime,
    "replace-runtime": _replace_runtime,
    "lose-runtime": _lose_runtime,
    "take-runtime": _take_runtime,
    "old-finalizer": _old_finalizer,
    "foreign-condition": _foreign_condition,
    "foreign-finalizer": _foreign_finalizer,
    "patch-as-a-queue": _patch_as_a_queue,
    "delete-namespace": _delete_namespace,
}
