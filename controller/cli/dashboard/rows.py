# SPDX-License-Identifier: Apache-2.0
"""One job as a row of the list: the view of the terminal, on the wire."""

from datetime import datetime, timedelta

from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.comparing.comparison import finite
from trainwright.controller.cli.dashboard import contract
from trainwright.controller.cli.progress.view import History, JobView, view_of

_SHARED = (
    *("namespace", "name", "uid", "version", "state", "reason", "message", "stalled", "stalled_message", "waiting"),
    *("waiting_message", "deleting", "percentage", "nodes", "managed_by", "attempt"),
)
"""The fields that are the same in a view and on the wire."""


def row_of(
    job: TrainJob, history: History, now: datetime, failure: str = "", *, attempt: int | None = None
) -> contract.JobRow:
    """The row as of `now`. `failure` and `attempt` are as in `view_of`."""
    view = view_of(job, history, now, attempt=attempt, failure=failure)
    return contract.JobRow(
        **{name: getattr(view, name) for name in _SHARED},
        remaining=_remaining(view),
        last_report=time_text(view.reported),
        age_seconds=int(view.age) if view.age is not None else None,
        step=finite(view.metrics.get("current_step")),
        total_steps=finite(view.metrics.get("total_steps")),
        epoch=finite(view.metrics.get("current_epoch")),
        total_epochs=finite(view.metrics.get("total_epochs")),
        loss=_loss(view),
        runtime=contract.Runtime(kind=view.runtime_kind, name=view.runtime),
        created=time_text(view.created),
        finished=time_text(view.ended),
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


def _loss(view: JobView) -> contract.Spark | None:
    if view.loss is None:
        return None
    points = view.history.means(view.loss, contract.SPARK_POINTS)
    return contract.Spark(metric=view.loss, value=view.metrics[view.loss], points=points)
