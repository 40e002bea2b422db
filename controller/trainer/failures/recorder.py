# SPDX-License-Identifier: Apache-2.0
"""Writes the record of failures while the pods exist: a Part of the leader, with the gate `Explain`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.messages import shortened
from trainwright.api.objects import Document, Key, dig, is_controlled_by, name_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.runtime import (
    Client,
    Done,
    Event,
    Forbidden,
    KubernetesError,
    Manager,
    MetadataOnly,
    NotFound,
    Result,
    RetryAfter,
)
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import is_namespace_ending
from trainwright.controller.trainer.build.kinds import is_there
from trainwright.controller.trainer.failures.first import LATE_SECONDS, Failure, failures_by_attempt
from trainwright.controller.trainer.failures.last_words import LAUNCHER_SECONDS, is_later
from trainwright.controller.trainer.failures.record import (
    SUFFIX,
    Entry,
    document_of,
    entries_of,
    entries_of_jobset,
    last_lines,
    name_of_record,
)
from trainwright.controller.trainer.job.events import EVENT_POD_FAILED, JobEvents
from trainwright.controller.trainer.job.pods import POD, attempt_of, keys_of_jobset, pods_of
from trainwright.controller.trainer.job.records import JobRecords

log = logging.getLogger(__name__)

RECORDS = MetadataOnly(ConfigMap.RESOURCE)
"""How the cache holds records."""
_TAIL_LINES = 200
"""Enough for the traceback and the summary of a launcher after the words of the program."""
_TAIL_BYTES = 256 * 1024
"""Of what the kubelet sends, from the first of those lines on."""
_LOG_SECONDS = 10.0
_LOGS = 8
"""Of one attempt, that are read to find its culprit."""
Run: TypeAlias = tuple[str, str, str, int | None]
More: TypeAlias = Callable[[TrainJob], Awaitable[Mapping[str, str] | None]]
"""Other keys of the record of a job; None: it has none. Raises KubernetesError."""


@dataclass(slots=True)
class Recorded:
    entries: dict[int, Entry] | None = None
    """None once the job is over and all is written: whoever needs them reads the ConfigMap again."""
    read: dict[int, Failure] = field(default_factory=dict)
    """The failure of each attempt as the cache showed it when its log was read; of the logs that this process read."""
    looked: dict[int, set[Run]] = field(default_factory=dict)
    """The runs of each attempt whose logs were read, the culprit's and those of other candidates."""
    unwritten: bool = False
    """Whether the ConfigMap lacks some of the entries, since a write failed: their logs are not read again."""
    untold: dict[int, float] = field(default_factory=dict)
    """Attempts that users are told of once it is certain who failed first and whose log was read; since when."""
    settled: int | None = None
    """Stands for the failures of which nothing more is to be recorded, after the job is over."""

    def runs_again(self, failure: Failure) -> bool:
        """Whether the container runs again, and did not yet in the cache when its log was read.

        The pod may have been ahead of the cache, so that this was the log of the new run.
        """
        before = self.read.get(failure.attempt)
        return failure.previous and before is not None and not before.previous and before.run == failure.run


class FailureRecorder:
    """Follows the pods of TrainJobs, which the cache must hold, and records the first failure of each attempt."""

    USES = Uses(
        kind=TrainJob, watches=(JobSet, POD, RECORDS), writes=(RECORDS,), more=(Rule.on(POD, "get", subresource="log"),)
    )

    def __init__(self, manager: Manager, events: JobEvents, records: JobRecords, more: More | None = None) -> None:
        """`more` gives what else a record holds."""
        self._client, self._cache, self._applier = manager.client, manager.cache, manager.applier
        self._events, self._records, self._more = events, records, more

    def declare(self, manager: Manager) -> None:
        """Declare its controller, unless another one reconciles jobs by it."""
        builder = manager.controller("failures_controller", self.USES).for_(TrainJob, predicates=[_is_of_interest])
        builder.owns(JobSet, predicates=[_is_new])
        builder.owns(RECORDS, predicates=[is_deleted_record])
        builder.watches(POD, _job_of, label_selector=LABEL_JOBSET)
        builder.reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Record what failed first in each attempt of one job."""
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None:
            return Done()
        found = failures_by_attempt(pods_of(self._cache, job))
        held = self._records.find(key, uid_of(job), Recorded)
        if not found:
            if held is not None and held.untold:
                self._tell(job, held, {})
            return Done()
        is_deleted = self.lacks_record(job)
        was_settled = is_finished(job) and held is not None and held.settled == _signature(found)
        if was_settled and not is_deleted:
            return Done()
        recorded = await self.recorded(job)
        before = recorded.entries or {}
        jobset_uid = next(iter(found.values()))[0].jobset_uid
        known = entries_of_jobset(before, jobset_uid)
        if len(known) < len(before):
            recorded.read, recorded.looked, recorded.untold = {}, {}, {}
        entries = dict(known)
        for attempt, failures in found.items():
            await self.look(job, recorded, entries, attempt, failures)
        recorded.unwritten = recorded.unwritten or entries != known or is_deleted
        recorded.entries = entries
        if not was_settled:
            recorded.untold |= dict.fromkeys(entries.keys() - known.keys(), _now())
        if recorded.unwritten and not await self.write(job, entries):
            return Done()
        recorded.unwritten = False
        left = self._tell(job, recorded, found)
        if left is not None:
            return RetryAfter(left, reason="first failure")
        if is_finished(job):
            # The ConfigMap has them; nothing but a failure that is seen late asks for them again.
            self._records.of(key, uid_of(job)).keep(Recorded(settled=_signature(found)))
        return Done()

    def lacks_record(self, job: TrainJob) -> bool:
        """Whether the cache shows no record of the job: none was written yet, or somebody has deleted it."""
        return self._cache.get(RECORDS, name_of_record(job.name), job.namespace) is None

    async def write(self, job: TrainJob, entries: Mapping[int, Entry], more: Mapping[str, str] | None = None) -> bool:
        """Write the record, `more`: with other keys. Returns False for a job that is gone, or goes with its namespace.

        Raises KubernetesError.
        """
        if more is None and self._more is not None:
            more = await self._more(job)
        if self.lacks_record(job) and not await is_there(self._client, job):
            return False
        try:
            await self._applier.apply([document_of(job, entries, more)], owner=job)
        except Forbidden as error:
            if not is_namespace_ending(error):
                raise
            return False
        return True

    async def look(
        self, job: TrainJob, recorded: Recorded, entries: dict[int, Entry], attempt: int, failures: Sequence[Failure]
    ) -> None:
        """Choose the culprit of one attempt, and keep its log.

        The pod that was seen to fail first stays the culprit, unless another one has ended earlier, or its own words
        are those of a victim. The logs of others are read for that alone, and not of more than a few.
        """
        held, looked = entries.get(attempt), recorded.looked.setdefault(attempt, set())
        for failure in failures:
            if held is not None and held.run == failure.run and recorded.runs_again(failure):
                recorded.read[attempt] = failure
                text = await self._log(job.namespace, failure)
                if text is not None:
                    entries[attempt] = held = held.with_log(text)
            if failure.run in looked or not may_precede(failure, held):
                continue
            if len(looked) == _LOGS:
                return
            looked.add(failure.run)
            text = await self._log(job.namespace, failure)
            if text is None and "\n" in failure.message:
                text = failure.message  # its pod is gone, and the kubelet had put the end of the log into its status
            if text is None and held is not None and held.log:
                continue  # it may be a victim of the one that is held, as its log said to the manager before
            entry = Entry.of(failure, text or "")
            if precedes(entry, held):
                entries[attempt] = held = entry if held is None else entry.in_place_of(held)
                recorded.read[attempt] = failure

    def _tell(self, job: TrainJob, recorded: Recorded, found: Mapping[int, Sequence[Failure]]) -> float | None:
        """Tell users of the attempts that were not told yet. Returns the seconds after which to look again, if so."""
        ends = ("Failed", "Succeeded")
        run = {attempt_of(pod) for pod in pods_of(self._cache, job) if dig(pod, "status.phase") not in ends}
        left: float | None = None
        for attempt, since in sorted(recorded.untold.items()):
            entry = (recorded.entries or {})[attempt]
            if entry.is_victim and attempt in run and (wait := since + LATE_SECONDS - _now()) > 0:
                left = min(left or wait, wait)
                continue  # what it lost may be a process whose launcher is still at its end
            seen = next((one for one in found.get(attempt, ()) if one.run == entry.run), None)
            if seen is not None and seen.runs_on and seen.node_run is None and not is_finished(job):
                continue  # this may be the log of the next run; the node will say of its container how it goes on
            del recorded.untold[attempt]
            self._events.warn(job, EVENT_POD_FAILED, _sentence(entry))
        return left

    async def recorded(self, job: TrainJob) -> Recorded:
        """What the ConfigMap holds; read once for each job."""
        key = Key(job.namespace, job.name)
        recorded = self._records.find(key, uid_of(job), Recorded)
        if recorded is not None and recorded.entries is not None:
            return recorded
        known = entries_of(await read_record(self._client, job))
        return self._records.of(key, uid_of(job)).keep(Recorded(known))

    async def _log(self, namespace: str, failure: Failure) -> str | None:
        """The end of the log of the container that failed; None if it is gone, which is no error.

        A kubelet keeps the log of the latest run that has ended. So the log of the run before is mostly gone once the
        next one has ended too, which mostly ended alike.
        """
        if not failure.container:
            return ""
        text = await self._read_log(namespace, failure, previous=failure.previous)
        if not text and failure.ended_again and failure.node_run is None:
            text = await self._read_log(namespace, failure, previous=False)
        return text

    async def _read_log(self, namespace: str, failure: Failure, *, previous: bool) -> str | None:
        query = {"container": failure.container, "tailLines": str(_TAIL_LINES), "limitBytes": str(_TAIL_BYTES)}
        if failure.node_run is not None:
            # Whatever runs by now.
            query["run"] = str(failure.node_run)
        elif previous:
            query["previous"] = "true"
        path = f"/api/v1/namespaces/{namespace}/pods/{failure.pod}/log"
        try:
            answer = await self._client.send(Request("GET", path, query, timeout=_LOG_SECONDS))
        except KubernetesError as error:
            log.info("%s/%s: the log of the failed container cannot be read: %s", namespace, failure.pod, error)
            return None
        return last_lines(answer.body, _TAIL_BYTES)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def read_record(client: Client, job: TrainJob) -> Mapping[str, str]:
    """The data of the job's record; empty if there is none, or a ConfigMap of that name which is not the job's.

    Raises KubernetesError.
    """
    try:
        content = await client.get(ConfigMap, name_of_record(job.name), job.namespace)
    except NotFound:
        return {}
    return (content.data or {}) if is_controlled_by(content, job) else {}


def may_precede(failure: Failure, held: Entry | None) -> bool:
    """Whether a failure may be the culprit in place of the one that is held, if its log says so."""
    if held is None:
        return True
    if held.is_victim:
        # A launcher may have ended later than its program did, or have been stopped while it waited; its log tells.
        return not is_later(failure.finished_at, held.ended_at, LATE_SECONDS + LAUNCHER_SECONDS)
    return not failure.stopped and failure.end < held.end


def precedes(entry: Entry, held: Entry | None) -> bool:
    """Whether an entry goes before the one that is held, which was seen earlier."""
    if held is None:
        return True
    if held.is_victim != entry.is_victim:
        return held.is_victim and not is_later(entry.ended_at, held.ended_at, LATE_SECONDS)
    return entry.end < held.end


def _signature(found: Mapping[int, Sequence[Failure]]) -> int:
    return hash(frozenset((one.run, one.previous) for failures in found.values() for one in failures))


def _sentence(entry: Entry) -> str:
    last = shortened(entry.said)
    said = f": {last}" if last else f": {entry.message}" if entry.message else ""
    return f"attempt {entry.attempt + 1}: {entry.where} failed first: {entry.what}{said}"


def _is_of_interest(event: Event[TrainJob]) -> bool:
    """Whether the job is gone, or has ended now."""
    return event.new is None or (is_finished(event.new) and (event.old is None or not is_finished(event.old)))


def _is_new(event: Event[Any]) -> bool:
    """Whether it is another JobSet than before: its pods may have been seen, and have failed, before it was."""
    return event.new is not None and (event.old is None or uid_of(event.old) != uid_of(event.new))


def is_deleted_record(event: Event[Any]) -> bool:
    return event.new is None and event.old is not None and name_of(event.old).endswith(SUFFIX)


def _job_of(pod: Document) -> list[Key]:
    """The TrainJob of a pod that shows a failure; the JobSet has its name."""
    return keys_of_jobset(pod) if failures_by_attempt([pod]) else []
