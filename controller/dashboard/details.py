# SPDX-License-Identifier: Apache-2.0
"""One job for the page: as a row of the list, and all about it, which is read while a page shows it.

That is the picture that `trainwright explain` reads, with the pods, the events and the record of failures added. What
the user may not read is said in `unread`.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import msgspec

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.api.times import format_time, parse, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.pods import Usage, failure_of, pods_of
from trainwright.controller.dashboard.timeline import timeline_of
from trainwright.controller.local.node.folders import ended_pods
from trainwright.controller.runtime import Client
from trainwright.controller.trainer.failures.first import first_failures
from trainwright.controller.trainer.failures.last_words import without_answers
from trainwright.controller.trainer.failures.record import entries_of
from trainwright.controller.trainer.job.pods import attempt_of
from trainwright.controller.trainer.why import Explanation, Reader
from trainwright.controller.trainer.why.job.containers import record_data
from trainwright.controller.trainer.why.job.jobset import attempts_of
from trainwright.controller.trainer.why.job.judgement import why_unread
from trainwright.controller.trainer.why.kinds import CONFIG_MAP
from trainwright.controller.views.comparison import finite
from trainwright.controller.views.ended import brief_of
from trainwright.controller.views.explanation import explaining_plugins, shown_explanation
from trainwright.controller.views.job import History, JobView, metrics_of, view_of
from trainwright.plugins.contract import JobState
from trainwright.plugins.contract.picture import (
    BATCH_JOB,
    EVENT,
    EVENTS_OF,
    JOBSET,
    POD,
    Picture,
    Verb,
    holds,
    index_of,
)

_LOG_LINES = 20
"""Of a failed container, that are shown."""
_PARTS = {POD.plural: "pods", EVENT.plural: "events", CONFIG_MAP.plural: "attempts", JOBSET.plural: "attempts"}
_SHARED = (
    *("namespace", "name", "uid", "state", "reason", "message", "stalled", "stalled_message", "waiting"),
    *("deleting", "percentage", "nodes", "managed_by", "search", "attempt", "failure"),
)
"""The fields of a row that are the same in a view and on the wire."""


class Details:
    def __init__(self, client: Client, cluster: contract.Cluster, *, logs: Path | None = None) -> None:
        """`logs`: the folder of a local node's logs, which has those of pods that are gone."""
        self._cluster = cluster
        self._reader = Reader(client, explaining_plugins())
        self._usage = Usage(client)
        self._logs = logs

    async def read(self, namespace: str, name: str, history: History, connection: contract.Connection) -> contract.Job:
        """The job as it is now.

        Raises:
            NotFound: the job does not exist.
            ApiError: it may not be read.
            TransportError: no answer.
            DecodeError: it does not fit the API.
        """
        picture, explanation = await self._reader.picture(namespace, name, also=_wanted)
        gone = await asyncio.to_thread(_gone, self._logs, picture) if self._logs is not None else []
        job = job_of(picture, explanation, history, self._cluster, connection, wall_clock(), gone)
        if any(pod.phase == "Running" for pod in job.pods):
            used = await self._usage.read(namespace, name)
            for pod in job.pods:
                pod.usage = used.get(pod.name)
        return job


def job_of(
    picture: Picture,
    explanation: Explanation,
    history: History,
    cluster: contract.Cluster,
    connection: contract.Connection,
    now: datetime,
    gone: Sequence[Document] = (),
) -> contract.Job:
    """The answer, from what was read. Raises msgspec.ValidationError for a job that does not fit the API."""
    job = msgspec.convert(picture.job, TrainJob)
    failures = _failures(picture)
    attempt, most = attempts_of(picture) if picture.jobset or failures else (None, None)
    pods = pods_of(picture, gone)
    why = explanation.cause.message if explanation.outcome is JobState.FAILED else ""
    numbers = set(failures) | ({attempt} if attempt is not None else set())
    return contract.Job(
        now=format_time(now),
        cluster=cluster,
        connection=connection,
        row=row_of(view_of(job, history, now, failure=why, brief=brief_of(record_data(picture)), attempt=attempt)),
        attempt=attempt,
        most_attempts=most,
        suspended=bool(job.spec_or_empty.suspend),
        timeline=timeline_of(job, _events(picture), failures, pods, history.samples(), why),
        pods=pods,
        attempts=[contract.AttemptView(number=one, failure=failures.get(one)) for one in sorted(numbers)],
        metrics=last_metrics(job),
        explanation=shown_explanation(explanation),
        unread=list(_unread(picture)),
    )


def _gone(logs: Path, picture: Picture) -> list[Document]:
    """The pods of the job that are gone and whose logs are kept, by attempt and rank. Blocks."""
    there = {uid_of(pod) for pod in picture.pods}
    found = [one.gone for one in ended_pods(logs, uid_of(picture.job)) if uid_of(one.document) not in there]
    return sorted(found, key=lambda pod: (attempt_of(pod), index_of(pod), name_of(pod)))


def last_metrics(job: TrainJob) -> list[contract.MetricView]:
    return [
        contract.MetricView(name=name, value=value, number=finite(value)) for name, value in metrics_of(job).items()
    ]


def starts_of(picture_pods: Sequence[contract.Pod]) -> dict[int, datetime]:
    found: dict[int, datetime] = {}
    for pod in picture_pods:
        if pod.attempt is not None and pod.created:
            moment = parse(pod.created)
            found[pod.attempt] = min(moment, found.get(pod.attempt, moment))
    return found


def _wanted(picture: Picture) -> None:
    _events(picture)
    _failures(picture)


def _events(picture: Picture) -> list[Document]:
    job, jobset = {**picture.job, "kind": TrainJob.RESOURCE.kind}, picture.jobset
    batch = picture.list(BATCH_JOB, labels=f"{LABEL_JOBSET}={picture.name}") if jobset is not None else ()
    # Those of pods that are not ready say more.
    pods = sorted(picture.present_pods, key=lambda pod: holds(pod, "Ready") is not None)[:EVENTS_OF]
    return [*picture.events(job, jobset, *batch[: EVENTS_OF - 2]), *picture.events(*pods)]


def _failures(picture: Picture) -> dict[int, contract.FailureView]:
    """The first failure of each attempt, by number: as recorded, else from the pods that are there."""
    record = record_data(picture)
    found: dict[int, contract.FailureView] = {}
    by_name = {name_of(pod): pod for pod in picture.pods}
    for attempt, failure in first_failures(picture.pods).items():
        log: Sequence[str] = ()
        if failure.container:
            lines = picture.log(by_name[failure.pod], failure.container, previous=failure.previous)
            log = without_answers(lines)[-_LOG_LINES:]
        found[attempt + 1] = failure_of(failure, log)
    for attempt, entry in entries_of(record).items():
        held = found.get(attempt + 1)
        # The record was taken first; the log of a pod that is still there may have more.
        log = entry.log.splitlines() or (held.log if held is not None and held.pod == entry.pod else [])
        found[attempt + 1] = failure_of(entry, log)
    return dict(sorted(found.items()))


def _unread(picture: Picture) -> Iterator[contract.UnreadPart]:
    """The parts that are incomplete, each message once."""
    told: dict[tuple[str, str], contract.UnreadPart] = {}
    for query, message in picture.unread.items():
        part = _PARTS.get(query.resource.plural)
        if part is None or query.verb is Verb.LOG:
            continue  # only the explanation asks for it, and says so
        text = why_unread(query, message)
        told[part, text] = msgspec.convert({"part": part, "message": text}, contract.UnreadPart)
    yield from told.values()


def row_of(view: JobView, parameters: Mapping[str, str] = MappingProxyType({})) -> contract.JobRow:
    loss = None
    if view.loss is not None:
        points = view.history.means(view.loss, contract.SPARK_POINTS)
        loss = contract.Spark(metric=view.loss, value=view.metrics[view.loss], points=points)
    return contract.JobRow(
        **{name: getattr(view, name) for name in _SHARED},
        remaining=_remaining(view),
        last_report=time_text(view.reported),
        step=finite(view.metrics.get("current_step")),
        total_steps=finite(view.metrics.get("total_steps")),
        epoch=finite(view.metrics.get("current_epoch")),
        total_epochs=finite(view.metrics.get("total_epochs")),
        loss=loss,
        runtime=contract.Runtime(kind=view.runtime_kind, name=view.runtime),
        created=time_text(view.created),
        finished=time_text(view.ended),
        parameters=dict(parameters),
    )


def time_text(moment: datetime | None) -> str | None:
    return format_time(moment) if moment is not None else None


def _remaining(view: JobView) -> contract.RemainingView | None:
    left = view.remaining
    if left is None or view.reported is None:
        return None
    try:
        at = view.reported + timedelta(seconds=left.told)
        late_at = view.reported + timedelta(seconds=left.late_after)
    except OverflowError:  # the schema allows 68 years; a slope may be nearly flat
        return None
    return contract.RemainingView(
        seconds=round(left.seconds),
        late=left.late,
        at=format_time(at),
        late_at=format_time(late_at),
        source="report" if left.reported else "history",
    )
