# SPDX-License-Identifier: Apache-2.0
"""One job as a row of the list: a pure function of the object, of what was seen of it, and of the time."""

from datetime import datetime, timedelta

from trainwright.api.conditions import find
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import deletion_timestamp_of, resource_version_of, uid_of
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import KIND_CLUSTER_TRAINING_RUNTIME
from trainwright.controller.cli.dashboard import contract
from trainwright.controller.cli.progress.history import History
from trainwright.controller.cli.progress.view import View, view_of
from trainwright.controller.trainer.job.state import CONDITION_STALLED, EXPLAINING, State, entered, is_ours


def row_of(job: TrainJob, history: History, now: datetime, failure: str = "") -> contract.Row:
    """The row as of `now`. `failure` is as in `view_of`."""
    view = view_of(job, history, now, failure=failure)
    spec = job.spec
    reference = spec.runtime_ref if spec is not None else None
    trainer = spec.trainer if spec is not None else None
    ended = entered(job, State(view.state)) if view.is_over else None
    return contract.Row(
        namespace=view.namespace,
        name=view.name,
        uid=uid_of(job),
        version=resource_version_of(job),
        state=view.state.value,
        reason=view.reason,
        message=view.message,
        stalled=view.stalled,
        stalled_message=_message(job, CONDITION_STALLED) if view.stalled else "",
        waiting=view.waiting,
        waiting_message=next((_message(job, one) for one in EXPLAINING if _is_true(job, one)), ""),
        deleting=deletion_timestamp_of(job) is not None,
        percentage=view.percentage,
        remaining=_remaining(view),
        last_report=time_text(view.reported),
        age_seconds=int(view.age) if view.age is not None else None,
        step=_counter(view, "current_step"),
        total_steps=_counter(view, "total_steps"),
        epoch=_counter(view, "current_epoch"),
        total_epochs=_counter(view, "total_epochs"),
        loss=_loss(view),
        nodes=trainer.num_nodes if trainer is not None else None,
        runtime=contract.Runtime(
            kind=(reference.kind if reference is not None else None) or KIND_CLUSTER_TRAINING_RUNTIME,
            name=reference.name if reference is not None else "",
        ),
        created=time_text(view.created),
        finished=time_text(ended),
        managed_by="" if is_ours(job) or spec is None else spec.managed_by or "",
    )


def time_text(moment: datetime | None) -> str | None:
    """A time on the wire."""
    return format_time(moment) if moment is not None else None


def conditions_of(job: TrainJob) -> list[Condition]:
    """All conditions of a job."""
    return list(job.status_or_empty.conditions or ())


def _is_true(job: TrainJob, condition: str) -> bool:
    found = find(conditions_of(job), condition)
    return found is not None and found.status == "True"


def _message(job: TrainJob, condition: str) -> str:
    found = find(conditions_of(job), condition)
    return found.message if found is not None else ""


def _remaining(view: View) -> contract.Remaining | None:
    left = view.remaining
    if left is None or view.reported is None:
        return None
    try:
        at = view.reported + timedelta(seconds=left.told)
        late_at = view.reported + timedelta(seconds=left.late_after)
    except OverflowError:  # the schema allows 68 years; a slope may be nearly flat
        return None
    return contract.Remaining(
        seconds=round(left.seconds),
        late=left.late,
        at=format_time(at),
        late_at=format_time(late_at),
        source="report" if left.reported else "history",
    )


def _loss(view: View) -> contract.Spark | None:
    if view.loss is None:
        return None
    points = view.history.means(view.loss, contract.SPARK_POINTS)
    return contract.Spark(metric=view.loss, value=view.metrics[view.loss], points=points)


def _counter(view: View, name: str) -> float | None:
    return contract.finite(view.metrics.get(name))
