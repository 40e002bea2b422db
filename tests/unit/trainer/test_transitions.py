# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""Plugins are told of changes of states, and nothing that they do holds anything else up."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Event, Key
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.job.events import HANGING, QUEUE, PluginTransitions
from trainwright.controller.trainer.job.records import JobRecords, JobStates
from trainwright.plugins.contract import JobState
from trainwright.plugins.contract.errors import RegistryError
from trainwright.plugins.registry import Registry
from trainwright.plugins.testing import in_state, train_job, transition

PENDING, RUNNING, COMPLETE = JobState.PENDING, JobState.RUNNING, JobState.COMPLETE


class Follower:
    """Keeps what it is told."""

    def __init__(self, name: str = "Follower", during: Callable[[str], None] = lambda _: None) -> None:
        self.name = name
        self._during = during
        self._told: list[tuple[str, str, str]] = []

    def on_transition(self, job: TrainJob, old: JobState, new: JobState) -> None:
        self._during(job.name)
        self._told.append((job.name, old, new))


class World:
    """Jobs that change their states, and plugins that follow."""

    def __init__(self, *plugins: Follower, limit: float) -> None:
        self.registry, self.leads = CollectorRegistry(), True
        entries = Registry.of(*plugins).having("on_transition")
        self.transitions = PluginTransitions(entries, self.registry, leads=lambda: self.leads, limit=limit)
        self.records = JobRecords()
        self.states = JobStates(self.records)
        self.states.listen(self.transitions)

    def show(self, state: JobState, name: str = "a", **more: Any) -> TrainJob:
        job = in_state(train_job(metadata={"name": name, "uid": name}), state, **more)
        self.records.handle(Event(EventType.MODIFIED, Key("team", name), None, job))
        return job

    def delete(self, name: str = "a") -> None:
        self.records.handle(Event(EventType.DELETED, Key("team", name), train_job(metadata={"name": name}), None))

    def count(self, result: str, plugin: str = "Follower") -> float:
        labels = {"plugin": plugin, "result": result}
        return self.registry.get_sample_value("trainer_plugin_transitions_total", labels) or 0


@asynccontextmanager
async def world(*plugins: Follower, limit: float = 60.0) -> AsyncIterator[World]:
    made = World(*plugins, limit=limit)
    task = asyncio.ensure_future(made.transitions.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_changes_are_told_in_their_order_and_nothing_else_is() -> None:
    follower = Follower()
    async with world(follower) as w:
        w.show(PENDING)  # the first sight is no change
        w.show(RUNNING)
        w.show(JobState.BLOCKED, reason="RuntimeMissing")
        w.show(JobState.BLOCKED, reason="BuildFailed")  # another reason is no other state
        w.show(COMPLETE)
        w.delete()
        await eventually(lambda: w.count("ok"), equals(3.0))
    assert follower._told == [("a", PENDING, RUNNING), ("a", RUNNING, "Blocked"), ("a", "Blocked", COMPLETE)]


async def test_a_replica_that_does_not_lead_tells_nothing() -> None:
    follower = Follower()
    async with world(follower) as w:
        w.show(PENDING)
        w.leads = False
        w.show(RUNNING)
        w.leads = True
        w.show(COMPLETE)
        await eventually(lambda: w.count("ok"), equals(1.0))
    assert follower._told == [("a", RUNNING, COMPLETE)]


async def test_a_plugin_gets_a_copy() -> None:
    class Spoiler(Follower):
        def on_transition(self, job: TrainJob, old: JobState, new: JobState) -> None:
            job.status = None

    async with world(Spoiler()) as w:
        w.show(PENDING)
        job = w.show(RUNNING)
        await eventually(lambda: w.count("ok"), equals(1.0))
        assert job.status is not None


async def test_an_error_is_counted_and_logged_with_its_place_once(caplog: pytest.LogCaptureFixture) -> None:
    def fail(name: str) -> None:
        if name == "exits":
            raise SystemExit(3)
        raise OSError(f"{name}: the server is away")

    other = Follower("Other")
    async with world(Follower(during=fail), other) as w:
        with caplog.at_level(logging.WARNING):
            for name in ("one", "two", "exits"):
                w.show(PENDING, name)
                w.show(RUNNING, name)
            await eventually(lambda: w.count("failed"), equals(3.0))
            await eventually(lambda: w.count("ok", "Other"), equals(3.0))
    first, second, third = caplog.records
    assert (
        "plugin Follower: on_transition of TrainJob team/one from Pending to Running failed: OSError" in first.message
    )
    assert (first.exc_info is not None, second.exc_info) == (True, None)
    assert "SystemExit" in third.message
    assert [name for name, _, _ in other._told] == ["one", "two", "exits"]


async def test_one_that_hangs_holds_up_neither_the_listener_nor_the_next_calls() -> None:
    free = threading.Event()

    def hang(name: str) -> None:
        if name == "stuck":
            free.wait()

    stuck, other = Follower(during=hang), Follower("Other")
    try:
        # A call that does not hang has to begin and end within it, in a new thread.
        async with world(stuck, other, limit=2.0) as w:
            for name in ("stuck", "fine"):
                w.show(PENDING, name)
                w.show(RUNNING, name)
            await eventually(lambda: w.count("ok"), equals(1.0))
            assert w.count("timeout") == 1
            assert [name for name, _, _ in stuck._told] == ["fine"]
            await eventually(lambda: w.count("ok", "Other"), equals(2.0))
            free.set()
            await eventually(lambda: len(stuck._told), equals(2))
    finally:
        free.set()


async def test_too_many_that_hang_end_the_calls_until_one_returns(caplog: pytest.LogCaptureFixture) -> None:
    free = threading.Semaphore(0)

    def hang(_: str) -> None:
        free.acquire()

    stuck = Follower(during=hang)
    try:
        async with world(stuck, limit=0.02) as w:
            for number in range(HANGING + 2):
                w.show(PENDING, f"job-{number}")
                w.show(RUNNING, f"job-{number}")
            await eventually(lambda: w.count("timeout"), equals(float(HANGING)))
            assert "gets no further call until one returns" in caplog.messages[-1]
            (follower,) = w.transitions._followers
            assert (len(follower.queue), follower.hanging) == (2, HANGING)
            free.release()
            await eventually(lambda: w.count("timeout"), equals(HANGING + 1.0))
            assert len(follower.queue) == 1
    finally:
        free.release(100)
    assert w.count("dropped") == 1


async def test_the_oldest_are_dropped_when_there_are_too_many(caplog: pytest.LogCaptureFixture) -> None:
    w = World(Follower(), limit=1.0)
    for number in range(QUEUE + 10):
        w.show(PENDING, f"job-{number}")
        w.show(RUNNING, f"job-{number}")
    assert w.count("dropped") == 10
    (follower,) = w.transitions._followers
    assert (len(follower.queue), follower.queue[0][0].name) == (QUEUE, "job-10")
    assert len(caplog.messages) == 1


def test_the_kit_tells_a_plugin_and_checks_the_contract() -> None:
    follower = Follower()
    job = transition(follower, RUNNING, JobState.FAILED, reason="DeadlineExceeded")
    assert follower._told == [("job", RUNNING, "Failed")]
    assert job.status is not None
    (condition,) = job.status.conditions or []
    assert (condition.type, condition.reason) == ("Failed", "DeadlineExceeded")

    class Wrong:
        name = "Wrong"

        def on_transition(self, job: TrainJob, state: JobState) -> None:
            raise AssertionError

    with pytest.raises(RegistryError, match=r"expected some of \(job, old, new\), found \(job, state\)"):
        transition(Wrong(), PENDING, RUNNING)
