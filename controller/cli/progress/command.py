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
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import AnyObject, Key, controller_of, key_of, resource_version_of, uid_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.access import reading, run_reading
from trainwright.controller.cli.commands import WrongUseError
from trainwright.controller.runtime import Client, Event, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.job.pods import attempts_begun
from trainwright.controller.views import text
from trainwright.controller.views.ended import Ended
from trainwright.controller.views.job import History, JobView, JobViews, as_json, observe, sorted_views, view_of
from trainwright.controller.views.reports import recorded
from trainwright.plugins.contract import JobState

REDRAW_SECONDS = 0.25
"""Shortest time between two drawings."""
AGE_SECONDS = 1.0
"""Longest time between two drawings that show the time that passes."""
INSTALL = "for a live table, install rich: pip install rich"


class JobWatch:
    def __init__(
        self, client: Client, namespace: str, name: str = "", *, now: Callable[[], datetime] = wall_clock
    ) -> None:
        """`namespace` empty: all. `name` empty: all jobs."""
        self._client = client
        self._namespace, self._name = namespace, name
        self._now = now
        self._jobs: dict[Key, TrainJob] = {}
        self._histories: dict[str, History] = {}
        self._attempts: dict[str, int] = {}
        """How many attempts have begun, by uid of the job, as far as JobSets may be read."""
        self._attempts_wanted = True
        self._ended = Ended(client, now=now)
        self.unread = ""
        """Why reports from before the start are missing; empty: none are known to be."""
        self._changed: set[Key] = set()
        self._deleted: set[Key] = set()
        self._wake = asyncio.Event()
        cache = Cache(client, namespace=namespace)
        selector = f"metadata.name={name}" if name else ""
        self._informer = cache.informer(TrainJob, field_selector=selector)
        self._informer.add_handler(self._take)
        self._cache = cache

    async def read(self) -> None:
        """Read all of it once. Raises KubernetesError; NotFound for a job that does not exist."""
        if self._name:
            jobs = [await self._client.get(TrainJob, self._name, self._namespace)]
        else:
            jobs = list((await self._client.list(TrainJob, self._namespace)).items)
        for job in jobs:
            self._put(job)
        if self._name:
            await self._read_history(jobs[0])
        await self.read_more()

    async def _read_history(self, job: TrainJob) -> None:
        """For one job: the reports that a manager recorded before this command began, if the user may read them."""
        ring, why = await recorded(self._client, job)
        if ring is not None:
            self._history(job).begin_with(ring)
        self.unread = f"earlier reports are not shown: {why}" if why else ""

    async def run(self) -> None:
        async with TaskScope("progress/watch") as tasks:
            watching = tasks.start("progress/cache", self._cache.run())
            await self._informer.wait_synced()
            # The watch tells nothing of a job that was deleted after it was read and before the watch began.
            for key, job in list(self._jobs.items()):
                if not self._informer.store.holds(key):
                    self._drop(key, uid_of(job))
            await watching

    async def read_more(self) -> None:
        """What the jobs do not tell by themselves: why some failed, and which attempt they make."""
        await self._ended.read(self._jobs.values())
        await self._read_attempts()

    async def _read_attempts(self) -> None:
        """How often JobSets were restarted, if the user may read that."""
        if not self._attempts_wanted:
            return
        self._attempts_wanted = False
        # What is not known is not shown.
        with suppress(NotFound, Forbidden):
            if self._name:
                found = [await self._client.get(JobSet, self._name, self._namespace)]
            else:
                found = list((await self._client.list(JobSet, self._namespace)).items)
            owners = [(controller_of(one), one) for one in found]
            self._attempts = {owner.uid: attempts_begun(one) for owner, one in owners if owner is not None}

    async def wait(self, seconds: float | None) -> None:
        """Until something has changed, or so many seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def picture(self) -> JobViews:
        """What there is now. The next picture tells the changes since this one."""
        now = self._now()
        changed, self._changed = self._changed, set()
        deleted, self._deleted = self._deleted, set()
        self._wake.clear()
        return JobViews(views=self._views(now), now=now, changed=changed, deleted=deleted, trouble=self._trouble())

    @property
    def is_over(self) -> bool:
        return bool(self._name) and all(view.is_over for view in self._views(self._now()))

    @property
    def exit_code(self) -> int:
        """1 if one job was followed and has failed or is gone."""
        if not self._name:
            return 0
        views = self._views(self._now())
        return 1 if not views or views[0].state is JobState.FAILED else 0

    def _views(self, now: datetime) -> list[JobView]:
        return sorted_views(
            [
                view_of(
                    job,
                    self._history(job),
                    now,
                    attempt=self._ended.attempts(job) or self._attempts.get(uid_of(job)),
                    failure=self._ended.sentence(job),
                )
                for job in self._jobs.values()
            ]
        )

    def _history(self, job: TrainJob) -> History:
        return self._histories.setdefault(uid_of(job), History())

    def _put(self, job: TrainJob) -> None:
        key = key_of(job)
        observe(job, self._history(job))
        self._jobs[key] = job
        self._changed.add(key)
        self._deleted.discard(key)

    def _take(self, event: Event[AnyObject]) -> None:
        job = event.obj
        assert isinstance(job, TrainJob)
        if event.type is EventType.DELETED:
            self._drop(event.key, uid_of(job))
        else:
            held = self._jobs.get(event.key)
            if held is not None and resource_version_of(held) == resource_version_of(job):
                return  # the first list of the watch tells again what was read before
            self._put(job)
            self._attempts_wanted = self._attempts_wanted or _may_have_restarted(held, job)
            self._wake.set()

    def _drop(self, key: Key, uid: str) -> None:
        self._jobs.pop(key, None)
        self._histories.pop(uid, None)
        self._ended.forget(uid)
        self._changed.discard(key)
        self._deleted.add(key)
        self._wake.set()

    def _trouble(self) -> str:
        error: KubernetesError | None = self._informer.last_error
        return f"shown as of an earlier time: {error}" if error is not None else ""


def _may_have_restarted(before: TrainJob | None, job: TrainJob) -> bool:
    """Whether more than the report has changed: lists of JobSets are not read for each report of one of many jobs."""
    if before is None:
        return True
    old, new = before.status_or_empty, job.status_or_empty
    return (old.jobs_status, old.conditions) != (new.jobs_status, new.conditions)


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
            print(*lines, *text.searches(picture.views), sep="\n")

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
    return run_reading(_progress, arguments)


async def _progress(arguments: argparse.Namespace) -> int:
    output = output_for(
        arguments.output, watch=arguments.watch, one=bool(arguments.job), namespaces=arguments.all_namespaces
    )
    async with reading(arguments, "trainwright-progress") as client:
        watch = JobWatch(client, "" if arguments.all_namespaces else arguments.namespace, arguments.job or "")
        # Whatever is wrong with the cluster or with rights shows here; a watch would only try again.
        await watch.read()
        if watch.unread:
            print(f"note: {watch.unread}", file=sys.stderr)
        if not arguments.watch:
            output.once(watch.picture())
            return watch.exit_code
        return await _watch(watch, output)


async def _watch(watch: JobWatch, output: Display) -> int:
    async with TaskScope("progress") as tasks:
        tasks.start("watch", watch.run())
        with output.begin():
            while True:
                await watch.read_more()
                output.show(watch.picture())
                if watch.is_over:
                    return watch.exit_code
                await asyncio.sleep(REDRAW_SECONDS)
                await watch.wait(AGE_SECONDS - REDRAW_SECONDS if output.ages else None)
