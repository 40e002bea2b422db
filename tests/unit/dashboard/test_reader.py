# SPDX-License-Identifier: Apache-2.0
"""What is read for pages that go before it is read."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard.details import Details
from trainwright.controller.dashboard.reader import JobReader
from trainwright.controller.dashboard.watched import HeldJob, WatchedJobs
from trainwright.controller.runtime import Client
from trainwright.controller.trainer.progress.curve import Ring, document_of
from trainwright.controller.views.job import History

KEY = Key("team-a", "bert")


class World:
    """One job, and its record, which is read when the test says so."""

    def __init__(self) -> None:
        metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": "u"}
        self.job = msgspec.convert({"metadata": metadata, "spec": {"runtimeRef": {"name": "torch"}}}, TrainJob)
        self.is_held = HeldJob(self.job, History(), datetime(2026, 11, 22, 12, tzinfo=UTC))
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.looking = JobReader(cast("WatchedJobs", self), cast("Details", None), cast("Client", self))

    def held(self, key: Key) -> HeldJob:
        assert key == KEY
        return self.is_held

    async def get(self, *_: Any) -> ConfigMap:
        self.asked.set()
        await self.may_answer.wait()
        return msgspec.convert(document_of(self.job, Ring().encode()), ConfigMap)

    async def begin_with(self, key: Key, recorded: Ring) -> None:
        assert key == KEY
        assert recorded.samples() == []


async def test_a_page_that_goes_while_the_record_is_read_hides_it_from_no_other() -> None:
    world = World()
    reading = asyncio.create_task(world.looking.record(KEY))
    await world.asked.wait()
    assert not (await world.looking.record(KEY)).read
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    world.may_answer.set()
    assert (await world.looking.record(KEY)).read
