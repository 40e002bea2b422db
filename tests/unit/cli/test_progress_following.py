# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress` while it follows jobs: how often it draws, and what it says where a right is missing."""

import asyncio
import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.unit.cli.test_cli_progress import job
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.progress import screen
from trainwright.controller.cli.progress.command import REDRAW_SECONDS, follow
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.errors import Forbidden
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.trainer.progress.ring import Ring, document_of
from trainwright.controller.views import text
from trainwright.controller.views.job import History, JobViews, view_of
from trainwright.controller.views.watch import WatchedJobs

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
KEY = Key("default", "bert")


class Busy(WatchedJobs):
    """A cluster in which something changes all the time, for ten seconds."""

    async def run(self) -> None:
        end = asyncio.get_running_loop().time() + 10
        while asyncio.get_running_loop().time() < end:
            self._put(KEY, job(progressPercentage=40))
            await asyncio.sleep(0.01)
        self._put(KEY, job(state="Complete", progressPercentage=100))
        await asyncio.Event().wait()


class Drawn:
    """When something was drawn."""

    ages = True

    def __init__(self) -> None:
        self.times: list[float] = []

    def begin(self) -> AbstractContextManager[None]:
        @contextmanager
        def nothing() -> Iterator[None]:
            yield

        return nothing()

    def once(self, picture: JobViews) -> None:
        raise AssertionError(picture)

    def show(self, picture: JobViews) -> None:
        assert picture.now == NOW
        self.times.append(asyncio.get_running_loop().time())


@jumping
async def test_it_draws_at_most_four_times_a_second() -> None:
    drawn, watched = Drawn(), Busy(cast("Client", Cluster(AssertionError())), "default", "bert", now=lambda: NOW)
    watched._put(KEY, job(progressPercentage=40))
    assert await follow(watched, watched.subscribe(), drawn, one=True) == 0
    assert len(drawn.times) > 30
    assert min(later - earlier for earlier, later in pairwise(drawn.times)) >= REDRAW_SECONDS * 0.999
    assert REDRAW_SECONDS >= 0.25


class Cluster:
    """One TrainJob, and what a read of another kind raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def get(self, kind: Any, name: str, namespace: str) -> TrainJob:
        assert (name, namespace) == ("bert", "default")
        if kind is TrainJob:
            return job(progressPercentage=40)
        raise self.error


class ClusterWithMaps(Cluster):
    """With ConfigMaps of other names."""

    async def get(self, kind: Any, name: str, namespace: str) -> TrainJob:
        if kind is ConfigMap:
            assert name == "bert-progress"
            raise self.error
        if kind is not TrainJob:
            raise NotFound("no", code=404, reason="NotFound")
        return await super().get(kind, name, namespace)


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (NotFound("no", code=404, reason="NotFound"), ""),
        (
            Forbidden("you may not", code=403, reason="Forbidden"),
            "no right to get configmaps in namespace default",
        ),
    ],
)
async def test_without_the_right_to_read_the_history_it_says_so_and_shows_the_job(error: Exception, note: str) -> None:
    """Scenario 74 of progress."""
    watched = WatchedJobs(cast("Client", ClusterWithMaps(error)), "default", "bert", now=lambda: NOW)
    await watched.read()
    assert (await watched.record(KEY)).unread == note
    (view,) = watched.views()
    assert (view.percentage, view.attempt) == (40, None)


async def test_a_job_that_is_made_again_begins_a_history_of_its_own() -> None:
    watched = WatchedJobs(cast("Client", Cluster(AssertionError())), "default", now=lambda: NOW)
    loss = {"loss": "0.5"}
    whole = msgspec.to_builtins(job(progressPercentage=1, metrics={"loss": "9"}))
    whole["metadata"]["uid"] = "another"
    for one in (
        job(ago=60, progressPercentage=10, metrics=loss),
        job(ago=30, progressPercentage=20, metrics=loss),
        msgspec.convert(whole, TrainJob),
    ):
        watched._put(KEY, one)
    (view,) = watched.views()
    assert view.history.curve("loss") == [9.0]


async def test_a_reader_that_goes_while_the_record_is_read_hides_it_from_no_other() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    class Slow(ClusterWithMaps):
        async def get(self, kind: Any, name: str, namespace: str) -> Any:
            if kind is not ConfigMap:
                return await super().get(kind, name, namespace)
            asked.set()
            await may_answer.wait()
            return msgspec.convert(document_of(job(progressPercentage=40), Ring().encode()), ConfigMap)

    watched = WatchedJobs(cast("Client", Slow(AssertionError())), "default", "bert", now=lambda: NOW)
    await watched.read()
    reading = asyncio.create_task(watched.record(KEY))
    await asked.wait()
    assert not (await watched.record(KEY)).read
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    may_answer.set()
    assert (await watched.record(KEY)).read


def test_values_that_are_no_numbers_are_shown_as_they_are() -> None:
    metrics = {"loss": "NaN", "grad": "-Infinity", "損失": "0.25", "stage": "warm" * 16, "big": "1e400"}
    view = view_of(job(metrics=metrics), History(), NOW)
    shown = dict(text.details(view, NOW))
    assert (shown["loss"], shown["grad"], shown["損失"], shown["big"]) == ("nan", "-inf", "0.25", "inf")
    assert view.history.samples() == []


def test_names_of_double_width_keep_the_columns_straight() -> None:
    lines = text.detail_lines(
        view_of(job(metrics={"損失": "1", "accuracy": "2", "e\u0301tat": "1"}), History(), NOW), NOW
    )[1:]
    places = {cell_len(line[: line.rindex("  ")]) for line in lines if line.endswith(("  1", "  2"))}
    assert len(places) == 1, lines
    target = Console(file=io.StringIO(), width=80, height=20)
    target.print(screen.one_job(view_of(job(metrics={"損失" * 6: "1"}), History(), NOW), target, NOW))
    assert isinstance(target.file, io.StringIO)
    assert "損失" * 6 in target.file.getvalue()
