# SPDX-License-Identifier: Apache-2.0
"""What happened to a job, latest first: what the training did, and what Kubernetes says of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from trainwright.api.objects import Document, dig, key_of
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED, CONDITION_SUSPENDED
from trainwright.controller.dashboard import contract
from trainwright.controller.trainer.job.status import CONDITION_STALLED
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.views.ended import how_ended
from trainwright.controller.views.explanation import ReferenceView, reference
from trainwright.plugins.contract.picture import event_time
from trainwright.progress import CHECKPOINT_STEP

_Source: TypeAlias = Literal["training", "condition", "event"]
MOST = 200
"""Entries of Kubernetes."""
_BEGIN = datetime.min.replace(tzinfo=UTC)
_OF_TRAINING = frozenset({CONDITION_COMPLETE, CONDITION_FAILED, CONDITION_SUSPENDED, CONDITION_STALLED})
_CALM = frozenset({CONDITION_COMPLETE, CONDITION_SUSPENDED})
"""Conditions that are shown as normal, not as warnings."""


def timeline_of(
    job: TrainJob,
    events: Iterable[Document],
    failures: Mapping[int, contract.FailureView],
    pods: Iterable[contract.Pod] = (),
    samples: Sequence[Sample] = (),
    why: str = "",
) -> list[contract.Moment]:
    """The latest first. Of one second: what must have come first stays below. `why`: the job has failed."""
    told = filter(None, map(_of_event, sorted(events, key=_version)))
    found = [
        *_of_job(job),
        *told,
        *_of_starts(job, pods, samples),
        *_of_checkpoints(job, samples),
        *_of_failures(job, failures),
        *_of_conditions(job, why),
    ]
    found.reverse()
    # As times: some have fractions of a second, and as texts those would come before their second.
    found.sort(key=lambda one: moment(one.at) or _BEGIN, reverse=True)
    kept = {id(one) for one in [one for one in found if one.source != "training"][:MOST]}
    return [one for one in found if one.source == "training" or id(one) in kept]


def _version(event: Document) -> int:
    """The order in which events were stored: most have a time of whole seconds."""
    text = str(dig(event, "metadata.resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


def _once(
    job: TrainJob, at: str, reason: str, message: str, *, warning: bool = False, source: _Source = "training"
) -> contract.Moment:
    return contract.Moment(
        at=at,
        first=at,
        count=1,
        source=source,
        severity="warning" if warning else "normal",
        reason=reason,
        message=message,
        object=reference(key_of(job)),
    )


def _of_job(job: TrainJob) -> Iterable[contract.Moment]:
    metadata = job.metadata_or_empty
    if at := metadata.creation_timestamp:
        yield _once(job, at, "Created", "the job was created")
    if at := metadata.deletion_timestamp:
        yield _once(job, at, "Deleted", "the job is being deleted")


def _of_starts(job: TrainJob, pods: Iterable[contract.Pod], samples: Sequence[Sample]) -> Iterable[contract.Moment]:
    """When the first rank of each attempt started, of the pods that are known; else the first report of the first."""
    found: dict[int, str] = {}
    for pod in pods:
        for one in pod.containers:
            if one.started and not one.init and pod.attempt is not None:
                found[pod.attempt] = min(one.started, found.get(pod.attempt, one.started))
    if samples and 1 not in found:
        yield _once(job, _text(samples[0]), "Started", "the first report came")
    for number, at in found.items():
        reason = "Started" if number == 1 else f"Attempt {number} started"
        yield _once(job, at, reason, "the program runs")


def _of_checkpoints(job: TrainJob, samples: Sequence[Sample]) -> Iterable[contract.Moment]:
    """The checkpoints that reports told of, one entry for those between two falls back to an earlier step."""
    found: dict[int, list[Sample]] = {}
    last: float | None = None
    for one in samples:
        step = one.values.get(CHECKPOINT_STEP)
        if step is not None and step != last:
            found.setdefault(one.segment, []).append(one)
        last = step if step is not None else last
    for run in found.values():
        made = _once(job, _text(run[-1]), "Checkpoint", f"of step {run[-1].values[CHECKPOINT_STEP]:g}")
        made.first, made.count = _text(run[0]), len(run)
        yield made


def _text(sample: Sample) -> str:
    return format_time(datetime.fromtimestamp(sample.at, UTC))


def _of_failures(job: TrainJob, failures: Mapping[int, contract.FailureView]) -> Iterable[contract.Moment]:
    for number, failure in failures.items():
        if failure.finished:
            text = f"{failure.who} failed first: {how_ended(failure.exit_code, failure.reason) or 'no reason'}"
            yield _once(job, failure.finished, f"Attempt {number} failed", text, warning=True)


def _of_conditions(job: TrainJob, why: str) -> Iterable[contract.Moment]:
    for one in job.status_or_empty.conditions or ():
        if not (at := one.last_transition_time):
            continue
        is_true = one.status == "True"
        if one.type in _OF_TRAINING and (is_true or one.type == CONDITION_SUSPENDED):
            message = why or one.message if one.type == CONDITION_FAILED else one.message
            yield _once(job, at, one.type if is_true else "Resumed", message, warning=is_true and one.type not in _CALM)
        else:
            yield _once(
                job, at, f"{one.type} {one.status}, {one.reason}", one.message, warning=is_true, source="condition"
            )


def _of_event(event: Document) -> contract.Moment | None:
    at = event_time(event)
    if not at:
        return None
    about = event.get("involvedObject") or {}
    return contract.Moment(
        at=at,
        first=event.get("firstTimestamp") or event.get("eventTime") or at,
        count=max(1, int(dig(event, "series.count") or event.get("count") or 1)),
        source="event",
        severity="warning" if event.get("type") == "Warning" else "normal",
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        object=ReferenceView(**{field: str(about.get(field) or "") for field in ("kind", "namespace", "name")}),
    )
