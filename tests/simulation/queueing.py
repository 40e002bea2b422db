# SPDX-License-Identifier: Apache-2.0
"""Jobs of a queue in a simulated world: a small model of Kueue admits, evicts and requeues them, in an order by seed.

It does to a TrainJob what Kueue's reconciler does, in its order (sigs.k8s.io/kueue, pkg/controller/jobframework): take
the counts of what succeeded, note whether pods are ready, carry out an eviction, start or stop the job. Workloads are
documents in memory, which `explain` reads beside the stored objects.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.simulation.recovering import GATE, MORE_RETRIES, Recovering
from tests.simulation.rules import JOBS, JOBSETS, is_on, owner_of, true_conditions
from tests.simulation.scenario import SPACE, TrainJobs, runtime, train_job
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET_UID, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.objects import Document, labels_of, name_of, uid_of
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import DATASET_INITIALIZER, NODE
from trainwright.api.trainer.v1alpha1.queues import LABEL_QUEUE, PATCH_MANAGER
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.simulation.network import FaultProfile
from trainwright.controller.simulation.node import NAME as NODE_NAME
from trainwright.controller.simulation.plan import CHAOS_SECONDS, ScenarioPlan, Step
from trainwright.controller.simulation.rules import Violation, WorldRule
from trainwright.controller.simulation.simulate import Action, Outcome, simulate
from trainwright.controller.simulation.world import World
from trainwright.controller.trainer.why.job.judgement import Explanation, explain
from trainwright.controller.trainer.why.reader import GivenObjects
from trainwright.plugins.contract import JobState

PLACES = 4
"""Jobs that fit at the same time."""
FLAVORS = ("spot", "reserved")
"""Each has a node label of its own."""
TIMEOUT_SECONDS = 45.0
"""Kueue's waitForPodsReady.timeout and recoveryTimeout: an initializer and a pause in a queue."""
LIMIT = 3
"""Kueue's backoffLimitCount."""
_BACKOFF_SECONDS = 5.0
_OF_QUEUES = ("QueueFull", "EvictedByQueue", "AdmissionCheckPending", "NotQueued", "QueueMissing", "PodsRefused")
"""Causes that pass by themselves here."""
_SETTLED_SECONDS = 60.0
_CALM_SECONDS = 160.0
"""How long jobs are still evicted once the faults have stopped."""
_TOLD_SECONDS = 1.0
_RESUMED_SECONDS = 3.0
_STAGED = "staged"
"""A runtime with an initializer."""
FAIR = "fair"
"""Whether nothing disturbs but Kueue and ranks that fail, so that its rules hold from the first moment on."""
_FAIR_JOBS = 8
_RETRIES = 4
"""With fewer, no pause would be longer than one in a queue."""
_LEFT_ALONE = frozenset(
    {
        *("suspend", "resume", "suspend-jobset", "resume-jobset", "patch-as-a-queue"),
        *("take-runtime", "lose-runtime", "delete-runtime", "replace-runtime", "delete-namespace"),
        *("delete-snapshot", "edit-snapshot", "foreign-snapshot", "foreign-jobset"),
    }
)
"""What users do that a queue undoes, or that keeps jobs from being built."""
_API = "kueue.x-k8s.io/v1beta1"


@dataclass(slots=True)
class Workload:
    """What Kueue knows of a job."""

    name: str
    created: float
    is_active: bool = True
    is_reserved: bool = False
    evicted: str = ""
    """Why; kept until the next admission, as Kueue's condition."""
    since: float = 0.0
    """Of the admission, or since when its pods are not ready."""
    is_ready: bool = False
    requeues: int = 0
    requeue_at: float = 0.0
    reclaimed: dict[str, int] = field(default_factory=dict)
    conditions: dict[str, Document] = field(default_factory=dict)

    def note(self, kind: str, status: bool, reason: str, message: str, at: str) -> None:
        if (self.conditions.get(kind) or {}).get("status") != str(status) or self.conditions[kind]["reason"] != reason:
            said = {"type": kind, "status": str(status), "reason": reason, "message": message}
            self.conditions[kind] = {**said, "lastTransitionTime": at}

    def document(self, job: Document) -> Document:
        """As Kueue stores it."""
        owner = {"apiVersion": job["apiVersion"], "kind": "TrainJob", "name": self.name, "uid": uid_of(job)}
        metadata = {"name": f"trainjob-{self.name}", "namespace": SPACE, "uid": f"workload-{uid_of(job)}"}
        return {
            "apiVersion": _API,
            "kind": "Workload",
            "metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"queueName": "q", "active": self.is_active},
            "status": {"conditions": list(self.conditions.values())},
        }


class Kueue:
    """Admits the jobs of a world, and evicts some of them while the chaos lasts."""

    def __init__(
        self,
        world: World,
        say: Callable[[str], None],
        looked: Callable[[Document, Workload], None],
        timed_out: Callable[[str], None],
    ) -> None:
        self.world, self._say, self._looked, self._timed_out = world, say, looked, timed_out
        self.workloads: dict[str, Workload] = {}
        self.has_changed = asyncio.Event()
        """Whether a TrainJob has changed since the last look."""
        self._chance: random.Random = world.chance.of("kueue")
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + CHAOS_SECONDS + _CALM_SECONDS

    async def run(self) -> None:
        """Look at all jobs, again and again."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.05, 0.5))
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0 if self._loop.time() < self._end or self.soon else None):
                    await self.has_changed.wait()
            self.has_changed.clear()
            jobs = {uid_of(job): job for job in self.world.stored(JOBS) if LABEL_QUEUE in labels_of(job)}
            self.workloads = {uid: one for uid, one in self.workloads.items() if uid in jobs}
            for uid, job in jobs.items():
                workload = self.workloads.setdefault(uid, Workload(name_of(job), self._loop.time()))
                with suppress(ApiError):  # the next look tries again
                    await self._reconcile(job, workload)
                self._looked(job, workload)
            self._admit(jobs)
            self._preempt()

    @property
    def soon(self) -> float:
        """Seconds until a job may be requeued or evicted."""
        now, lefts = self._loop.time(), [0.0]
        for one in self.workloads.values():
            if one.is_active and not one.is_reserved and one.requeue_at > now:
                lefts.append(one.requeue_at - now + 1.0)
            if one.is_reserved and not one.is_ready:
                lefts.append(one.since + TIMEOUT_SECONDS - now + 1.0)
        return max(lefts)

    async def _reconcile(self, job: Document, one: Workload) -> None:
        counters = {step["name"]: step for step in (job.get("status") or {}).get("jobsStatus") or ()}
        if true_conditions(job).keys() & {"Complete", "Failed"} or "deletionTimestamp" in job["metadata"]:
            one.is_reserved = one.is_active = False
            return
        succeeded = {name: step["succeeded"] for name, step in counters.items() if step["succeeded"]}
        if one.is_reserved and any(succeeded.get(name, 0) < count for name, count in one.reclaimed.items()):
            self._say(f"{one.name}: {one.reclaimed} succeeded, and now {succeeded}: Kueue does nothing more for it")
            return
        one.reclaimed = succeeded
        self._note_ready(one, counters)
        if one.evicted and one.is_reserved:
            await self._evict(job, one, is_running=any(step["active"] for step in counters.values()))
        elif job["spec"].get("suspend") and one.is_reserved:
            (flavor,) = self._chance.choices(FLAVORS, (4, 1))  # most jobs come back to the one that they had
            jobs = [_placed(step, flavor) for step in _steps(self.world, job)]
            await self._patch(job, {"runtimePatches": _patches(jobs)})
            await self._patch(job, {"suspend": False})
        elif not job["spec"].get("suspend") and not one.is_reserved:
            await self._patch(job, {"suspend": True})

    def _note_ready(self, one: Workload, counters: Mapping[str, Document]) -> None:
        if not one.is_reserved or one.evicted:
            return
        is_ready = bool(counters) and all(step["ready"] + step["succeeded"] >= 1 for step in counters.values())
        if one.is_ready and not is_ready:
            one.since = self._loop.time()
        one.is_ready = is_ready
        if not is_ready and self._loop.time() > one.since + TIMEOUT_SECONDS:
            one.requeues += 1
            one.is_active = one.requeues <= LIMIT
            one.requeue_at = self._loop.time() + _BACKOFF_SECONDS * 2**one.requeues
            self._stop(one, "PodsReadyTimeout" if one.is_active else "Deactivated")
            self._timed_out(one.name)

    def _stop(self, one: Workload, reason: str) -> None:
        one.evicted = reason
        one.note("Evicted", True, reason, f"evicted by {reason}", self._now())

    async def _evict(self, job: Document, one: Workload, *, is_running: bool) -> None:
        if not job["spec"].get("suspend"):
            await self._patch(job, {"suspend": True})
        elif not is_running:
            await self._patch(job, {"runtimePatches": _patches([])})
            one.is_reserved = False
            one.note("QuotaReserved", False, "Pending", f"evicted by {one.evicted}", self._now())
            one.note("Admitted", False, "NoReservation", "The workload has no reservation", self._now())

    def _admit(self, jobs: Mapping[str, Document]) -> None:
        now = self._loop.time()
        waiting = [uid for uid, one in self.workloads.items() if one.is_active and not one.is_reserved]
        for uid in sorted(waiting, key=lambda uid: self.workloads[uid].created):
            one, job = self.workloads[uid], jobs[uid]
            if sum(other.is_reserved for other in self.workloads.values()) >= PLACES:
                message = "insufficient unused quota for cpu in flavor spot, 1 more needed"
                one.note("QuotaReserved", False, "Pending", message, self._now())
            elif one.requeue_at <= now and not any(step["active"] for step in _told(job)):
                one.is_reserved, one.evicted, one.since, one.is_ready = True, "", now, False
                self.world.trace.sometimes("a job is admitted")
                for kind, holds in (("QuotaReserved", True), ("Admitted", True), ("Evicted", False)):
                    one.note(kind, holds, "QuotaReserved", "", self._now())

    def _preempt(self) -> None:
        running = [one for one in self.workloads.values() if one.is_reserved and not one.evicted]
        if running and self._loop.time() < self._end and self._chance.random() < 0.03:
            self.world.trace.sometimes("a job is preempted")
            self._stop(self._chance.choice(running), "Preempted")

    def _now(self) -> str:
        return format_time(self.world.surroundings.now())

    async def _patch(self, job: Document, spec: Document) -> None:
        patch = {"metadata": {"uid": uid_of(job)}, "spec": spec}
        await self.world.admin.patch(TrainJob.RESOURCE, name_of(job), SPACE, patch)


class Queueing(Recovering):
    """The scenario of jobs that recover, all of them in a queue."""

    def __init__(self) -> None:
        super().__init__(hangs=False)
        self.rules = (*self.rules, QueueIsServed)
        self.actions: Mapping[str, Action] = {**self.actions, "create": _create, "recreate": _recreate}

    def plan(self, seed: str) -> ScenarioPlan:
        """As any other, but for what a queue does itself. Attempts end, so that places become free."""
        plan = super().plan(seed)
        steps = [
            replace(step, on=step.on.replace("+team", "").replace("+suspended", "").replace(":brief", f":{_STAGED}"))
            for step in plan.steps
            if step.what not in _LEFT_ALONE
        ]
        chance = random.Random(f"{seed}/queue")
        lives = replace(plan.lives, starts=(0.1, 3.0), runs=(5.0, 30.0), fails=chance.choice([0.0, 0.2, 0.6]))
        plan = replace(plan, steps=steps, lives=lives, options={**plan.options, MORE_RETRIES: _RETRIES})
        return _fair(plan, chance) if chance.random() < 0.5 else plan

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """With the runtime that has an initializer."""
        await super().begin(world, plan)
        staged = runtime(_STAGED, marks=self.marks(plan))
        (node,) = staged["spec"]["template"]["spec"]["replicatedJobs"]
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": DATASET_INITIALIZER}
        pods = {"template": {"spec": {"containers": [{"name": DATASET_INITIALIZER, "image": "i"}]}}}
        before = {"name": DATASET_INITIALIZER, "template": {"metadata": {"labels": labels}, "spec": pods}}
        node["dependsOn"] = [{"name": DATASET_INITIALIZER, "status": "Complete"}]
        staged["spec"]["template"]["spec"]["replicatedJobs"] = [before, node]
        world.start(_STAGED, _create_at_last(world, staged))
        labels = {f"pool-{flavor}": "yes" for flavor in FLAVORS}
        await world.admin.patch(Node.RESOURCE, NODE_NAME, "", {"metadata": {"labels": labels}})


class QueueIsServed(WorldRule):
    """Kueue runs, what it waits for comes at once, and what is said of a job in its queue is true."""

    name = "queue"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._kueue: Kueue | None = None
        self._stopped: dict[str, float] = {}
        """Since when the JobSet of a suspended job has no active Job, and the job says otherwise."""
        self._calm_since: float | None = None
        self._jobs: dict[str, Document] = {}
        self._jobsets: dict[str, Document] = {}
        self._explained_at: dict[str, object] = {}
        """What was seen of a job when it was explained last."""

    def changed(self, change: StoreChange) -> None:
        """Start Kueue with the first job; look at what it waits for, at resumed JobSets, and where Jobs run."""
        if change.collection == JOBS and self._kueue is None:
            say = partial(self.say, rule="reclaim")
            self._kueue = Kueue(self.world, say, self._look, self._timed_out)
            self.world.start("kueue", self._kueue.run())
        if change.collection == "jobs.batch" and change.type == "MODIFIED":
            self._placed(change.object.document())
        if change.collection not in (JOBS, JOBSETS) or change.name.namespace != SPACE:
            return
        known = self._jobs if change.collection == JOBS else self._jobsets
        before = known.pop(change.name.name, None)
        if change.type != "DELETED":
            known[change.name.name] = change.object.document()
            if change.collection == JOBSETS and before is not None:
                self._resumed(before, known[change.name.name])
        if self._kueue is not None and change.collection == JOBS:
            self._kueue.has_changed.set()
            if before is not None and before["spec"].get("suspend") and change.type != "DELETED":
                self.world.start("resumed", self._resumes(known[change.name.name]))
        self._told(change.name.name)

    @property
    def _is_settled(self) -> bool:
        """Whether a manager has looked at all jobs since the faults stopped."""
        if self.world.notes.get(FAIR):
            return True
        now = asyncio.get_running_loop().time()
        if self.calm and self._calm_since is None:
            self._calm_since = now
        return self._calm_since is not None and now > self._calm_since + _SETTLED_SECONDS

    def soon(self) -> float:
        """Until nothing is due in the queue."""
        return self._kueue.soon if self._kueue is not None else 0.0

    def _told(self, name: str) -> None:
        job, jobset = self._jobs.get(name), self._jobsets.get(name)
        now = asyncio.get_running_loop().time()
        if job is None or jobset is None or owner_of(jobset) != uid_of(job) or not job["spec"].get("suspend"):
            self._stopped.pop(name, None)
            return
        counted = (jobset.get("status") or {}).get("replicatedJobsStatus") or ()
        differs = any(step["active"] for step in _told(job)) and not any(step["active"] for step in counted)
        if differs and self._is_settled and jobset["spec"].get("suspend"):
            self._stopped.setdefault(name, now)
        elif (since := self._stopped.pop(name, None)) is not None and now - since > _TOLD_SECONDS:
            self.say(f"{name} was told {now - since:.2f} s late that no Job is active", rule="told-at-once")

    def _placed(self, job: Document) -> None:
        selector = job["spec"]["template"]["spec"].get("nodeSelector") or {}
        if self._is_settled and not job["spec"].get("suspend") and len(selector) > 1:
            self.say(f"Job {name_of(job)} asks for {sorted(selector)}", rule="selectors")

    def _resumed(self, before: Document, after: Document) -> None:
        """A gang begins whole, but for a JobSet that is about to complete, and initializers, whose files are there."""
        if not before["spec"].get("suspend") or after["spec"].get("suspend"):
            return
        ended = Counter(
            labels_of(pod).get(LABEL_REPLICATED_JOB)
            for pod in self.world.stored("pods")
            if labels_of(pod).get(LABEL_JOBSET_UID) == uid_of(after) and pod["status"].get("phase") == "Succeeded"
        )
        ended.pop(DATASET_INITIALIZER, None)
        self.world.trace.sometimes("a JobSet is resumed")
        decides = ((after["spec"].get("successPolicy") or {}).get("targetReplicatedJobs") or [NODE])[0]
        wanted = next(one for one in after["spec"]["replicatedJobs"] if one["name"] == decides)
        is_over = ended[decides] >= wanted["template"]["spec"].get("completions", 1)
        if ended and not is_over and self._is_settled and is_on(GATE, self.world.notes, self.world.version):
            self.say(f"{name_of(after)} is resumed, and ranks had ended: {dict(ended)}", rule="whole")

    async def _resumes(self, job: Document) -> None:
        """A job that Kueue resumes is not held back."""
        if not self._is_settled or job["spec"].get("suspend"):
            return
        version = job["metadata"].get("generation")
        await asyncio.sleep(_RESUMED_SECONDS)
        now, jobset = self._jobs.get(name_of(job)), self._jobsets.get(name_of(job))
        is_same = now is not None and now["metadata"].get("generation") == version
        if now is not None and is_same and jobset is not None and "Blocked" not in true_conditions(now):
            has_begun = (jobset.get("status") or {}).get("restarts")
            if _is_held(now, jobset) and not has_begun:
                self.say(f"Kueue has resumed {name_of(job)}, and its JobSet is suspended", rule="resumed")

    def _timed_out(self, name: str) -> None:
        job, jobset = self._jobs.get(name), self._jobsets.get(name)
        if self._is_settled and job and jobset and _is_held(job, jobset) and "Blocked" not in true_conditions(job):
            self.say(f"{name} is held between two attempts, and Kueue counts a requeue for it", rule="requeue")

    def _look(self, job: Document, workload: Workload) -> None:
        """What is said of the job, as it is now."""
        stored, jobset = self._jobs.get(name_of(job)), self._jobsets.get(name_of(job))
        if not self._is_settled or stored is None or uid_of(stored) != uid_of(job):
            return
        seen = [uid_of(job), stored["spec"], jobset and jobset["spec"].get("suspend"), [*workload.conditions.values()]]
        if self._explained_at.get(workload.name) == seen:
            return
        self._explained_at[workload.name] = seen
        is_held = jobset is not None and _is_held(stored, jobset)
        if not (is_held or stored["spec"].get("suspend")):
            return
        found = self._explained(stored, workload)
        if found.outcome is JobState.BLOCKED:
            return  # users have seen to that
        text = f"{workload.name} is {found.outcome}: {found.cause.reason}: {found.cause.message}"
        if found.exit_code == 1 and workload.is_active and found.cause.reason in _OF_QUEUES:
            self.say(f"{text}, and it goes on by itself", rule="sentences")
        if is_held and found.cause.reason.startswith("Queue"):
            self.say(f"{text}, and Kueue has resumed it", rule="sentences")
        if workload.evicted and workload.is_active and stored["spec"].get("suspend"):
            self.world.trace.sometimes("an eviction is told")
            if found.cause.reason != "EvictedByQueue":
                self.say(f"{text}, and it is evicted by {workload.evicted}", rule="sentences")

    def _explained(self, job: Document, workload: Workload) -> Explanation:
        objects = [
            {"apiVersion": version, "kind": kind, **one}
            for collection, version, kind in _KINDS
            for one in self.world.stored(collection)
        ]
        queue = {"apiVersion": _API, "kind": "LocalQueue", "metadata": {"name": "q", "namespace": SPACE}, "spec": {}}
        given = GivenObjects([job, *objects, queue, workload.document(job)])
        return explain(given.picture(job, self.world.surroundings.now()))


def _fair(plan: ScenarioPlan, chance: random.Random) -> ScenarioPlan:
    """Some jobs of a plan, half of them with an initializer, without faults, and without users."""
    names = [(step.at, step.on.partition(":")[0]) for step in plan.steps if step.what == "create"][:_FAIR_JOBS]
    kinds = chance.choices((_STAGED, "plain", "mpi"), (2, 1, 1), k=len(names))
    steps = [Step(at, "create", f"{name}:{kind}") for (at, name), kind in zip(names, kinds, strict=True)]
    lives = replace(plan.lives, fails=chance.choice([0.2, 0.5]))
    options = {**plan.options, FAIR: True}
    return ScenarioPlan(seed=plan.seed, faults=FaultProfile(latency=0.005), lives=lives, options=options, steps=steps)


def _is_held(job: Document, jobset: Document) -> bool:
    """Whether the JobSet of a job that a queue has resumed is suspended."""
    return bool(jobset["spec"].get("suspend")) and not job["spec"].get("suspend")


_KINDS = (
    (JOBSETS, "jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("jobs.batch", "batch/v1", "Job"),
    ("pods", "v1", "Pod"),
    ("configmaps", "v1", "ConfigMap"),
    ("nodes", "v1", "Node"),
    *(
        (f"{one.RESOURCE.plural}.{one.RESOURCE.group}", one.RESOURCE.api_version, one.RESOURCE.kind)
        for one in (TrainingRuntime, ClusterTrainingRuntime)
    ),
)
"""What `explain` reads: collection, version and kind."""


def queued(said: str) -> Document:
    """A job as Kueue's webhook leaves it."""
    job = train_job(said)
    job["metadata"]["labels"] = {LABEL_QUEUE: "q"}
    job["spec"] |= {"suspend": True, "runtimePatches": _patches([])}
    return job


async def _create_at_last(world: World, made: Document) -> None:
    """Once a webhook answers."""
    while True:
        with suppress(ApiError):
            await world.admin.create(made, kind=TrainingRuntime.RESOURCE)
            return
        await asyncio.sleep(0.5)


async def _create(world: World, step: Step) -> None:
    await world.admin.create(queued(step.on), kind=TrainJob.RESOURCE)


async def _recreate(world: World, step: Step) -> None:
    await world.admin.delete(TrainJob.RESOURCE, step.on.partition(":")[0], SPACE, propagation="Background")
    await _create(world, step)


def _patches(jobs: list[Document]) -> list[Document]:
    spec: Document = {"template": {"spec": {"replicatedJobs": jobs} if jobs else {}}}
    return [{"manager": PATCH_MANAGER, "trainingRuntimeSpec": spec}]


def _placed(step: str, flavor: str) -> Document:
    selector = {"nodeSelector": {f"pool-{flavor}": "yes"}}
    return {"name": step, "template": {"spec": {"template": {"spec": selector}}}}


def _steps(world: World, job: Document) -> Iterator[str]:
    """The steps that the runtime of a job has, as its JobSet shows them."""
    for jobset in world.stored(JOBSETS):
        if owner_of(jobset) == uid_of(job):
            yield from (one["name"] for one in jobset["spec"]["replicatedJobs"])


def _told(job: Document) -> list[dict[str, Any]]:
    return (job.get("status") or {}).get("jobsStatus") or []


SCENARIOS: Mapping[str, Callable[[], TrainJobs]] = {"": TrainJobs, "recovering": Recovering, "queued": Queueing}
"""By the option of the command line that makes all worlds so."""


def live(seed: str, kind: str) -> Outcome:
    """Live one world. Processes that live several find it here: what `__main__` has, they could not import."""
    return simulate(SCENARIOS[kind](), seed)


def kind_of(plan: ScenarioPlan) -> str:
    """Which scenario has made a plan."""
    if plan.options.get(MORE_RETRIES):
        return "queued"
    return "recovering" if plan.options.get(GATE) else ""
