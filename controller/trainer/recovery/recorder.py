# SPDX-License-Identifier: Apache-2.0
"""The Part of recovery: follows the attempts of jobs, writes the record, and then does what it justifies.

It works by the recorder of failures, in place of that one's controller, so the record has one writer. It frees jobs of
lost nodes, deletes a JobSet that gives way to a new one, and tells users. The controller of TrainJobs makes the new
JobSet, holds attempts back and ends jobs, by what `Recoveries` says.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from trainwright.api.conditions import find_true, is_true
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.objects import Key, deletion_timestamp_of, name_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.api.trainer.v1alpha1.recovery import Declaration
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
)
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.trainer.failures.first import Failure, failures_by_attempt
from trainwright.controller.trainer.failures.record import HANG_KEY, Entry, last_lines
from trainwright.controller.trainer.failures.recorder import RECORDS, FailureRecorder, Recorded, is_deleted_record
from trainwright.controller.trainer.failures.stacks import whereabouts
from trainwright.controller.trainer.job.events import EVENT_ATTEMPT_ENDED, EVENT_NODE_AVOIDED, JobEvents
from trainwright.controller.trainer.job.pods import (
    INITIALIZERS,
    POD,
    attempt_of,
    is_of_initializer,
    jobset_of_job,
    keys_of_jobset,
    rank_of,
)
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.job.stall import StalledAttempt
from trainwright.controller.trainer.job.state import CONDITION_STALLED
from trainwright.controller.trainer.recovery.attempts import (
    Glance,
    KnownAttempts,
    entries_of_present,
    is_calm,
    observe,
    stalled,
)
from trainwright.controller.trainer.recovery.progression import Progression, advance, leave_node, restart_stalled, stood
from trainwright.controller.trainer.recovery.recoveries import Recoveries
from trainwright.controller.trainer.recovery.verdict import KEY, Summary, text_of
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
        before = dict(recorded.entries or {})
        if (glance := self._recoveries.glance(job)) is None:
            return Done()
        uid = uid_of(glance.jobset)
        entries = entries_of_present(before, known.summary, uid)
        for attempt in before.keys() - entries.keys():
            recorded.read.pop(attempt, None)
            recorded.looked.pop(attempt, None)
        for attempt, failures in _of_ranks(glance).items():
            held = entries.get(attempt)
            is_open = attempt >= known.summary.judged or (held is not None and held.provisional)
            if is_open and known.summary.replace != uid:
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
        if step.suspect[0] and (nodes := await self._all_nodes()) is not None:
            leave_node(known, glance, step, nodes)
        if not await self._keep(job, known, recorded, step):
            return Done()
        waits = [seconds for seconds in (step.requeue_after, freed_in) if seconds is not None]
        return RetryAfter(min(waits), reason="recovery") if waits else Done()

    async def _keep(self, job: TrainJob, known: KnownAttempts, recorded: Recorded, step: Progression) -> bool:
        """Write the record, then let what follows from it take effect. Returns False if the job goes."""
        is_lost = bool(step.entries) and self._failures.lacks_record(job)
        recorded.unwritten |= is_lost or step.entries != (recorded.entries or {})
        recorded.unwritten |= _is_worth_writing(known.summary, step.summary)
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
        # What ranks write while they are stopped says where they stood. A log that is read later may be gone. It
        # belongs into the last sentence of a job that ends, which is written once: so its ranks are stopped first.
        end = step.summary.end_reason, step.summary.end_message
        if end[0]:
            step.summary.end_reason, step.summary.end_message, step.summary.hang = "", "", True
        last, is_kept = await asyncio.gather(
            self._last_lines(job, glance, until_stopped=True), self._keep(job, known, recorded, step)
        )
        if is_kept:
            known.evidence = {name: _evidence(last)} if last else known.evidence
            step = stood(known, step, glance, whereabouts(last), end)
            recorded.unwritten = True
            await self._keep(job, known, recorded, step)
        return RetryAfter(NODE_SECONDS, reason="hang")

    async def _last_lines(self, job: TrainJob, glance: Glance, *, until_stopped: bool = False) -> dict[str, str]:
        """The last lines of each rank, of the first ranks; `until_stopped`: once they have ended."""
        running = [pod for pod in glance.pods if (pod.get("status") or {}).get("phase") == "Running"]
        pods = sorted(running, key=lambda pod: (index_of(pod), name_of(pod)))[:_EVIDENCE_RANKS]
        read = self._followed if until_stopped else self._tail
        logs = await asyncio.gather(*(read(job.namespace, name_of(pod)) for pod in pods))
        most = _EVIDENCE_BYTES // max(1, len(pods))
        return {rank_of(pod): last_lines(log, most) for pod, log in zip(pods, logs, strict=True) if log}

    async def _tail(self, namespace: str, pod: str) -> bytes:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        query = {"container": NODE, "tailLines": str(_EVIDENCE_LINES), "limitBytes": str(_EVIDENCE_BYTES)}
        try:
            return (await self._client.send(Request("GET", path, query, timeout=_EVIDENCE_SECONDS))).body
        except KubernetesError as error:
            log.info("%s/%s: the log of a rank that stands still cannot be read: %s", namespace, pod, error)
            return b""

    async def _followed(self, namespace: str, pod: str) -> bytes:
        """The end of a log, up to the end of its container, but not for long."""
        end = b""
        log_of_rank = self._client.logs(pod, namespace, container=NODE, tail=_EVIDENCE_LINES, follow=True)
        try:
            async with asyncio.timeout(_STOP_SECONDS), aclosing(log_of_rank) as chunks:
                async for chunk in chunks:
                    end = (end + chunk)[-_EVIDENCE_BYTES:]
        except (KubernetesError, TimeoutError) as error:
            log.info("%s/%s: the log of a rank that is stopped was not read to its end: %r", namespace, pod, error)
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

    async def _all_nodes(self) -> Sequence[Node] | None:
        """The nodes of the cluster; None for a manager of one namespace, which may not look at them."""
        try:
            return (await self._client.list(Node)).items
        except Forbidden:
            return None

    async def _free(self, job: TrainJob, known: KnownAttempts, glance: Glance) -> float | None:
        """End pods that a lost node keeps from ending. Returns the seconds until one is due."""
        left: float | None = None
        for pod in glance.pods:
            gone, node = deletion_timestamp_of(pod), (pod.get("spec") or {}).get("nodeName") or ""
            if gone is None or not node or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
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
    return (
        uid_of(jobset),
        jobset.spec_or_empty.suspend,
        status.restarts,
        status.restarts_count_towards_max,
        [(one.type, one.status) for one in status.conditions or ()],
        deletion_timestamp_of(jobset),
    )
