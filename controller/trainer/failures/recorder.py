# SPDX-License-Identifier: Apache-2.0
"""Writes the record of failures while the pods exist: a Part of the leader, with the gate `Explain`."""

import logging
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET, LABEL_JOBSET_UID
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document, Key, controller_of, labels_of, uid_of
from trainwright.api.rights import APPLY, WATCH, Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Done, Manager, NotFound, Result
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import KubernetesError
from trainwright.controller.trainer.failures.first import Failure, first_failures
from trainwright.controller.trainer.failures.record import (
    Entry,
    document_of,
    entries_of,
    entries_of_jobset,
    last_lines,
    name_of_record,
)
from trainwright.controller.trainer.job.pods import BY_JOBSET, POD, index_value, jobset_key

log = logging.getLogger(__name__)

_TAIL_LINES = 60
_TAIL_BYTES = 256 * 1024
"""Of what the kubelet sends, from the first of those lines on."""
_LOG_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What is recorded of one job."""

    uid: str
    """Of the TrainJob."""
    entries: dict[int, Entry]
    read: dict[int, Failure] = field(default_factory=dict)
    """The failure of each attempt as the cache showed it when its log was read; of the logs that this process read."""

    def runs_again(self, failure: Failure) -> bool:
        """Whether the container runs again, and did not yet in the cache when its log was read.

        The pod may have been ahead of the cache, so that this was the log of the new run.
        """
        return failure.previous and self.read.get(failure.attempt) == replace(failure, previous=False)


class ToldOfFailures(Protocol):
    """Tells users that pods of a job failed."""

    def pod_failed(self, job: TrainJob, note: str) -> None:
        """`note` says what failed first in one attempt."""
        ...


class FailureRecorder:
    """Follows the pods of TrainJobs, which the cache must hold, and records the first failure of each attempt."""

    RULES = (
        Rule.on(POD, *WATCH),
        Rule.on(POD, "get", subresource="log"),
        Rule.on(ConfigMap.RESOURCE, "get", *APPLY),
    )

    def __init__(self, manager: Manager, told: ToldOfFailures) -> None:
        """Declare the controller.

        Args:
            manager: of the process.
            told: tells users of each attempt that has a failure.
        """
        self._client, self._cache, self._applier = manager.client, manager.cache, manager.applier
        self._told = told
        self._known: dict[Key, _Recorded] = {}
        builder = manager.controller("failures_controller").for_(TrainJob, predicates=[lambda event: event.new is None])
        builder.watches(POD, _job_of, label_selector=LABEL_JOBSET)
        builder.reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Record what failed first in each attempt of one job."""
        job = self._cache.get(TrainJob, key.name, key.namespace)
        if job is None:
            self._known.pop(key, None)
            return Done()
        found = first_failures(self._pods(job))
        if not found:
            return Done()
        jobset_uid = next(iter(found.values())).jobset_uid
        recorded = await self._recorded(key, job)
        known = entries_of_jobset(recorded.entries, jobset_uid)
        news = {
            attempt: failure
            for attempt, failure in found.items()
            if attempt not in known or failure.order < known[attempt].failure.order
        }
        again = {attempt: failure for attempt, failure in found.items() if recorded.runs_again(failure)}
        if not news and not again:
            return Done()
        entries = dict(known)
        for attempt, failure in news.items():
            entries[attempt] = Entry.of(failure, await self._log(job.namespace, failure) or "")
        for attempt, failure in again.items():
            text = await self._log(job.namespace, failure)
            if text is not None:
                entries[attempt] = msgspec.structs.replace(entries[attempt], log=text)
        if entries != known:
            await self._applier.apply([document_of(job, entries)], owner=job)
        self._known[key] = _Recorded(uid_of(job), entries, {**recorded.read, **news, **again})
        for attempt, failure in news.items():
            if attempt not in known:
                self._told.pod_failed(job, _sentence(entries[attempt], failure))
        return Done()

    def _pods(self, job: TrainJob) -> list[Document]:
        """The pods of the job's own JobSet."""
        jobset = self._cache.get(JobSet, job.name, job.namespace)
        controller = controller_of(jobset) if jobset is not None else None
        if jobset is None or controller is None or controller.uid != uid_of(job):
            return []
        pods = self._cache.indexed(POD, BY_JOBSET, index_value(job.namespace, job.name))
        return [pod for pod in pods if labels_of(pod).get(LABEL_JOBSET_UID) == uid_of(jobset)]

    async def _recorded(self, key: Key, job: TrainJob) -> _Recorded:
        """What the ConfigMap holds; read once for each job."""
        recorded = self._known.get(key)
        if recorded is not None and recorded.uid == uid_of(job):
            return recorded
        known: dict[int, Entry] = {}
        try:
            content = await self._client.get(ConfigMap, name_of_record(job.name), job.namespace)
        except NotFound:
            pass
        else:
            owner = controller_of(content)
            if owner is not None and owner.uid == uid_of(job):
                known = entries_of(content.data)
        recorded = self._known[key] = _Recorded(uid_of(job), known)
        return recorded

    async def _log(self, namespace: str, failure: Failure) -> str | None:
        """The last lines of the container that failed; None if it is gone, which is no error: the rest is recorded."""
        if not failure.container:
            return ""
        query = {"container": failure.container, "tailLines": str(_TAIL_LINES), "limitBytes": str(_TAIL_BYTES)}
        if failure.previous:
            query["previous"] = "true"
        path = f"/api/v1/namespaces/{namespace}/pods/{failure.pod}/log"
        try:
            answer = await self._client.send(Request("GET", path, query, timeout=_LOG_SECONDS))
        except KubernetesError as error:
            log.info("%s/%s: the log of the failed container cannot be read: %s", namespace, failure.pod, error)
            return None
        return last_lines(answer.body)


def _sentence(entry: Entry, failure: Failure) -> str:
    last = entry.log.rpartition("\n")[2].strip()
    said = f": {last}" if last else f": {failure.message}" if failure.message else ""
    return f"attempt {failure.attempt + 1}: {failure.where} failed first: {failure.what}{said}"


def _job_of(pod: Document) -> list[Key]:
    """The TrainJob of a pod that shows a failure; the JobSet has its name."""
    key = jobset_key(pod)
    return [key] if key is not None and first_failures([pod]) else []
