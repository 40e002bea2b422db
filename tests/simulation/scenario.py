# SPDX-License-Identifier: Apache-2.0
"""The manager of TrainJobs in a simulated world: runtimes, jobs, and what users do to them."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.simulation.rules import RULES
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod, Secret
from trainwright.api.objects import Document
from trainwright.api.scheduling.v1alpha1 import PodGroup
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.local.training import definitions
from trainwright.controller.local.cluster import install
from trainwright.controller.local.testing.simulation.plan import Plan, Step, drawn_lives, drawn_steps, drawn_weather
from trainwright.controller.local.testing.simulation.rules import Rule
from trainwright.controller.local.testing.simulation.simulate import MACHINE_WEIGHTS, Action
from trainwright.controller.local.testing.simulation.world import CONFIG, PROCESS, Process, World
from trainwright.controller.runtime import Manager
from trainwright.controller.runtime.webhook.configurations import by_url
from trainwright.controller.trainer.admission.configurations import webhook_configurations
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

SPACE = "default"
RUNTIMES = ("gang", "plain", "mpi")
GATES = ("Explain", "CreatedCondition")
_WEBHOOKS = "https://trainwright.simulated"
_POD_GROUPS = Path(__file__).parents[1] / "conformance" / "crds" / "scheduler-plugins-podgroups.yaml"
_API = "trainer.kubeflow.org/v1alpha1"
_ANCESTOR = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
JOBS = 12

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
    "edit-podgroup": 1,
    "foreign-podgroup": 1,
    "delete-jobset": 2,
    "edit-jobset": 1,
    "delete-snapshot": 2,
    "delete-secret": 1,
    "delete-hostfile": 1,
    "delete-pod": 2,
    "edit-runtime": 1,
    "delete-runtime": 0.5,
    "lose-runtime": 1,
    "old-finalizer": 0.3,
    "foreign-condition": 0.7,
    "patch-as-a-queue": 1,
}
"""What users do to jobs, with weights."""


class TrainJobs:
    """The scenario of this project."""

    def __init__(self) -> None:
        self.lease = "trainer.kubeflow.org"
        self.rules: Sequence[type[Rule]] = RULES
        self.actions: Mapping[str, Action] = _ACTIONS

    def plan(self, seed: str) -> Plan:
        """A world with twelve jobs; each seed draws its own mix."""
        chance = random.Random(f"{seed}/plan")
        replicas = chance.choice([1, 1, 2, 3])
        kinds = chance.sample(RUNTIMES, chance.choice([1, 2, 3]))
        targets = []
        for number in range(JOBS):
            more = "+suspended" if chance.random() < 0.2 else ""
            more += "+deadline" if chance.random() < 0.2 else ""
            more += "+ttl" if chance.random() < 0.1 else ""
            targets.append(f"j{number}:{chance.choice(kinds)}{more}")
        return Plan(
            seed=seed,
            weather=drawn_weather(chance),
            lives=drawn_lives(chance),
            replicas=replicas,
            election=replicas > 1 or chance.random() < 0.4,
            options={gate: chance.random() < 0.4 for gate in GATES},
            steps=drawn_steps(chance, targets, ACTIONS, MACHINE_WEIGHTS, replicas=replicas),
        )

    async def begin(self, world: World, plan: Plan) -> None:
        """Install what `trainwright local` installs, and three runtimes."""
        group = yaml.safe_load(_POD_GROUPS.read_text())
        await install(world.admin, [*definitions(), group], owner="admin")
        gates = {name: True for name, is_on in plan.options.items() if is_on}

        async def boot(process: Process) -> Manager:
            settings = replace(
                settings_of(Configuration(feature_gates=gates)),
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
        for name in RUNTIMES:
            await world.admin.create(runtime(name), kind=TrainingRuntime.RESOURCE)
        hooks = [by_url(one, _WEBHOOKS, b"", {}) for one in webhook_configurations()]
        await install(world.admin, hooks, owner="admin")


# ---------------------------------------------------------------------- objects


def runtime(name: str, *, wait: int = 0) -> Document:
    """A runtime: `gang` has a PodGroup, `mpi` keys and a host file, `plain` neither."""
    pod = {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}}}
    spec: Document = {"mlPolicy": {"numNodes": 2}}
    node = {"name": "node", "template": {"metadata": {"labels": _ANCESTOR}, **pod}}
    template: Document = {"replicatedJobs": [node]}
    if name == "gang":
        spec["podGroupPolicy"] = {"coscheduling": {"scheduleTimeoutSeconds": wait} if wait else {}}
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
    metadata = {"name": name, "namespace": SPACE}
    return {
        "apiVersion": _API,
        "kind": "TrainingRuntime",
        "metadata": metadata,
        "spec": {**spec, "template": {"spec": template}},
    }


def train_job(said: str) -> Document:
    """A job by its words, such as `j1:mpi+suspended+deadline`."""
    name, _, variant = said.partition(":")
    kind, *more = (variant or "gang").split("+")
    spec: Document = {"runtimeRef": {"kind": "TrainingRuntime", "name": kind, "apiGroup": "trainer.kubeflow.org"}}
    if "suspended" in more:
        spec["suspend"] = True
    if "deadline" in more:
        spec["activeDeadlineSeconds"] = 60
    return {"apiVersion": _API, "kind": "TrainJob", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def _name(step: Step) -> str:
    return step.on.partition(":")[0]


def _runtime(step: Step) -> str:
    return (step.on.partition(":")[2] or "gang").partition("+")[0]


# ---------------------------------------------------------------------- what users do

_JOB = TrainJob.RESOURCE


async def _create(world: World, step: Step) -> None:
    await world.admin.create(train_job(step.on), kind=_JOB)


async def _patch(world: World, step: Step, patch: Mapping[str, Any]) -> None:
    await world.admin.patch(_JOB, _name(step), SPACE, patch)


async def _suspend(world: World, step: Step) -> None:
    await _patch(world, step, {"spec": {"suspend": True}})


async def _resume(world: World, step: Step) -> None:
    await _patch(world, step, {"spec": {"suspend": False}})


async def _label(world: World, step: Step) -> None:
    await _patch(world, step, {"metadata": {"labels": {"l": str(step.at)}}})


async def _annotate(world: World, step: Step) -> None:
    await _patch(world, step, {"metadata": {"annotations": {"a": str(step.at)}}})


async def _delete(world: World, step: Step) -> None:
    await world.admin.delete(_JOB, _name(step), SPACE, propagation="Background")


async def _delete_foreground(world: World, step: Step) -> None:
    await world.admin.delete(_JOB, _name(step), SPACE, propagation="Foreground")


async def _delete_orphan(world: World, step: Step) -> None:
    await world.admin.delete(_JOB, _name(step), SPACE, propagation="Orphan")


async def _recreate(world: World, step: Step) -> None:
    await _delete(world, step)
    await _create(world, step)


async def _delete_podgroup(world: World, step: Step) -> None:
    await world.admin.delete(PodGroup.RESOURCE, _name(step), SPACE)


async def _edit_podgroup(world: World, step: Step) -> None:
    await world.admin.patch(PodGroup.RESOURCE, _name(step), SPACE, {"spec": {"minMember": 7}})


async def _foreign_podgroup(world: World, step: Step) -> None:
    metadata = {"name": _name(step), "namespace": SPACE}
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata}
    await world.admin.create({**group, "spec": {"minMember": 1}}, kind=PodGroup.RESOURCE)


async def _delete_jobset(world: World, step: Step) -> None:
    await world.admin.delete(JobSet.RESOURCE, _name(step), SPACE, propagation="Background")


async def _edit_jobset(world: World, step: Step) -> None:
    await world.admin.patch(JobSet.RESOURCE, _name(step), SPACE, {"metadata": {"labels": {"l": str(step.at)}}})


async def _delete_snapshot(world: World, step: Step) -> None:
    await world.admin.delete(ConfigMap.RESOURCE, f"{_name(step)}-runtime-snapshot", SPACE)


async def _delete_pod(world: World, step: Step) -> str:
    found = await world.admin.list(Pod.RESOURCE, SPACE, label_selector=f"jobset.sigs.k8s.io/jobset-name={_name(step)}")
    if not found.items:
        return "none"
    name: str = min(pod["metadata"]["name"] for pod in found.items)
    await world.admin.delete(Pod.RESOURCE, name, SPACE)
    return f"deleted {name}"


async def _edit_runtime(world: World, step: Step) -> None:
    patch = {"metadata": {"labels": {"edited": str(int(step.at))}}}
    if _runtime(step) == "gang":
        patch["spec"] = {"podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 10 + int(step.at) % 50}}}  # type: ignore[dict-item]
    await world.admin.patch(TrainingRuntime.RESOURCE, _runtime(step), SPACE, patch)


async def _delete_runtime(world: World, step: Step) -> None:
    await world.admin.delete(TrainingRuntime.RESOURCE, _runtime(step), SPACE)


async def _lose_runtime(world: World, step: Step) -> None:
    """Somebody removes a runtime, and what a job kept of it."""
    await _delete_snapshot(world, step)
    await _delete_runtime(world, step)


async def _delete_secret(world: World, step: Step) -> str:
    return await _delete_owned(world, "secrets", Secret.RESOURCE, step)


async def _delete_hostfile(world: World, step: Step) -> str:
    return await _delete_owned(world, "configmaps", ConfigMap.RESOURCE, step)


async def _delete_owned(world: World, collection: str, kind: Any, step: Step) -> str:
    """An object of the job, but neither its snapshot nor its record."""
    for one in world.stored(collection):
        metadata = one["metadata"]
        owners = [owner["name"] for owner in metadata.get("ownerReferences") or ()]
        if _name(step) in owners and not metadata["name"].endswith(("-runtime-snapshot", "-failures")):
            await world.admin.delete(kind, metadata["name"], SPACE)
            return f"deleted {metadata['name']}"
    return "none"


async def _old_finalizer(world: World, step: Step) -> None:
    """A runtime with the finalizer of earlier versions of Kubeflow Trainer is deleted."""
    name = f"old-{_name(step)}"
    old = runtime("plain")
    old["metadata"] = {"name": name, "namespace": SPACE, "finalizers": ["trainer.kubeflow.org/resource-in-use"]}
    await world.admin.create(old, kind=TrainingRuntime.RESOURCE)
    await world.admin.delete(TrainingRuntime.RESOURCE, name, SPACE)


async def _foreign_condition(world: World, step: Step) -> None:
    """Another program writes a condition of its own."""
    found = await world.admin.get(_JOB, _name(step), SPACE)
    conditions = [one for one in (found.get("status") or {}).get("conditions") or [] if one["type"] != "Quota"]
    moment = "2030-01-01T00:00:00Z"
    quota = {"type": "Quota", "status": "True", "reason": "Q", "message": str(step.at), "lastTransitionTime": moment}
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
    patch = {"metadata": metadata, "status": {"conditions": [*conditions, quota]}}
    await world.admin.patch(_JOB, _name(step), SPACE, patch, subresource="status")


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


_ACTIONS: Mapping[str, Action] = {
    "create": _create,
    "suspend": _suspend,
    "resume": _resume,
    "delete": _delete,
    "delete-foreground": _delete_foreground,
    "delete-orphan": _delete_orphan,
    "recreate": _recreate,
    "label-job": _label,
    "annotate-job": _annotate,
    "delete-podgroup": _delete_podgroup,
    "edit-podgroup": _edit_podgroup,
    "foreign-podgroup": _foreign_podgroup,
    "delete-jobset": _delete_jobset,
    "edit-jobset": _edit_jobset,
    "delete-snapshot": _delete_snapshot,
    "delete-secret": _delete_secret,
    "delete-hostfile": _delete_hostfile,
    "delete-pod": _delete_pod,
    "edit-runtime": _edit_runtime,
    "delete-runtime": _delete_runtime,
    "lose-runtime": _lose_runtime,
    "old-finalizer": _old_finalizer,
    "foreign-condition": _foreign_condition,
    "patch-as-a-queue": _patch_as_a_queue,
}
