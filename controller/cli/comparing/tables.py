# SPDX-License-Identifier: Apache-2.0
"""A comparison as CSV for spreadsheets, and as text for terminals."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence

from trainwright.controller.cli.comparing.comparison import Compared, ComparedMetric, JobComparison
from trainwright.controller.cli.comparing.measures import Direction, Measure
from trainwright.controller.cli.progress import text

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ACTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets take a cell that begins so for a formula; the last four as their wide forms."""
_WIDEST = 40
"""Characters of a cell on a terminal."""
_GIT = 12


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
    rows = [["", *names], ["state", *(one.state for one in jobs)], ["took", *map(_took, jobs)]]
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


def _took(job: Compared) -> str:
    return text.duration(job.seconds) if job.seconds is not None else text.NONE
