# SPDX-License-Identifier: Apache-2.0
"""Several runs in one table: the parameters that differ, and what each metric came to. Pure.

For pages, as CSV for spreadsheets, and as text for terminals.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from trainwright.api.objects import Document
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.progress.curve import COUNTERS, Sample
from trainwright.controller.views import text
from trainwright.controller.views.job import History, view_of
from trainwright.controller.views.parameters import GROUPS, Parameter, parameters_of
from trainwright.progress import Extremes

Direction: TypeAlias = Literal["low", "high"]
"""Which value of a metric is the best one."""
_WORDS = re.compile(r"[^A-Za-z0-9]+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LOW = re.compile(
    "loss|losses|error|err|perplexity|ppl|mse|mae|rmse|mape|wer|cer|fid|nll|ce|bce|entropy|kl|"
    "divergence|distance|latency|regret|bpb|bpc"
)
_HIGH = re.compile(
    "accuracy|acc|f1|fscore|auc|auroc|auprc|precision|recall|map|miou|iou|dice|jaccard|bleu|"
    "rouge|meteor|cider|score|reward|return|psnr|ssim|r2|throughput|top1|top5|success|win|"
    "correct|pass|mrr|ndcg|specificity|sensitivity|mfu|hfu"
)
MOST = 24
"""Jobs of one comparison: more lines in one chart cannot be told apart."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ACTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets take a cell that begins so for a formula; the last four as their wide forms."""
_WIDEST = 40
"""Characters of a cell on a terminal."""
_GIT = 12


def finite(text: str | None) -> float | None:
    """The number that a metric's value says; None for no number, NaN and the infinities, which JSON does not have."""
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Measure(msgspec.Struct, kw_only=True, rename="camel"):
    last: str = ""
    """As it was reported: may be `NaN`, `Infinity`, or no number."""
    last_number: float | None = None
    """The same, if it is a finite number."""
    lowest: float | None = None
    """Over all attempts. Null: there was no finite number."""
    lowest_step: float | None = None
    """At about which step. Null: the training told no steps."""
    highest: float | None = None
    highest_step: float | None = None

    def best(self, direction: Direction | None) -> float | None:
        return {"low": self.lowest, "high": self.highest, None: None}[direction]

    def best_step(self, direction: Direction | None) -> float | None:
        return {"low": self.lowest_step, "high": self.highest_step, None: None}[direction]


def direction_of(metric: str) -> Direction | None:
    """Which value of a metric is the best one, by the words of its name; None: the name does not say.

    A loss, an error or a perplexity is best when it is low; an accuracy, a score or a throughput when it is high. A
    word of the first kind counts more: `accuracy_loss` is a loss.
    """
    parts = [part for part in _WORDS.split(metric) if part]
    words = [word.lower() for part in parts for word in (*_HUMPS.split(part), part, part.rstrip("0123456789"))]
    if any(_LOW.fullmatch(word) or word.endswith(("loss", "error")) for word in words):
        return "low"
    if any(_HIGH.fullmatch(word) or word.endswith(("accuracy", "score")) for word in words) or parts[-2:] == [
        "per",
        "second",
    ]:
        return "high"
    return None


def measures_of(
    reports: Iterable[Sample], last: Mapping[str, str], extremes: Mapping[str, Extremes]
) -> dict[str, Measure]:
    """The metrics of a run. `last`: those of its last report, as they were reported, and `extremes` what it says."""
    found: dict[str, Measure] = {}
    for name, known in extremes.items():
        if name not in COUNTERS:  # before the reports, since these steps are exact
            found[name] = Measure(**known._asdict())
    for report in reports:
        for name, value in report.values.items():
            if name in COUNTERS:
                continue
            low, high = report.lows.get(name, value), report.highs.get(name, value)
            _take(found, name, repr(value), low, high, report.step)
    step = finite(last.get("current_step"))
    for name, told in last.items():
        if name not in COUNTERS:
            number = finite(told)
            _take(found, name, told, number, number, step)
    return found


def sorted_metrics(names: Iterable[str]) -> list[str]:
    """As charts are: the loss first, then other losses, then the others by name."""
    return sorted(names, key=lambda name: (name != "loss", not name.endswith("loss"), name))


def _take(
    found: dict[str, Measure], name: str, last: str, low: float | None, high: float | None, step: float | None
) -> None:
    measure = found.setdefault(name, Measure())
    # The history keeps six digits; the last report repeats a value with all of them.
    measure.last, measure.last_number = last, finite(last)
    if low is not None and (measure.lowest is None or low < measure.lowest):
        measure.lowest, measure.lowest_step = low, step
    if high is not None and (measure.highest is None or high > measure.highest):
        measure.highest, measure.highest_step = high, step


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
    reports: Sequence[Sample] = ()
    """Of the whole run, oldest first, as far as they are known."""
    jobset: Document | None = None
    """What the job became, if it can be had."""


def compare(runs: Sequence[ComparedRun], now: datetime, missing: Sequence[Missing] = ()) -> JobComparison:
    """The runs beside each other. Raises msgspec.ValidationError for a job that does not fit the API."""
    parameters = [parameters_of(run.job, run.jobset) for run in runs]
    views = [view_of(msgspec.convert(run.job, TrainJob), History(), now) for run in runs]
    measures = [measures_of(run.reports, view.metrics, view.extremes) for run, view in zip(runs, views, strict=True)]
    # By group; in a group as the jobs have them.
    names = sorted(dict.fromkeys(name for one in parameters for name in one), key=lambda one: GROUPS.index(one.group))
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


def as_csv(comparison: JobComparison, best: Mapping[str, Direction] | None = None) -> str:
    """One row for each job. `best`: by metric, where the reader knows better than its name.

    A cell that a spreadsheet would take for a formula begins with an apostrophe; numbers do not.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in _rows(comparison, best or {}):
        writer.writerow([_harmless(cell) for cell in row])
    return out.getvalue()


def _rows(comparison: JobComparison, best: Mapping[str, Direction]) -> Iterator[list[str]]:
    head = ["namespace", "job", "state", "created", "seconds"]
    # A name with dashes before it would be a formula.
    head += [_title(one.group, one.name.lstrip("-")) for one in comparison.parameters]
    for metric in comparison.metrics:
        head += [f"{metric.name} {word}" for word in ("last", "best", "best at step", "lowest", "highest")]
    yield head
    for job in comparison.jobs:
        row = [job.namespace, job.name, job.state, job.created or "", _plain(job.seconds)]
        row += [value if value is not None else "" for value in job.parameters]
        for metric, measure in zip(comparison.metrics, job.measures, strict=True):
            row += _measured(measure, best.get(metric.name) or metric.best)
        yield row


def _measured(measure: Measure | None, direction: Direction | None) -> list[str]:
    if measure is None:
        return [""] * 5
    numbers = (measure.best(direction), measure.best_step(direction), measure.lowest, measure.highest)
    return [measure.last, *map(_plain, numbers)]


def _plain(number: float | None) -> str:
    if number is None:
        return ""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(number)


def _harmless(cell: str) -> str:
    # A space before it does not make a formula harmless: some programs drop it.
    acts = cell.lstrip(" \u00a0\u3000\ufeff").startswith(_ACTS) or cell.startswith(_ACTS)
    return f"'{cell}" if acts and not _NUMBER.fullmatch(cell) else cell


def _title(group: str, name: str) -> str:
    return f"env {name}" if group == "environment" else name


def as_text(comparison: JobComparison) -> list[str]:
    """The same for a terminal: one column for each job, since names of parameters and metrics are many and long."""
    jobs = comparison.jobs
    names = [text.printable(one.name) for one in jobs]
    took = [text.duration(one.seconds) if one.seconds is not None else text.NONE for one in jobs]
    rows = [["", *names], ["state", *(one.state for one in jobs)], ["took", *took]]
    for index, parameter in enumerate(comparison.parameters):
        cut = _GIT if parameter.name == "git commit" else _WIDEST
        values = [one.parameters[index] for one in jobs]
        rows.append([_title(parameter.group, parameter.name), *(_cut(one, cut) for one in values)])
    for index, metric in enumerate(comparison.metrics):
        rows += _of_metric(metric, [one.measures[index] for one in jobs])
    lines = text.aligned([[text.printable(cell) for cell in row] for row in rows])
    same = len(comparison.same)
    if len(jobs) > 1:
        nothing = "no parameter differs" if not comparison.parameters else ""
        others = f"{same} {'parameter is' if same == 1 else 'parameters are'} the same"
        lines += ["", "; ".join(part for part in (nothing, others) if part)]
    return lines


def _of_metric(metric: ComparedMetric, measures: Sequence[Measure | None]) -> Iterator[list[str]]:
    yield [metric.name, *(text.number(one.last) if one is not None else text.NONE for one in measures)]
    if metric.best is None:
        for word in ("lowest", "highest"):
            yield [f"  {word}", *(_short(getattr(one, word, None)) for one in measures)]
        return
    best = [one.best(metric.best) if one is not None else None for one in measures]
    known = [one for one in best if one is not None]
    leader = (min if metric.best == "low" else max)(known) if len(set(known)) > 1 else None
    yield [
        f"  best ({metric.best})",
        *(f"{_short(one)}{' *' if one is not None and one == leader else ''}" for one in best),
    ]


def _short(number: float | None) -> str:
    return text.number(_plain(number)) if number is not None else text.NONE


def _cut(value: str | None, most: int) -> str:
    if value is None:
        return text.NONE
    if most == _GIT:
        return value[:_GIT]
    # The beginning of a path says less than its end.
    return value if len(value) <= most else f"…{value[-most + 1 :]}"
