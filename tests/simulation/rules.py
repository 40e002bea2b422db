# SPDX-License-Identifier: Apache-2.0
"""What must hold for TrainJobs in every world."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.leaks import NoLeaks
from trainwright.api.objects import Document
from trainwright.api.times import parse
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.simulation.rules import NoOldFailures, Violation, WorldRule
from trainwright.controller.simulation.world import World

JOBS, JOBSETS = "trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"
_ENDS = frozenset({"Complete", "Failed"})
_MINUTE = 60.0
"""In which a manager looks at the clock again."""
_SOON_SECONDS = 300.0
"""More than a fresh look takes."""
_EXPLAINING = frozenset({"Stuck", "Restarting", "Waiting"})
_OWNED = ("jobsets.", "podgroups.", "configmaps", "secrets")
"""Beginnings of the names of collections whose objects jobs own."""


class OneEnd(WorldRule):
    """A job ends once: never Complete and Failed, and what has ended stays so."""

    name = "one-end"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._ended: dict[str, str] = {}

    def changed(self, change: StoreChange) -> None:
        """Compare with the end that was seen before."""
        if change.collection != JOBS:
            return
        document = change.object.document()
        uid, held = document["metadata"]["uid"], true_conditions(document)
        if held.keys() >= _ENDS:
            self.say(f"{change.name.name} is Complete and Failed")
        ended = next(iter(held.keys() & _ENDS), "")
        if uid in self._ended and ended != self._ended[uid]:
            self.say(f"{change.name.name} was {self._ended[uid]} and is {ended or 'not over'}")
        if ended and uid not in self._ended:
            self._ended[uid] = ended
            before = true_conditions(change.before.document()) if change.before is not None else {}
            for kind in sorted(before.keys() & {"Blocked", "Stuck", "Restarting", "Waiting", "Suspended"}):
                self.world.trace.sometimes(f"a job ends {ended} while it is {kind}")
            self.world.trace.sometimes(f"a job ends {ended}")
        for kind in sorted(held.keys() & {"Blocked", "Stuck", "Restarting", "Waiting", "Suspended"}):
            self.world.trace.sometimes(f"a job is {kind}")


class ConditionsAreKept(WorldRule):
    """Conditions are unique, and those of other programs stay."""

    name = "conditions"

    def __init__(self, world: World, say: Callable[[Violation], None]) -> None:
        super().__init__(world, say)
        self._quota: dict[str, list[str]] = {}

    def changed(self, change: StoreChange) -> None:
        """Look at the types."""
        if change.collection != JOBS:
            return
        document = change.object.document()
        uid, types = document["metadata"]["uid"], [one["type"] for one in conditions(document)]
        said = next((one["message"] for one in conditions(document) if one["type"] == "Quota"), None)
        known = self._quota.setdefault(uid, [])
        if known and said is None:
            self.say(f"{change.name.name}: the condition Quota of another program is gone")
        elif said in known[:-1]:
            self.say(f"{change.name.name}: the condition Quota of another program is as it was before: {said}")
        elif said is not None and said not in known:
            known.append(said)
        if len(types) != len(set(types)):
            self.say(f"{change.name.name}: {types}")


class ForeignObjectsAreKept(WorldRule):
    """An object of somebody else is not changed."""

    name = "foreign-kept"

    def changed(self, change: StoreChange) -> None:
        """Look for an owner of ours that comes to an object which had none."""
        if change.type != "MODIFIED" or change.before is None or not change.collection.startswith(_OWNED):
            return
        before, after = change.before.document(), change.object.document()
        if _is_owned(after) and not _is_owned(before):
            self.say(f"{change.collection} {change.name.name} of somebody else was taken over")


class OneWorker(WorldRule):
    """A process makes an object of a job in one place at a time."""

    name = "one-worker"

    def written(self, process: str, request: Request) -> None:
        """Look for another write of the same object on its way."""
        path, method = request.path, request.method
        parts = path.split("/")
        if not {one.partition(".")[0] for one in _OWNED}.intersection(parts) or parts[-1] == "status":
            return
        for found in self.world.processes:
            if found.name == process and found.network.flying[path] > 1 and method == "PATCH":
                self.say(f"{process} writes {path} twice at the same time")


class DeadlineInTime(WorldRule):
    """No job fails by its deadline before that has passed."""

    name = "early-deadline"

    def changed(self, change: StoreChange) -> None:
        """Compare the times that the job says."""
        if change.collection != JOBS or change.type != "MODIFIED" or change.before is None:
            return
        before, after = change.before.document(), change.object.document()
        failed = true_conditions(after).get("Failed", {})
        if failed.get("reason") != "DeadlineExceeded" or "Failed" in true_conditions(before):
            return
        left = begun_of(after) + timedelta(seconds=after["spec"]["activeDeadlineSeconds"])
        if parse(failed["lastTransitionTime"]) < left:
            self.say(f"{change.name.name} failed at {failed['lastTransitionTime']}, before its deadline {left}")

    def soon(self) -> float:
        """Until the deadlines of the next minutes have passed, with the minute that a manager may need."""
        now = self.world.surroundings.now()
        late = [one for job in self.world.stored(JOBS) if (one := late_by(job, now)) is not None]
        return max((_MINUTE - one for one in late if -_SOON_SECONDS < one < _MINUTE), default=0.0)


class OneJobSet(WorldRule):
    """A running JobSet keeps its replicated jobs, and is the JobSet of its job alone."""

    name = "jobset"

    def changed(self, change: StoreChange) -> None:
        """Compare the fixed fields."""
        if change.collection != JOBSETS or change.type != "MODIFIED" or change.before is None:
            return
        before, after = change.before.document(), change.object.document()
        if not (before["spec"].get("suspend") or after["spec"].get("suspend")) and _fixed(before) != _fixed(after):
            self.say(f"JobSet {change.name.name}: replicated jobs were changed while it ran")


class StatesAreTold(WorldRule):
    """At rest, a TrainJob says what its JobSet says."""

    name = "states"

    def at_rest(self) -> None:
        """Look at each job."""
        jobsets = {one["metadata"]["name"]: one for one in self.world.stored(JOBSETS)}
        for job in self.world.stored(JOBS):
            held = true_conditions(job)
            jobset = jobsets.get(job["metadata"]["name"])
            if jobset is not None and owner_of(jobset) == job["metadata"]["uid"]:
                self._with_jobset(job, held, jobset)
            elif not held.keys() & {*_ENDS, "Blocked"}:
                self._tell(job, f"has no JobSet and is not Blocked: {sorted(held)}", "made-or-told")
            if not held.keys() & _ENDS:
                if bool(job["spec"].get("suspend")) != ("Suspended" in held):
                    self._tell(job, f"suspend={job['spec'].get('suspend')}, conditions {sorted(held)}", "suspended")
                if (late_by(job, self.world.surroundings.now()) or 0.0) > _MINUTE:
                    self._tell(job, f"is past its deadline of {job['spec']['activeDeadlineSeconds']} s", "deadline")
                if not is_on("Explain", self.world.notes, self.world.version) and (left := held.keys() & _EXPLAINING):
                    self._tell(job, f"is {min(left)}, and the manager does not explain", "stale-obstacle")
            elif stale := held.keys() & {"Blocked", "Stuck", "Restarting", "Waiting", "Stalled"}:
                self._tell(job, f"is over and {', '.join(sorted(stale))}", "stale-obstacle")

    def _with_jobset(self, job: Document, held: dict[str, Document], jobset: Document) -> None:
        over, ends = held.keys() & _ENDS, true_conditions(jobset)
        if ends.keys() & {"Completed", "Failed"} and not over:
            self._tell(job, f"has {sorted(held)}, its JobSet {sorted(ends)}", "end-is-told")
        suspended = bool(jobset["spec"].get("suspend"))
        if over and not suspended and not ends.keys() & {"Completed", "Failed"}:
            self._tell(job, f"is {sorted(over)}, and its JobSet runs", "end-is-carried-out")
        # Whoever takes away the runtime and the snapshot of a job keeps it from being built, which `Blocked` says.
        if not over and "Blocked" not in held and suspended != bool(job["spec"].get("suspend")):
            self._tell(job, f"suspend={job['spec'].get('suspend')}, JobSet suspend={suspended}", "suspend-is-told")
        counted = _counters(jobset, "replicatedJobsStatus")
        if counted != (told := _counters(job, "jobsStatus")):
            self._tell(job, f"tells {told}, its JobSet counts {counted}", "counters")
        wanted = {one["name"]: one.get("replicas", 1) for one in jobset["spec"]["replicatedJobs"]}
        there = {name: one.get("ready", 0) + one.get("succeeded", 0) for name, one in counted.items()}
        # A job that failed again and again is Restarting for a while though its pods run.
        stale = sorted(held.keys() & {"Stuck", "Waiting"})
        if not over and stale and all(there.get(name, 0) >= count for name, count in wanted.items()):
            self._tell(job, f"trains and is {stale[0]} ({held[stale[0]].get('reason')})", "stale-obstacle")

    def _tell(self, job: Document, text: str, rule: str) -> None:
        self.say(f"TrainJob {job['metadata']['name']} {text}", rule=rule)


RULES: tuple[type[WorldRule], ...] = (
    *(OneEnd, ConditionsAreKept, ForeignObjectsAreKept, OneJobSet, OneWorker, DeadlineInTime),
    *(StatesAreTold, NoLeaks, NoOldFailures),
)


def is_on(gate: str, options: Mapping[str, Any], version: int) -> bool:
    """Whether a version of the manager has this gate: each second one has the other gates."""
    return bool(options.get(gate)) != bool(version % 2)


def _is_owned(document: Document) -> bool:
    return any(one["kind"] == "TrainJob" for one in document["metadata"].get("ownerReferences") or ())


def begun_of(job: Document) -> datetime:
    """From when on its deadline counts. A manager whose clock is ahead notes a resume in the future."""
    resumed = [one for one in conditions(job) if one["type"] == "Suspended" and one["status"] == "False"]
    return parse(resumed[0]["lastTransitionTime"] if resumed else job["metadata"]["creationTimestamp"])


def late_by(job: Document, now: datetime) -> float | None:
    """Seconds since the deadline of a job that is not over; less than 0: they are left. None: it has no deadline."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    if not seconds or job["spec"].get("suspend") or true_conditions(job).keys() & _ENDS:
        return None
    late: float = (now - begun_of(job)).total_seconds() - seconds
    return late


def conditions(document: Document) -> list[Document]:
    """All conditions of an object."""
    return (document.get("status") or {}).get("conditions") or []


def true_conditions(document: Document) -> dict[str, Document]:
    """Those that are True, by type."""
    return {one["type"]: one for one in conditions(document) if one["status"] == "True"}


def owner_of(document: Document) -> str:
    """The uid of the first owner."""
    owners = document["metadata"].get("ownerReferences") or ()
    return owners[0]["uid"] if owners else ""


def _fixed(jobset: Document) -> list[tuple[Any, ...]]:
    return [
        (one["name"], one.get("replicas"), one["template"]["spec"].get("parallelism"))
        for one in jobset["spec"]["replicatedJobs"]
    ]


def _counters(document: Document, name: str) -> dict[str, Document]:
    """The counters that are not 0, by replicated job."""
    found = (document.get("status") or {}).get(name) or []
    return {one["name"]: {key: value for key, value in one.items() if key != "name" and value} for one in found}
