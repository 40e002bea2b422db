# SPDX-License-Identifier: Apache-2.0
"""What happened to a job, in one list: its conditions, the events of its objects, and the failures of its attempts."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

from trainwright.api.objects import Document, dig
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_SUSPENDED
from trainwright.controller.cli.causes import ReferenceView
from trainwright.controller.cli.dashboard import contract
from trainwright.plugins.contract.picture import event_time

MOST = 200
"""Entries of a time line."""
_BEGIN = datetime.min.replace(tzinfo=UTC)
_CALM = frozenset({CONDITION_COMPLETE, CONDITION_SUSPENDED})
"""Conditions that are no reason to worry."""


def timeline_of(
    job: TrainJob, events: Iterable[Document], failures: Mapping[int, contract.FailureView]
) -> list[contract.Moment]:
    """The latest first. Of one second: what must have come first stays below."""
    told = filter(None, map(_of_event, sorted(events, key=_version)))
    found = [*_of_job(job), *told, *_of_failures(job, failures), *_of_conditions(job)]
    found.reverse()
    # As times: some have fractions of a second, and as texts those would come before their second.
    found.sort(key=lambda one: moment(one.at) or _BEGIN, reverse=True)
    return found[:MOST]


def _version(event: Document) -> int:
    """The order in which events were stored: most have a time of whole seconds."""
    text = str(dig(event, "metadata.resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


def _once(
    at: str,
    about: ReferenceView,
    source: Literal["condition", "job", "attempt"],
    reason: str,
    message: str,
    *,
    calm: bool,
) -> contract.Moment:
    severity: Literal["normal", "warning"] = "normal" if calm else "warning"
    return contract.Moment(
        at=at, first=at, count=1, source=source, severity=severity, reason=reason, message=message, object=about
    )


def _itself(job: TrainJob) -> ReferenceView:
    return ReferenceView(kind=TrainJob.RESOURCE.kind, namespace=job.namespace, name=job.name)


def _of_job(job: TrainJob) -> Iterable[contract.Moment]:
    metadata = job.metadata_or_empty
    times = (
        ("Created", "the TrainJob was created", metadata.creation_timestamp),
        ("Deleted", "the TrainJob is being deleted", metadata.deletion_timestamp),
    )
    for reason, message, at in times:
        if at:
            yield _once(at, _itself(job), "job", reason, message, calm=True)


def _of_conditions(job: TrainJob) -> Iterable[contract.Moment]:
    for one in job.status_or_empty.conditions or ():
        if at := one.last_transition_time:
            is_calm = one.status != "True" or one.type in _CALM
            yield _once(at, _itself(job), "condition", one.reason or one.type, one.message, calm=is_calm)


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


def _of_failures(job: TrainJob, failures: Mapping[int, contract.FailureView]) -> Iterable[contract.Moment]:
    for number, failure in failures.items():
        if failure.finished:
            how = f"exit code {failure.exit_code}" if failure.exit_code is not None else failure.reason or "no reason"
            about = ReferenceView(kind="Pod", namespace=job.namespace, name=failure.pod)
            message = f"pod {failure.pod} of attempt {number} failed first: {how}"
            yield _once(failure.finished, about, "attempt", failure.reason or "Failed", message, calm=False)
