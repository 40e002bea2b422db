# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress`: shows how far TrainJobs are, once or live.

It reads `status.trainerStatus` with the rights of the user, so it works without a manager of ours and with
installations of Kubeflow Trainer. Curves hold what was seen since the command was started; those of one job begin
earlier if a manager of ours keeps histories.
"""

import argparse
import asyncio
import json
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.controller.cli.access import reading, run_reading
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.runtime import configure_logging
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.views import text
from trainwright.controller.views.job import JobViews, as_json, sorted_views
from trainwright.controller.views.watch import Subscriber, WatchedJobs
from trainwright.plugins.contract import JobState

REDRAW_SECONDS = 0.25
"""Shortest time between two drawings."""
AGE_SECONDS = 1.0
"""Longest time between two drawings that show the time that passes."""
INSTALL = "for a live table, install rich: pip install rich"


def picture_of(watched: WatchedJobs, news: Subscriber) -> JobViews:
    """What there is now, with the changes since the picture before."""
    now, error = watched.now(), watched.informer.last_error
    is_all, news.everything = news.everything, False
    changed, deleted = news.take()
    views = sorted_views(watched.views())
    return JobViews(
        views=views,
        now=now,
        changed={Key(view.namespace, view.name) for view in views} if is_all else changed,
        deleted=deleted,
        trouble=f"shown as of an earlier time: {error}" if error is not None else "",
        stopped=watched.stopped,
    )


class Display(Protocol):
    ages: bool
    """Whether it shows the time that passes, and so is drawn again without a change."""

    def begin(self) -> AbstractContextManager[Any]:
        """Begin to watch; leaving it ends it."""
        return nullcontext()

    def once(self, picture: JobViews) -> None: ...

    def show(self, picture: JobViews) -> None: ...


@dataclass(slots=True)
class PlainDisplay(Display):
    """A table or the details once; while watching, one line for each change."""

    namespaces: bool
    one: bool
    ages: bool = False
    _trouble: str = ""

    def once(self, picture: JobViews) -> None:
        if not picture.views:
            print("no TrainJobs")
        elif self.one:
            print(*text.detail_lines(picture.views[0], picture.now), sep="\n")
        else:
            lines = text.table(picture.views, namespaces=self.namespaces)
            print(*lines, *text.searches(picture), sep="\n")

    def show(self, picture: JobViews) -> None:
        moment = format_time(picture.now)
        for view in picture.views:
            if Key(view.namespace, view.name) in picture.changed:
                print(f"{moment} {text.line(view, namespace=self.namespaces)}")
        for key in picture.deleted:
            name = f"{key.namespace}/{key.name}" if self.namespaces else key.name
            print(f"{moment} {name}: deleted")
        if picture.trouble != self._trouble:
            self._trouble = picture.trouble
            print(f"{moment} {text.printable(picture.trouble) or 'the API server answers again'}", file=sys.stderr)
        sys.stdout.flush()


@dataclass(slots=True)
class JSONDisplay(Display):
    """One document; while watching, one line of JSON for each change."""

    one: bool
    ages: bool = False

    def once(self, picture: JobViews) -> None:
        found = [as_json(view) for view in picture.views]
        print(json.dumps(found[0] if self.one else {"jobs": found}))

    def show(self, picture: JobViews) -> None:
        for view in picture.views:
            if Key(view.namespace, view.name) in picture.changed:
                print(json.dumps(as_json(view)))
        for key in picture.deleted:
            print(json.dumps({"namespace": key.namespace, "name": key.name, "deleted": True}))
        sys.stdout.flush()


def output_for(form: str, *, watch: bool, one: bool, namespaces: bool) -> Display:
    """The output for the format that is asked for. Without rich, a terminal gets plain text, and a hint."""
    if form == "json":
        return JSONDisplay(one=one)
    with suppress(ImportError):
        from trainwright.controller.cli.progress.screen import TerminalDisplay, is_steerable  # noqa: PLC0415 - optional

        if is_steerable():
            return TerminalDisplay(namespaces=namespaces, one=one)
    if watch and sys.stdout.isatty():
        print(INSTALL, file=sys.stderr)
    return PlainDisplay(namespaces=namespaces, one=one)


def run(arguments: argparse.Namespace) -> int:
    if arguments.job and arguments.all_namespaces:
        raise WrongUseError("JOB is in one namespace; use -n instead of -A")
    if arguments.watch:
        configure_logging("ERROR")  # what is shown says what is wrong; a line for each attempt would hide it
    return run_reading(_progress, arguments)


async def _progress(arguments: argparse.Namespace) -> int:
    job = arguments.job
    output = output_for(arguments.output, watch=arguments.watch, one=bool(job), namespaces=arguments.all_namespaces)
    async with reading(arguments, "trainwright-progress") as client:
        namespace, job = "" if arguments.all_namespaces else arguments.namespace, arguments.job or ""
        watched = WatchedJobs(client, namespace, job)
        news = watched.subscribe()
        # Whatever is wrong with the cluster or with rights shows here; a watch would only try again.
        await watched.read()
        if job and (why := (await watched.record(Key(namespace, job))).unread):
            print(f"note: earlier reports are not shown: {why}", file=sys.stderr)
        if arguments.watch:
            return await follow(watched, news, output, one=bool(job))
        await watched.read_ends()
        await watched.read_searches()
        picture = picture_of(watched, news)
        output.once(picture)
        return _exit_code(picture) if job else 0


async def follow(watched: WatchedJobs, news: Subscriber, output: Display, *, one: bool) -> int:
    """Show each change; returns at the end of the job if there is `one`."""
    async with TaskScope("progress") as tasks:
        tasks.start("watch", watched.run())
        with output.begin():
            while True:
                await watched.read_ends()
                if news.changed or news.everything:
                    await watched.read_searches()
                picture = picture_of(watched, news)
                output.show(picture)
                if one and all(view.is_over for view in picture.views):
                    return _exit_code(picture)
                await asyncio.sleep(REDRAW_SECONDS)
                await news.woken(AGE_SECONDS - REDRAW_SECONDS if output.ages else None)


def _exit_code(picture: JobViews) -> int:
    """1 if the job has failed or is gone."""
    return 1 if not picture.views or picture.views[0].state is JobState.FAILED else 0
