# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a job between two reconciles, and that it is forgotten as a whole."""

from types import SimpleNamespace
from typing import Any

from trainwright.api.objects import Key
from trainwright.controller.runtime import Event
from trainwright.controller.runtime.cache.store import EventType, InformerStore
from trainwright.controller.trainer.controller import PATIENCE_SECONDS, JobMemory
from trainwright.controller.trainer.job.obstacles import Obstacle, Reason
from trainwright.controller.trainer.job.records import JobRecord, JobRecords

KEY, OTHER = Key("n", "a"), Key("n", "b")
MISSING = Obstacle(Reason.RUNTIME_MISSING, "m", RuntimeError(), final=True)
REFUSED = Obstacle(Reason.APPLY_REFUSED, "m", RuntimeError(), final=False)


def memory_of(records: JobRecords, key: Key, uid: str) -> JobMemory:
    return records.of(key, uid).part(JobMemory)


def blocked_by(records: JobRecords, reason: Reason) -> set[Key]:
    return records.keys(JobMemory, lambda memory: memory.has(reason))


def test_an_obstacle_waits_out_its_time_once() -> None:
    memory = JobMemory()
    assert memory.meet(MISSING, 100.0) == PATIENCE_SECONDS
    assert memory.meet(MISSING, 103.0) == PATIENCE_SECONDS - 3
    assert memory.meet(MISSING, 106.0) == 0


def test_another_cause_begins_its_own_time() -> None:
    memory = JobMemory()
    memory.meet(MISSING, 100.0)
    assert memory.meet(REFUSED, 100.0 + PATIENCE_SECONDS) == PATIENCE_SECONDS


def test_it_is_reported_once_per_cause() -> None:
    memory = JobMemory()
    assert not memory.reports()
    memory.meet(MISSING, 0.0)
    assert memory.reports()
    memory.meet(MISSING, 9.0)
    assert not memory.reports()
    memory.meet(REFUSED, 9.0)
    assert memory.reports()


def test_one_that_was_gone_begins_again() -> None:
    memory = JobMemory()
    memory.meet(MISSING, 100.0)
    memory.obstacle = None
    assert memory.meet(MISSING, 200.0) == PATIENCE_SECONDS


def test_jobs_are_found_by_their_obstacle_and_forgotten_whole() -> None:
    records = JobRecords()
    memory_of(records, KEY, "a1").meet(MISSING, 0.0)
    memory_of(records, OTHER, "b1").meet(REFUSED, 0.0)
    assert blocked_by(records, Reason.RUNTIME_MISSING) == {KEY}
    assert blocked_by(records, Reason.BUILD_FAILED) == set()
    records.gone(records.of(KEY, "a1"))
    assert blocked_by(records, Reason.RUNTIME_MISSING) == set()
    assert len(records) == 1
    assert memory_of(records, KEY, "a1").obstacle is None


def test_a_job_that_is_made_anew_under_its_name_has_a_memory_of_its_own() -> None:
    records = JobRecords()
    first = memory_of(records, KEY, "a1")
    first.meet(MISSING, 0.0)
    assert first.reports()
    assert memory_of(records, KEY, "a1") is first
    # Nobody saw that it was gone: both events came before the key was taken.
    second = memory_of(records, KEY, "a2")
    assert blocked_by(records, Reason.RUNTIME_MISSING) == set()
    assert second.meet(MISSING, 9.0) == PATIENCE_SECONDS
    assert second.reports()
    assert len(records) == 1


def shown(uid: str) -> dict[str, object]:
    return {"metadata": {"name": KEY.name, "namespace": KEY.namespace, "uid": uid}}


def test_all_parts_of_a_job_that_is_gone_go_at_once() -> None:
    records, gone, changed = JobRecords(), list[JobRecord](), list[bool]()
    # Who acts on a change finds the new record; who acts on an end finds the parts.
    records.follow(lambda _: changed.append(records.find(KEY, "a1", SimpleNamespace) is None), gone.append)
    first = records.of(KEY, "a1")
    first.keep(SimpleNamespace())
    first.part(JobMemory)
    records.handle(Event(EventType.MODIFIED, KEY, shown("a1"), shown("a1")))
    assert (gone, changed) == ([], [False])
    records.handle(Event(EventType.MODIFIED, KEY, shown("a1"), shown("a2")))
    assert (gone, changed) == ([first], [False, True])
    assert first.get(JobMemory) is not None
    assert records.find(KEY, "a1", JobMemory) is None
    records.of(KEY, "a2").part(JobMemory)
    records.handle(Event(EventType.DELETED, KEY, shown("a2"), None))
    assert [one.uid for one in gone] == ["a1", "a2"]
    assert len(records) == 0


def test_the_end_of_a_job_that_was_made_again_leaves_the_new_record() -> None:
    records = JobRecords()
    first = records.of(KEY, "a1")
    second = records.of(KEY, "a2")
    second.part(JobMemory)
    records.gone(first)
    assert records.of(KEY, "a2") is second


def test_a_record_whose_last_part_is_dropped_takes_no_memory() -> None:
    records = JobRecords()
    records.of(KEY, "a1").part(JobMemory)
    records.drop(OTHER, JobMemory)
    records.drop(KEY, JobMemory)
    assert len(records) == 0


def test_a_worker_whose_job_went_meanwhile_leaves_no_record_and_takes_none() -> None:
    records, store = JobRecords(), InformerStore()
    informer: Any = SimpleNamespace(store=store, add_handler=lambda *_, **__: None)
    cache: Any = SimpleNamespace(informer=lambda _: informer)
    records.watch(cache)
    store.put(shown("a1"), KEY)
    kept = records.of(KEY, "a1")
    assert records.of(KEY, "a1") is kept
    store.put(shown("a2"), KEY)
    records.handle(Event(EventType.MODIFIED, KEY, shown("a1"), shown("a2")))
    new = records.of(KEY, "a2")
    # It goes on with the job of before, after a request that took long.
    records.of(KEY, "a1").part(JobMemory).meet(MISSING, 0.0)
    assert records.of(KEY, "a2") is new
    assert blocked_by(records, Reason.RUNTIME_MISSING) == set()
    store.remove(KEY, None, "9")
    records.handle(Event(EventType.DELETED, KEY, shown("a2"), None))
    records.of(KEY, "a2").part(JobMemory)
    assert len(records) == 0
    # One that cannot be decoded is there.
    store.put_undecodable(KEY, shown("a3"))
    assert records.of(KEY, "a3") is records.of(KEY, "a3")


def test_a_job_that_the_cache_does_not_show_yet_has_one_record_for_whoever_has_read_it() -> None:
    records = JobRecords()
    informer: Any = SimpleNamespace(store=InformerStore(), add_handler=lambda *_, **__: None)
    cache: Any = SimpleNamespace(informer=lambda _: informer)
    records.watch(cache)
    read = records.of(KEY, "a1", may_be_new=True)
    assert records.of(KEY, "a1", may_be_new=True) is read
    records.handle(Event(EventType.ADDED, KEY, None, shown("a1")))
    assert records.of(KEY, "a1") is read
