# SPDX-License-Identifier: Apache-2.0
"""The Part of recovery: follows the attempts of jobs, writes the record, and then does what it justifies.

It works by the recorder of failures, in place of that one's controller, so the record has one writer. It frees jobs of
lost nodes, deletes a JobSet that gives way to a new one, and tells users. The controller of TrainJobs makes the new
JobSet, holds attempts back and ends jobs, by what `Recoveries` says.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from trainwright.api.conditions import find_true, is_true
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.objects import Key, annotations_of, deletion_timestamp_of, dig, name_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.completion import had_pods, is_finished
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.api.trainer.v1alpha1.recovery import Allowed, Declaration, declared
from trainwright.controller.optimization.names import ANNOTATION_TRIAL
from trainwright.controller.runtime import (
    Conflict,
    Done,
    Event,
    Forbidden,
    KubernetesError,
    Manager,
    NotFound,
    Result,
    RetryAfter,
    Trigger,
)
from trainwright.controller.runtime.errors import CacheError
from trainwright.controller.trainer.build.runtimes import SnapshotInvalid, Snapshots
from trainwright.controller.trainer.failures.first import Failure, failures_by_attempt
from trainwright.controller.trainer.failures.last_words import whereabouts
from trainwright.controller.trainer.failures.record import HANG_KEY, Entry, last_lines, name_of_record
from trainwright.controller.trainer.failures.recorder import (
    RECORDS,
    FailureRecorder,
    Recorded,
    is_deleted_record,
    read_record,
)
from trainwright.controller.trainer.job.decision import RecoveryDecision
from trainwright.controller.trainer.job.events import EVENT_ATTEMPT_ENDED, EVENT_NODE_AVOIDED, JobEvents
from trainwright.controller.trainer.job.pods import (
    INITIALIZERS,
    POD,
    attempt_of,
    is_of_initializer,
    jobset_of_job,
    keys_of_jobset,
    node_of,
    pods_of,
    rank_of,
)
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.job.stall import StalledAttempt
from trainwright.controller.trainer.job.status import CONDITION_STALLED
from trainwright.controller.trainer.recovery.attempts import (
    Glance,
    KnownAttempts,
    decision_of,
    entries_of_present,
    facts_of,
    is_calm,
    observe,
    stalled,
)
from trainwright.controller.trainer.recovery.progression import Progression, advance, leave_node, restart_stalled, stood
from trainwright.controller.trainer.recovery.verdict import KEY, Summary, retries_left, summary_of, text_of
from trainwright.plugins.contract import RecoveryFacts
from trainwright.plugins.contract.picture import index_of

log = logging.getLogger(__name__)

WORKERS = 8
"""Logs of one job may be slow to read."""
LOST_SECONDS = 60.0
"""After the grace of a pod that is being deleted: so long its node may need."""
NODE_SECONDS = 10.0
"""How long what was read of a node counts."""
_NODES = 16
"""Of one attempt, that are looked at."""
_EVIDENCE_LINES, _EVIDENCE_RANKS, _EVIDENCE_BYTES = 60, 16, 16 * 1024
"""What is kept of ranks that stand still."""
_EVIDENCE_SECONDS = 5.0
_STOP_SECONDS = 60.0
"""How long the logs of ranks that are being stopped are followed; twice the usual grace."""


class Recoveries:
    """What this process knows of the recovery of each job, for those that build it and that write its status.

    It is read from the record once, and follows what `RecoveryRecorder` writes there. So nothing is done to a job that
    the record does not say.
    """

    def __init__(
        self,
        manager: Manager,
        snapshots: Snapshots,
        records: JobRecords,
        allowed: Allowed,
        *,
        newest: Callable[[TrainJob], TrainerStatus | None] = lambda _: None,
        now: Now = wall_clock,
    ) -> None:
        """Create it before the controllers that use it.

        `snapshots` give the runtime of a job, whose annotations count where the job has none. `newest` gives the newest
        report of a job that this process took, also before it is written.
        """
        self._client, self._cache = manager.client, manager.cache
        self._snapshots, self._allowed, self._now = snapshots, allowed, now
        self._records, self._newest = records, newest
        self.changed = Trigger("recovery")
        """Starts a reconcile of a job of which the record says something new."""

    async def wanted(self, job: TrainJob) -> Declaration | None:
        """How a job recovers, if the manager judges its attempts.

        None: it does not recover, nothing was made for it yet, or its runtime has a failure policy of its own, which is
        kept. Raises KubernetesError.
        """
        try:
            runtime = await self._snapshots.existing(job)
        except SnapshotInvalid:
            return None  # the controller of the TrainJob shows it
        if runtime is None:
            return None
        found, _ = declared(annotations_of(job), annotations_of(runtime), self._allowed)
        has_policy = runtime.spec_or_empty.template_or_empty.spec_or_empty.failure_policy is not None
        found = replace(found, is_trial=ANNOTATION_TRIAL in annotations_of(job))
        return found if found.is_gang and not has_policy else None

    async def known(self, job: TrainJob) -> KnownAttempts:
        """What is known of the job's attempts; the record is read once. Raises KubernetesError."""
        key, uid = Key(job.namespace, job.name), uid_of(job)
        known = self._records.find(key, uid, KnownAttempts)
        if known is not None:
            return known
        found = KnownAttempts()
        if self._may_have_record(job):
            data = await read_record(self._client, job)
            found.summary = summary_of(data) or Summary()
            found.evidence = {key: text for key, text in data.items() if key.endswith(HANG_KEY)}
        if had_pods(job):
            found.begun = found.summary.judged + 1
        # Another reconcile may have read it meanwhile.
        return self._records.of(key, uid).part(KnownAttempts, lambda: found)

    def glance(self, job: TrainJob, *, is_judged: bool = True) -> Glance | None:
        """What the cache shows of the job now; None: it has no JobSet. `is_judged`: with its newest report."""
        jobset = jobset_of_job(self._cache, job)
        if jobset is None:
            return None
        now, report = self._now(), self._newest(job) if is_judged else None
        try:
            return Glance(job=job, jobset=jobset, pods=pods_of(self._cache, job), now=now, report=report)
        except CacheError:
            # The first list of pods has not arrived. Recovery waits for it, the controller of TrainJobs does not.
            return Glance(job=job, jobset=jobset, pods=(), now=now, report=report, is_synced=False)

    async def plan(self, job: TrainJob) -> tuple[RecoveryDecision, RecoveryFacts | None]:
        """What the record says of the end of a job, and what its next JobSet or resume begins with.

        Nothing if the job does not recover. Raises KubernetesError.
        """
        wanted = await self.wanted(job)
        known = self._records.find(Key(job.namespace, job.name), uid_of(job), KnownAttempts)
        if wanted is not None:
            known = await self.known(job)
            known.retries_left = retries_left(known.summary.counts, wanted)
        if known is None:
            return RecoveryDecision(), None
        glance, now = self.glance(job, is_judged=False), self._now()
        decision = decision_of(known, glance, now) if wanted is not None else RecoveryDecision()
        return decision, facts_of(known, glance, now)

    def _may_have_record(self, job: TrainJob) -> bool:
        """Whether there is something to read; a job without one costs no request."""
        try:
            return self._cache.get(RECORDS, name_of_record(job.name), job.namespace) is not None
        except CacheError:
            return True  # the first list has not arrived


class RecoveryRecorder:
    """Follows the pods and the JobSet of each job. Jobs that do not recover get the record of failures alone."""

    USES = replace(
        FailureRecorder.USES,
        deletes=(POD,),
        more=(
            *FailureRecorder.USES.more,
            # Before a job leaves a node, how many others it may use.
            Rule.on(Node.RESOURCE, "get", "list"),
            # A pod on a lost node ends only when its status says so, as the pod garbage collector writes it.
            Rule.on(POD, "patch", subresource="status"),
        ),
    )

    def __init__(self, manager: Manager, events: JobEvents, records: JobRecords, recoveries: Recoveries) -> None:
        """Declare its controller."""
        self._client, self._cache, self._events, self._records = manager.client, manager.cache, events, records
        self._recoveries = recoveries
        self._time = asyncio.get_running_loop().time
        self._nodes: dict[str, tuple[float, bool]] = {}
        self._failures = FailureRecorder(manager, events, records, more=self._summary)
        builder = manager.controller("recovery_controller", self.USES).for_(TrainJob, predicates=[_is_new_or_over])
        builder.owns(JobSet, predicates=[_is_of_interest])
        builder.owns(RECORDS, predicates=[is_deleted_record])
        builder.watches(POD, keys_of_jobset, label_selector=LABEL_JOBSET)
        builder.reconcile(self.reconcile, workers=WORKERS)

    async def reconcile(self, key: Key) -> Result:
        """Record what failed first in each attempt of one job; judge those that have ended."""
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is not None and is_finished(job) and self._records.find(key, uid_of(job), KnownAttempts) is not None:
            self._records.drop(key, KnownAttempts)
            self._records.drop(key, Recorded)  # whoever needs it reads the ConfigMap again
        is_over = job is None or is_finished(job) or deletion_timestamp_of(job) is not None
        if job is None or is_over or (wanted := await self._recoveries.wanted(job)) is None:
            return await self._failures.reconcile(key)
        if jobset_of_job(self._cache, job) is None:
            return Done()
        known = await self._recoveries.known(job)
        if (glance := self._recoveries.glance(job)) is None:
            return Done()
        observe(known, glance)
        if how := stalled(known, glance, wanted, self._records.find(key, uid_of(job), StalledAttempt)):
            return await self._restart_stalled(job, known, wanted, how)
        # Somebody may have deleted the record between two attempts.
        is_lost = known.summary.judged and self._failures.lacks_record(job)
        if not is_lost and is_calm(known, glance):
            left = await self._free(job, known, glance)
            return RetryAfter(left, reason="recovery") if left is not None else Done()
        return await self._recover(job, known, wanted)

    async def _recover(self, job: TrainJob, known: KnownAttempts, wanted: Declaration) -> Result:
        recorded = await self._failures.recorded(job)
        if (glance := self._recoveries.glance(job)) is None:
            return Done()
        entries = entries_of_present(recorded.entries or {}, known.summary, glance.uid)
        for attempt in (recorded.entries or {}).keys() - entries.keys():
            recorded.read.pop(attempt, None)
            recorded.looked.pop(attempt, None)
        for attempt, failures in _of_ranks(glance).items():
            held = entries.get(attempt)
            is_open = attempt >= known.summary.judged or (held is not None and held.provisional)
            if is_open and known.summary.replace != glance.uid:
                if held is not None and _is_initializer(held) and not _is_initializer(failures[0]):
                    del entries[attempt]  # it ran again; this failure is the one that counts
                await self._failures.look(job, recorded, entries, attempt, failures)
        # What is judged is what the cache shows after the logs were read.
        if (glance := self._recoveries.glance(job)) is None:
            recorded.entries = entries
            return Done()
        observe(known, glance)
        freed_in = await self._free(job, known, glance)
        step = advance(known, glance, entries, wanted)
        if step.uncertain is not None and await self._look_at_nodes(known, step.uncertain, glance):
            step = advance(known, glance, entries, wanted)
        if step.suspect[0]:
            # A manager of one namespace may not look at nodes.
            with contextlib.suppress(Forbidden):
                leave_node(known, glance, step, (await self._client.list(Node)).items)
        if not await self._keep(job, known, recorded, step):
            return Done()
        waits = [seconds for seconds in (step.requeue_after, freed_in) if seconds is not None]
        return RetryAfter(min(waits), reason="recovery") if waits else Done()

    async def _keep(self, job: TrainJob, known: KnownAttempts, recorded: Recorded, step: Progression) -> bool:
        """Write the record, then let what follows from it take effect. Returns False if the job goes."""
        is_lost = bool(step.entries) and self._failures.lacks_record(job)
        is_new = step.entries != (recorded.entries or {}) or _is_worth_writing(known.summary, step.summary)
        recorded.unwritten |= is_lost or is_new
        recorded.entries = step.entries
        if recorded.unwritten:
            if not await self._failures.write(job, step.entries, {KEY: text_of(step.summary), **known.evidence}):
                return False
            recorded.unwritten = False
        changed = known.summary != step.summary
        known.summary = step.summary
        for note in step.told:
            self._events.warn(job, EVENT_ATTEMPT_ENDED, note)
        if step.avoided:
            self._events.warn(job, EVENT_NODE_AVOIDED, step.avoided)
        if changed:
            self._recoveries.changed(Key(job.namespace, job.name))
        return True

    async def _restart_stalled(self, job: TrainJob, known: KnownAttempts, wanted: Declaration, how: str) -> Result:
        """Keep the last lines of each rank, then stop all of them; the next attempt follows."""
        recorded = await self._failures.recorded(job)
        if (glance := self._recoveries.glance(job)) is None:
            return Done()
        evidence = _evidence(await self._last_lines(job, glance))
        # The training may have gone on meanwhile.
        latest = self._cache.get(TrainJob, job.name, job.namespace)
        glance = self._recoveries.glance(latest) if latest is not None else None
        still = self._records.find(Key(job.namespace, job.name), uid_of(job), StalledAttempt)
        if glance is None or not stalled(known, glance, wanted, still):
            return Done()
        name = f"attempt-{glance.current + 1}{HANG_KEY}"
        known.evidence = {name: evidence} if evidence else {}
        step = restart_stalled(known, glance, recorded.entries or {}, wanted, how)
        # What ranks write while they are stopped says where they stood. A log that is read later may be gone.
        last, is_kept = await asyncio.gather(
            self._last_lines(job, glance, until_stopped=True), self._keep(job, known, recorded, step)
        )
        if is_kept:
            known.evidence = {name: _evidence(last)} if last else known.evidence
            recorded.unwritten = True
            await self._keep(job, known, recorded, stood(known, step, glance, whereabouts(last)))
        return RetryAfter(NODE_SECONDS, reason="hang")

    async def _last_lines(self, job: TrainJob, glance: Glance, *, until_stopped: bool = False) -> dict[str, str]:
        """The last lines of each rank, of the first ranks; `until_stopped`: once they have ended."""
        running = [pod for pod in glance.pods if dig(pod, "status.phase") == "Running"]
        pods = sorted(running, key=lambda pod: (index_of(pod), name_of(pod)))[:_EVIDENCE_RANKS]
        logs = await asyncio.gather(*(self._end_of_log(job.namespace, name_of(pod), until_stopped) for pod in pods))
        most = _EVIDENCE_BYTES // max(1, len(pods))
        return {rank_of(pod): last_lines(log, most) for pod, log in zip(pods, logs, strict=True) if log}

    async def _end_of_log(self, namespace: str, pod: str, until_stopped: bool) -> bytes:
        end, seconds = b"", _STOP_SECONDS if until_stopped else _EVIDENCE_SECONDS
        lines = self._client.logs(pod, namespace, container=NODE, tail=_EVIDENCE_LINES, follow=until_stopped)
        try:
            async with asyncio.timeout(seconds), aclosing(lines) as chunks:
                async for chunk in chunks:
                    end = (end + chunk)[-_EVIDENCE_BYTES:]
        except (KubernetesError, TimeoutError) as error:
            log.info("%s/%s: the log of a rank that stands still was not read to its end: %r", namespace, pod, error)
        return end

    async def _summary(self, job: TrainJob) -> Mapping[str, str] | None:
        """What the record of a job holds that recovers, also where a failure is seen after its end."""
        if await self._recoveries.wanted(job) is None:
            return None
        known = await self._recoveries.known(job)
        return {KEY: text_of(known.summary), **known.evidence}

    # ------------------------------------------------------------------ nodes

    async def _look_at_nodes(self, known: KnownAttempts, attempt: int, glance: Glance) -> bool:
        """Look for lost nodes of an attempt. Returns whether there is one."""
        witness = known.witnesses.get(attempt)
        if witness is None:
            return False
        lost = [node for node in list(witness.nodes)[:_NODES] if not await self._answers(node)]
        for node in lost:
            witness.lost(node, glance.now)
        return bool(lost)

    async def _free(self, job: TrainJob, known: KnownAttempts, glance: Glance) -> float | None:
        """End pods that a lost node keeps from ending. Returns the seconds until one is due."""
        left: float | None = None
        for pod in glance.pods:
            gone, node = deletion_timestamp_of(pod), node_of(pod)
            if gone is None or not node or dig(pod, "status.phase") in ("Failed", "Succeeded"):
                continue
            due = (parse(gone) + timedelta(seconds=LOST_SECONDS) - glance.now).total_seconds()
            if due > 0 or await self._answers(node):
                left = min(left or LOST_SECONDS, max(due, NODE_SECONDS))
                continue
            log.warning("%s/%s: node %s is lost, ending its pod %s", job.namespace, job.name, node, name_of(pod))
            witness = known.witnesses.get(attempt_of(pod))
            if witness is not None:  # else the attempt is judged already, and only its pod is left
                witness.lost(node, glance.now)
            name, uid = name_of(pod), uid_of(pod)
            status = {"phase": "Failed", "reason": "NodeLost", "message": f"node {node} does not answer"}
            patch = {"metadata": {"uid": uid}, "status": status}
            try:
                await self._client.patch(POD, name, job.namespace, patch, type="merge", subresource="status")
                await self._client.delete(POD, name, job.namespace, uid=uid, grace_period=0)
            except (NotFound, Conflict):
                continue
        return left

    async def _answers(self, node: str) -> bool:
        """Whether a node is there and Ready. Raises KubernetesError."""
        now, known = self._time(), self._nodes.get(node)
        if known is not None and now - known[0] < NODE_SECONDS:
            return known[1]
        try:
            found = await self._client.get(Node, node)
        except NotFound:
            answers = False
        except Forbidden:
            answers = True  # a manager of one namespace may not look at nodes, and must not end pods unseen
        else:
            answers = is_true(found.status_or_empty.conditions, "Ready")
        # Nodes come and go under new names: only what still counts is kept.
        self._nodes = {name: seen for name, seen in self._nodes.items() if now - seen[0] < NODE_SECONDS}
        self._nodes[node] = (now, answers)
        return answers


def _evidence(logs: Mapping[str, str]) -> str:
    return "\n".join(f"{rank}:\n{log}" for rank, log in logs.items())


def _of_ranks(glance: Glance) -> dict[int, list[Failure]]:
    """The failures of each attempt: those of ranks, or of initializers where no rank has failed."""
    ranks = [pod for pod in glance.pods if not is_of_initializer(pod)]
    return {**failures_by_attempt(glance.pods), **failures_by_attempt(ranks)}


def _is_initializer(one: Entry | Failure) -> bool:
    return one.replicated_job in INITIALIZERS


def _is_worth_writing(before: Summary, after: Summary) -> bool:
    """Whether the record says less than what is known. That the next JobSet is there needs no write."""
    same = msgspec.structs.replace(
        after, jobset=before.jobset, base=before.base, replace=before.replace, counted=before.counted
    )
    return before != same or (after.replace not in ("", before.replace))


def _is_new_or_over(event: Event[TrainJob]) -> bool:
    """Whether the job is gone, has ended now, is suspended or resumed, or stands still."""
    if event.new is None or event.old is None:
        return event.new is None
    switched = event.old.spec_or_empty.suspend != event.new.spec_or_empty.suspend
    stands_still = _stall(event.new) not in (None, _stall(event.old))
    return switched or stands_still or is_finished(event.new) != is_finished(event.old)


def _stall(job: TrainJob) -> tuple[str, str] | None:
    """Reason and time: within a gap of the watch, a condition may go and come again."""
    found = find_true(job.status_or_empty.conditions, CONDITION_STALLED)
    return (found.reason, found.last_transition_time) if found is not None else None


def _is_of_interest(event: Event[Any]) -> bool:
    """Whether the JobSet is another one, was restarted, has ended or was suspended."""
    if not isinstance(event.new, JobSet) or not isinstance(event.old, JobSet):
        return event.new is not None
    return _facts_of(event.new) != _facts_of(event.old)


def _facts_of(jobset: JobSet) -> tuple[object, ...]:
    status = jobset.status_or_empty
    conditions = [(one.type, one.status) for one in status.conditions or ()]
    counts = status.restarts, status.restarts_count_towards_max
    return uid_of(jobset), jobset.spec_or_empty.suspend, counts, conditions, deletion_timestamp_of(jobset)
