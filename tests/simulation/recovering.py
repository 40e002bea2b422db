# SPDX-License-Identifier: Apache-2.0
"""Jobs that recover in a simulated world: their ranks fail, report progress and hang."""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tests.simulation.rules import JOBS, JOBSETS, is_on, owner_of, true_conditions
from tests.simulation.scenario import TrainJobs
from trainwright.api.jobset.v1alpha2.labels import (
    LABEL_INDEX,
    LABEL_JOBSET,
    LABEL_JOBSET_UID,
    LABEL_REPLICATED_JOB,
)
from trainwright.api.objects import Document, annotations_of, dig, labels_of, uid_of
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.simulation.plan import ScenarioPlan
from trainwright.controller.simulation.rules import Violation, WorldRule
from trainwright.controller.simulation.world import World
from trainwright.controller.trainer.failures.record import entries_of
from trainwright.controller.trainer.job.pods import attempt_of
from trainwright.controller.trainer.recovery.attempts import held_for
from trainwright.controller.trainer.recovery.causes import FailureCause
from trainwright.controller.trainer.recovery.verdict import MOST_ATTEMPTS, Summary, summary_of

RETRIES = 2
MORE_RETRIES = "retries"
"""How many retries jobs have instead."""
GATE = "Recovery"
HANGS = "hangs"
"""Whether ranks report progress, hang, and are restarted then."""
STALL_SECONDS = 120.0
_RESTARTS_HANGS = {
    "trainwright.dev/progress-stall-after": f"{STALL_SECONDS:g}s",
}
_REPORT_SECONDS = 20.0
_RUNS = (10.0, 60.0)
"""How long attempts last that do not hang."""
_STEPS = 5
"""A job that goes on from checkpoints comes so far: attempts do not make progress for ever."""
_EACH = 2
"""A job that keeps checkpoints notes one after so many steps, and repeats the others."""
_SLACK = 60.0
"""In which a manager notices a hang, and goes on after a hold."""


class Recovering(TrainJobs):
    """The scenario of this project, with runtimes whose jobs recover.

    Args:
        hangs: whether ranks hang in half of the worlds; otherwise they do in none.
    """

    def __init__(self, *, hangs: bool = True) -> None:
        super().__init__()
        self._hangs = hangs
        self.gates = (*self.gates, GATE)
        self.rules = (*self.rules, RecordIsTrue, NotStuck, ProgressIsNew, HangsAreCharged)

    def plan(self, seed: str) -> ScenarioPlan:
        """As any other; some of its managers have the gate."""
        plan = super().plan(seed)
        chance = random.Random(f"{seed}/recovery")
        plan = replace(plan, options={**plan.options, GATE: True, "Explain": chance.random() < 0.5})
        if not self._hangs or chance.random() < 0.5:
            return plan
        fails, hangs = round(chance.choice([0.0, chance.uniform(0, 0.3)]), 4), round(chance.uniform(0.2, 0.6), 4)
        lives = replace(plan.lives, runs=_RUNS, fails=fails, hangs=hangs, reports=_REPORT_SECONDS)
        return replace(plan, lives=lives, options={**plan.options, HANGS: True})

    def gates_of(self, plan: ScenarioPlan, version: int) -> dict[str, bool]:
        """Where ranks hang, each version restarts them: a job that hangs for ever is not at rest."""
        gates = super().gates_of(plan, version)
        return {**gates, GATE: True, "ProgressPull": True} if plan.options.get(HANGS) else gates

    def marks(self, plan: ScenarioPlan) -> Mapping[str, str]:
        """What the runtimes say of recovery."""
        marks = {"trainwright.dev/recovery": "gang", "trainwright.dev/retries": str(_retries(plan.options))}
        return {**marks, **_RESTARTS_HANGS} if plan.options.get(HANGS) else marks

    async def begin(self, world: World, plan: ScenarioPlan) -> None:
        """Let rank 0 of each job report."""
        await super().begin(world, plan)
        if plan.options.get(HANGS):
            world.hooks.report.append(partial(_report, world, {}))


async def _report(world: World, steps: dict[str, int], pod: Document) -> None:
    """Rank 0 tells its step.

    Of each third job, that goes on from its last checkpoint; of half of the others, where the attempt before has ended.
    """
    labels, space = labels_of(pod), pod["metadata"]["namespace"]
    name = labels.get(LABEL_JOBSET, "")
    job = world.store.get(JOBS, ObjectName(space, name))
    if labels.get(LABEL_REPLICATED_JOB) != NODE or labels.get(LABEL_INDEX) != "0" or job is None:
        return
    number, kept = int(name.removeprefix("j")), f"{uid_of(job.document())}/checkpoint"
    whose = uid_of(job.document()) if number % 2 and number % 3 else uid_of(pod)
    began = steps.setdefault(f"{whose}/began", steps.get(kept, 0))
    steps[whose] = min(_STEPS, steps.get(whose, began) + 1)
    metrics = [{"name": "current_step", "value": str(steps[whose])}]
    if number % 3 == 0 and (noted := steps[whose] // _EACH * _EACH) > began:
        steps[kept] = noted
        metrics.append({"name": "checkpoint_step", "value": str(noted)})
    told = {"metrics": metrics, "lastUpdatedTime": format_time(world.surroundings.now())}
    with suppress(ApiError):  # the job is gone
        patch = {"status": {"trainerStatus": told}}
        await world.admin.patch(TrainJob.RESOURCE, name, space, patch, subresource="status")


class RecordIsTrue(WorldRule):
    """What the record says of attempts, beside what the JobSet counts."""

    name = "recovery-record"

    def changed(self, change: StoreChange) -> None:
        """No job makes more attempts than its budgets pay for, and each one that is judged is counted."""
        if (data := _record_of(change)) is None or (found := summary_of(data)) is None:
            return
        name, counts = change.name.name, found.counts
        if counts.row.get("retries", 0) > (retries := _retries(self.world.notes)) + 1:
            self.say(f"{name}: {counts.row} failures in a row with {retries} retries")
        if counts.attempts > MOST_ATTEMPTS:
            self.say(f"{name}: {counts.attempts} attempts")
        if sum(counts.causes.values()) < found.judged:
            self.say(f"{name}: {found.judged} attempts are judged, and {counts.causes} are counted")

    def at_rest(self) -> None:
        """All attempts that have ended are on record."""
        if not is_on(GATE, self.world.notes, self.world.version):
            return
        records = {one["metadata"]["name"]: one for one in self.world.stored("configmaps")}
        jobs = {one["metadata"]["uid"]: one for one in self.world.stored(JOBS)}
        for jobset in self.world.stored(JOBSETS):
            name, restarts = jobset["metadata"]["name"], (jobset.get("status") or {}).get("restarts") or 0
            job = jobs.get(owner_of(jobset))
            if job is None or true_conditions(job).keys() & {"Complete", "Failed", "Blocked"}:
                continue
            known = summary_of((records.get(f"{name}-failures") or {}).get("data")) or Summary()
            if known.judged < _base_of(jobset) + restarts:
                self.say(f"JobSet {name} was restarted {restarts} times, its record has {known.judged} attempts")


class NotStuck(WorldRule):
    """A rank that failed is restarted with the others, or ends the job: nobody has to act."""

    name = "not-stuck"

    def changed(self, change: StoreChange) -> None:
        """Look at what is shown of each job."""
        if change.collection == JOBS:
            stuck = true_conditions(change.object.document()).get("Stuck", {})
            if stuck.get("reason") == "RankFailed":
                self.say(f"{change.name.name}: {stuck['message']}")


class _Attempts(WorldRule):
    """Follows when ranks of each attempt run."""

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._owner: dict[str, str] = {}
        """The TrainJob of each JobSet, both by uid."""
        self._ran: dict[tuple[str, int], float] = {}
        """When ranks of an attempt of a TrainJob ran first, the last time that an attempt had this number."""
        self._jobset: dict[tuple[str, int], str] = {}
        self._joined: dict[str, dict[str, float]] = {}
        """When each pod of a TrainJob ran first, by its uid."""

    def changed(self, change: StoreChange) -> None:
        if change.collection == JOBSETS:
            jobset = change.object.document()
            self._owner[uid_of(jobset)] = owner_of(jobset)
        elif change.collection == "pods":
            self._see(change.object.document(), asyncio.get_running_loop().time())

    def _job_of(self, pod: Document) -> str:
        """The uid of its TrainJob; empty: it is not known."""
        return self._owner.get(labels_of(pod).get(LABEL_JOBSET_UID, ""), "")

    def _see(self, pod: Document, now: float) -> None:
        jobset = labels_of(pod).get(LABEL_JOBSET_UID, "")
        job = self._owner.get(jobset)
        if job is None or (pod.get("status") or {}).get("phase") != "Running":
            return
        self._joined.setdefault(job, {}).setdefault(uid_of(pod), now)
        attempt = job, attempt_of(pod)
        if self._jobset.get(attempt) != jobset:
            self._jobset[attempt], self._ran[attempt] = jobset, now


class ProgressIsNew(_Attempts):
    """Failures in a row are forgotten only if the job has come further than ever before, which stays on record."""

    name = "progress"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._best: dict[str, dict[str, float]] = {}
        """What each TrainJob has reported, by its uid: its best step and checkpoint."""
        self._further: dict[str, float] = {}
        """When that was further than ever before."""
        self._known: dict[str, tuple[int, int, float]] = {}
        """Of each record, by the uid of its TrainJob: attempts, failures in a row, and when that was."""
        self._recorded: dict[str, tuple[float, float]] = {}
        """The best step and the best checkpoint of each record."""

    def changed(self, change: StoreChange) -> None:
        """Follow reports and records."""
        if not self.world.notes.get(HANGS):
            return
        super().changed(change)
        now, document = asyncio.get_running_loop().time(), change.object.document()
        if change.collection == JOBS:
            best = self._best.setdefault(uid_of(document), {})
            told = {one["name"]: float(one["value"]) for one in _progress(document).get("metrics") or ()}
            counts = "checkpoint_step" if "checkpoint_step" in {*best, *told} else "current_step"
            if told.get(counts, 0.0) > best.get(counts, 0.0):
                self._further[uid_of(document)] = now
            best.update({name: max(value, best.get(name, 0.0)) for name, value in told.items()})
        elif change.collection == "configmaps" and change.name.name.endswith("-failures"):
            found = summary_of(_record_of(change)) if change.type != "DELETED" else None
            if found is None:
                # What follows is no more than what the JobSet has counted.
                self._known.pop(owner_of(document), None)
                self._recorded.pop(owner_of(document), None)
                return
            self._compare(change.name.name, owner_of(document), found, now)

    def _compare(self, name: str, job: str, found: Summary, now: float) -> None:
        row, recorded = sum(found.counts.row.values()), (found.counts.step or 0.0, found.counts.checkpoint or 0.0)
        judged, before, since = self._known.get(job, (0, 0, 0.0))
        best = self._recorded.get(job, recorded)
        if recorded[0] < best[0] or recorded[1] < best[1]:
            self.say(f"{name}: the best step and checkpoint on record go back from {best} to {recorded}")
        self._known[job], self._recorded[job] = (found.judged, row, now), recorded
        if found.judged == judged + 1 and 0 < row <= before and found.last_cause != FailureCause.SUSPENDED:
            self.world.trace.sometimes("progress clears the counts")
            # The verdict before may have been written long after that attempt, or while a last report of it was stored.
            if self._further.get(job, 0.0) < min(since - 3.0, self._ran.get((job, judged), since)):
                self.say(f"{name}: attempt {found.judged} repeats what others did, and {before} failures are forgotten")


class HangsAreCharged(_Attempts):
    """An attempt is charged as a hang if and only if it hangs: its ranks ran for the stall time without a step."""

    name = "hangs"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._advanced: dict[str, float] = {}
        """When the step of a TrainJob changed."""
        self._charged: dict[tuple[str, int], None] = {}
        self._calm_since: float | None = None

    def changed(self, change: StoreChange) -> None:
        """Follow reports, and look at each charge."""
        if not self.world.notes.get(HANGS):
            return
        super().changed(change)
        now = asyncio.get_running_loop().time()
        if change.collection == JOBS and change.before is not None:
            before, after = (_progress(one.document()).get("metrics") for one in (change.before, change.object))
            if before != after:
                self._advanced[uid_of(change.object.document())] = now
        elif (data := _record_of(change)) is not None:
            self._compare(change.name.name, owner_of(change.object.document()), data, now)

    def _compare(self, name: str, job: str, data: Mapping[str, str], now: float) -> None:
        for number, entry in entries_of(data).items():
            attempt = job, number
            if entry.cause != FailureCause.HANG or attempt in self._charged:
                continue
            self._charged[attempt] = None
            self.world.trace.sometimes("a hang is charged")
            ran, stood = now - self._ran.get(attempt, now), now - self._advanced.get(job, 0.0)
            if min(ran, stood) < STALL_SECONDS - 1.0:
                when = f"after {ran:.1f} s, {stood:.1f} s after a step"
                self.say(f"{name}: attempt {number + 1} is charged as a hang {when}")

    def soon(self) -> float:
        """Until hangs are noticed and holds have passed."""
        now = asyncio.get_running_loop().time()
        self._calm_since = now if self._calm_since is None else self._calm_since
        lefts = [left for _, left in self._hanging(now)] if self.world.notes.get(HANGS) else []
        for record in self.world.stored("configmaps"):
            found = summary_of(record.get("data")) if record["metadata"]["name"].endswith("-failures") else None
            if found is not None and (left := held_for(found, self.world.surroundings.now())) > 0:
                lefts.append(left + _SLACK)
        return max(lefts, default=0.0)

    def at_rest(self) -> None:
        """No job hangs for ever."""
        if not self.world.notes.get(HANGS):
            return
        for name, left in self._hanging(asyncio.get_running_loop().time()):
            self.say(f"TrainJob {name} hangs, and its ranks were not restarted for {_SLACK - left:.0f} s")

    def _hanging(self, now: float) -> Iterator[tuple[str, float]]:
        """The jobs of which an attempt hangs, and the seconds in which it is to be noticed."""
        jobs = {uid_of(one): one for one in self.world.stored(JOBS)}
        pods = [(self._job_of(pod), pod, dig(pod, "status.phase")) for pod in self.world.stored("pods")]
        # Until all ranks run, no report is expected; a start may take minutes.
        starting = {job for job, _, phase in pods if phase in (None, "Pending")}
        for uid, pod, phase in pods:
            job, since = jobs.get(uid), self.world.node.hangs_since(uid_of(pod))
            if job is None or since is None or phase != "Running" or uid in starting:
                continue
            is_over = true_conditions(job).keys() & {"Complete", "Failed", "Blocked"}
            if is_over or job["spec"].get("suspend") or not _progress(job):
                continue
            # A rank that hangs is not noticed while another one makes steps, either: nobody says which ranks report.
            others = self._advanced.get(uid_of(job), 0.0), *self._joined.get(uid_of(job), {}).values()
            stands = max(since, *others, self._calm_since or 0.0)
            yield job["metadata"]["name"], stands + STALL_SECONDS + _SLACK - now


def _retries(options: Mapping[str, Any]) -> int:
    return int(options.get(MORE_RETRIES) or RETRIES)


def _progress(job: Document) -> Document:
    return (job.get("status") or {}).get("trainerStatus") or {}


def _record_of(change: StoreChange) -> Mapping[str, Any] | None:
    """What a change has left of a record of failures."""
    if change.collection != "configmaps" or not change.name.name.endswith("-failures") or change.type == "DELETED":
        return None
    return change.object.document().get("data") or {}


def _base_of(jobset: Document) -> int:
    for one in jobset["spec"]["replicatedJobs"]:
        metadata = {"metadata": one["template"]["spec"]["template"].get("metadata") or {}}
        return int(annotations_of(metadata).get("trainwright.dev/attempt-base", "0"))
    return 0
