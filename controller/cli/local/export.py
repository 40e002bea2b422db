# SPDX-License-Identifier: Apache-2.0
"""`trainwright local export`: the curves of jobs as CSV, or as files of TensorBoard."""

import argparse
import asyncio
import csv
import logging
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from trainwright.api import extras
from trainwright.api.errors import UserError
from trainwright.api.messages import counted
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.api.times import parse
from trainwright.controller.cli.local.outputs import folder_of_job
from trainwright.controller.trainer.progress.curve import COUNTERS, Sample
from trainwright.controller.views.reports import FOLDER, MOST, KeptReports, every_value

if TYPE_CHECKING:
    from trainwright.controller.cli.local.local_jobs import LocalJobs

_STEP, _, _EPOCH, _ = COUNTERS


async def values_of(job: Document, folder: Path) -> list[Sample]:
    """Each value that the training has kept; else what it reported. `folder`: of the cluster."""
    reports = KeptReports(folder / FOLDER)
    if (output := folder_of_job(job)) is not None:
        since = parse(job["metadata"]["creationTimestamp"]).timestamp()
        with suppress(OSError):
            if found := await asyncio.to_thread(lambda: [*every_value(output, since)]):
                return found
    return (await reports.read(uid_of(job), most=MOST))[0]


async def export(jobs: "LocalJobs", arguments: argparse.Namespace, folder: Path) -> int:
    """Write the curves; returns the exit code. Raises RefusedError: a job does not exist."""
    found = [await jobs.get(name) for name in dict.fromkeys(arguments.jobs)]
    runs = {name_of(job): await values_of(job, folder) for job in found}
    for name, run in runs.items():
        if not run:
            print(f"note: TrainJob {name} has reported no values", file=sys.stderr)
    if arguments.tensorboard is None:
        as_csv(runs, sys.stdout)
        return 0
    for name, run in runs.items():
        if run:
            try:
                await asyncio.to_thread(to_tensorboard, run, arguments.tensorboard / name)
            except OSError as error:
                raise UserError(f"cannot write to {arguments.tensorboard / name}: {error.strerror}") from error
            print(f"{arguments.tensorboard / name}: {counted(len(run), 'point')}")
    print(f"look at them with: tensorboard --logdir {arguments.tensorboard}")
    return 0


def metrics_of(run: Iterable[Sample]) -> list[str]:
    names = {name for one in run for name in (*one.values, *one.not_finite)} - set(COUNTERS)
    return sorted(names, key=lambda name: (name != "loss", name))


def rows_of(run: Sequence[Sample]) -> list[dict[str, float | None]]:
    """A table with a row for each point: for pandas, CSV and notebooks. None: not told then; NaN: not finite."""
    names = metrics_of(run)
    return [
        {
            "attempt": one.attempt,
            "time": one.at,
            "step": one.step,
            "epoch": one.values.get(_EPOCH),
            **{name: float("nan") if name in one.not_finite else one.values.get(name) for name in names},
        }
        for one in run
    ]


def as_csv(runs: dict[str, list[Sample]], out: TextIO) -> None:
    columns = ["job", "attempt", "time", "step", "epoch", *metrics_of(one for run in runs.values() for one in run)]
    table = csv.DictWriter(out, columns, lineterminator="\n")
    table.writeheader()
    for name, run in runs.items():
        table.writerows({"job": name, **row} for row in rows_of(run))


def to_tensorboard(run: Sequence[Sample], folder: Path) -> None:
    """Write event files. Where a point stands for several, also the lowest and the highest value."""
    extras.require("tensorboard", "--tensorboard")
    # An extra, which has no types.
    from tensorboardX import SummaryWriter  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: PLC0415

    logging.getLogger("tensorboardX").setLevel(logging.ERROR)  # it warns of each NaN
    with SummaryWriter(str(folder)) as writer:
        for number, one in enumerate(run):
            step = int(one.step) if one.step is not None else number
            told = {name: value for name, value in one.values.items() if name not in COUNTERS}
            told |= {name: float("nan") for name in one.not_finite}
            told |= {f"{name}.low": value for name, value in one.lows.items()}
            told |= {f"{name}.high": value for name, value in one.highs.items()}
            for name, value in told.items():
                writer.add_scalar(name, value, step, walltime=one.at)
