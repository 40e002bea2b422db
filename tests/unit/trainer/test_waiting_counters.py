# SPDX-License-Identifier: Apache-2.0
"""Which events of a JobSet may wait for company: those that change its counters and nothing else."""

import asyncio
from typing import Any

import pytest

from tests import builders
from tests.builders import condition, counts
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import AnyObject, Document, Key
from trainwright.controller.runtime import Client, Event
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.store import EventType
from trainwright.controller.runtime.controller.sources import KindSource
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport
from trainwright.controller.runtime.workqueue.queue import QueueItem, WorkQueue
from trainwright.controller.trainer.build.kinds import COUNTERS_SECONDS, waiting

COUNTERS = ("replicated_jobs_status",)


def jobset(version: str, *, status: Document | None = None, generation: int = 1, **meta: Any) -> JobSet:
    return builders.jobset(
        uid=meta.pop("uid", "u"), version=version, meta={"generation": generation, **meta}, status=status
    )


ONE: Document = {"restarts": 0, "replicatedJobsStatus": [counts(active=1)]}
TWO: Document = {"restarts": 0, "replicatedJobsStatus": [counts(active=2)]}
ENDED: Document = {**TWO, "conditions": [condition("Completed")]}


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        (jobset("1"), jobset("2", status={"replicatedJobsStatus": [counts(active=1)]}), COUNTERS_SECONDS),
        (jobset("1"), jobset("2", status=ONE), COUNTERS_SECONDS),
        (jobset("1", status=ONE), jobset("2", status=TWO), COUNTERS_SECONDS),
        (jobset("1", status=ONE), jobset("2", status=TWO, managedFields=[{}]), COUNTERS_SECONDS),
        (jobset("1", status=ONE), jobset("2", status=ENDED), 0.0),
        (jobset("1", status=ONE), jobset("2", status={"restarts": 1, "replicatedJobsStatus": []}), 0.0),
        (jobset("1", status=ONE), jobset("2", status=TWO, generation=2), 0.0),
        (jobset("1", status=ONE), jobset("2", status=TWO, labels={"a": "b"}), 0.0),
        (jobset("1", status=ONE), jobset("2", status=TWO, deletionTimestamp="t"), 0.0),
        (jobset("1", status=ONE), jobset("2", status=TWO, uid="other"), 0.0),
        (jobset("1", status=ONE), jobset("2"), 0.0),
        (jobset("1", status=ONE, generation=0), jobset("2", status=TWO, generation=0), 0.0),
        (None, jobset("2", status=TWO), 0.0),
        (jobset("1", status=ONE), None, 0.0),
        ({"kind": "JobSet"}, jobset("2", status=TWO), 0.0),
    ],
)
def test_only_a_change_of_counters_waits(old: JobSet | None, new: JobSet | None, seconds: float) -> None:
    event: Event[AnyObject] = Event(EventType.MODIFIED, Key("n", "j"), old, new)
    assert waiting(COUNTERS)(event) == seconds
    assert waiting(COUNTERS, lambda _: True)(event) == 0.0


@jumping
async def test_waiting_counters_yield_while_the_queue_is_long() -> None:
    informer = Cache(Client(ScriptedTransport())).informer(JobSet)
    queue: WorkQueue[Key] = WorkQueue(fairness=0)
    KindSource(informer, lambda obj: [Key("n", obj.name)], "c", wait=waiting(COUNTERS)).attach(queue)
    events = (("counted", ONE, TWO), ("ended", ONE, ENDED))
    for name, before, after in events:
        old, new = jobset("1", status=before), jobset("2", status=after)
        for each in (old, new):
            assert each.metadata is not None
            each.metadata.name = name
        informer._notify(Event(EventType.MODIFIED, Key("n", name), old, new), "2")
    # What changed a condition is ready at once, counters after their wait.
    assert [item.key.name for item in await taken(queue)] == ["ended"]
    for n in range(20):
        queue.add(Key("n", f"new-{n}"))
    await asyncio.sleep(COUNTERS_SECONDS + 0.1)  # long delays end at tenths of a second
    names = [item.key.name for item in await taken(queue)]
    assert names == [*(f"new-{n}" for n in range(20)), "counted"]
    assert COUNTERS_SECONDS <= 2.0


async def taken(queue: WorkQueue[Key]) -> list[QueueItem[Key]]:
    """All keys that are ready, in the order in which workers get them."""
    found = []
    while len(queue):
        item = await queue.get()
        assert item is not None
        queue.done(item.key)
        found.append(item)
    return found
