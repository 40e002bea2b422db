# SPDX-License-Identifier: Apache-2.0
"""Several runs in one table: the parameters that differ, and what each metric came to. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from trainwright.api.objects import Document
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.comparing.measures import (
    Direction,
    Measure,
    direction_of,
    measures_of,
    sorted_metrics,
)
from trainwright.controller.cli.comparing.parameters import GROUPS, Parameter, parameters_of
from trainwright.controller.cli.progress.history import History
from trainwright.controller.cli.progress.reports import KeptReport
from trainwright.controller.cli.progress.view import view_of

MOST = 24
"""Jobs of one comparison: more lines in one chart cannot be told apart."""


class Same(Parameter, kw_only=True, frozen=True):
    value: str


class ComparedMetric(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    best: Direction | None
    """Which value is the best one. Null: its name does not say."""


class Compared(msgspec.Struct, kw_only=True, rename="camel"):
    namespace: str
    name: str
    uid: str
    state: str
    created: str | None
    seconds: float | None
    """From its creation to its end, or to now."""
    parameters: list[str | None]
    """One for each of `JobComparison.parameters`. Null: the job does not have it."""
    measures: list[Measure | None]
    """One for each of `JobComparison.metrics`. Null: it was not reported."""


class Missing(msgspec.Struct, kw_only=True, rename="camel"):
    namespace: str
    name: str
    message: str


class JobComparison(msgspec.Struct, kw_only=True, rename="camel"):
    now: str
    jobs: list[Compared]
    """In the order in which they were asked for."""
    parameters: list[Parameter]
    same: list[Same]
    metrics: list[ComparedMetric]
    missing: list[Missing]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    job: Document
    reports: Sequence[KeptReport] = ()
    """Of the whole run, oldest first, as far as they are known."""
    jobset: Document | None = None
    """What the job became, if it can be had."""


def compare(runs: Sequence[ComparedRun], now: datetime, missing: Sequence[Missing] = ()) -> JobComparison:
    """The runs beside each other. Raises msgspec.ValidationError for a job that does not fit the API."""
    parameters = [parameters_of(run.job, run.jobset) for run in runs]
    views = [view_of(msgspec.convert(run.job, TrainJob), History(), now) for run in runs]
    measures = [measures_of(run.reports, view.metrics) for run, view in zip(runs, views, strict=True)]
    names = _names(parameters)
    differing = [name for name in names if len({one.get(name) for one in parameters}) > 1]
    metrics = sorted_metrics({name for one in measures for name in one})
    jobs = []
    for view, has, came_to in zip(views, parameters, measures, strict=True):
        end = view.ended or now
        jobs.append(
            Compared(
                namespace=view.namespace,
                name=view.name,
                uid=view.uid,
                state=view.state.value,
                created=format_time(view.created) if view.created is not None else None,
                seconds=max(0.0, (end - view.created).total_seconds()) if view.created is not None else None,
                parameters=[has.get(name) for name in differing],
                measures=[came_to.get(name) for name in metrics],
            )
        )
    return JobComparison(
        now=format_time(now),
        jobs=jobs,
        parameters=differing,
        same=[
            Same(group=name.group, name=name.name, value=parameters[0][name])
            for name in names
            if name not in differing and parameters
        ],
        metrics=[ComparedMetric(name=name, best=direction_of(name)) for name in metrics],
        missing=list(missing),
    )


def _names(parameters: Sequence[Mapping[Parameter, str]]) -> list[Parameter]:
    """All names by group; in a group as the jobs have them."""
    found: dict[Parameter, None] = {}
    for one in parameters:
        found.update(dict.fromkeys(one))
    return sorted(found, key=lambda name: GROUPS.index(name.group))
