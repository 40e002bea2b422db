# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a job between two reconciles, and that it is forgotten as a whole."""

from trainwright.api.objects import Key
from trainwright.controller.trainer.job.memory import JobMemory, Memories
from trainwright.controller.trainer.job.obstacles import PATIENCE_SECONDS, Obstacle, Reason

KEY, OTHER = Key("n", "a"), Key("n", "b")
MISSING = Obstacle(Reason.RUNTIME_MISSING, "m", RuntimeError(), final=True)
REFUSED = Obstacle(Reason.APPLY_REFUSED, "m", RuntimeError(), final=False)


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
    memory.hindrance = None
    assert memory.meet(MISSING, 200.0) == PATIENCE_SECONDS


def test_jobs_are_found_by_their_obstacle_and_forgotten_whole() -> None:
    memories = Memories(lambda: 0.0)
    memories.of(KEY, "a1").meet(MISSING, 0.0)
    memories.of(OTHER, "b1").meet(REFUSED, 0.0)
    assert memories.hindered_by(Reason.RUNTIME_MISSING) == {KEY}
    assert memories.hindered_by(Reason.BUILD_FAILED) == set()
    memories.forget(KEY)
    assert memories.hindered_by(Reason.RUNTIME_MISSING) == set()
    assert len(memories) == 1
    assert memories.of(KEY, "a1").hindrance is None


def test_a_job_that_is_made_anew_under_its_name_has_a_memory_of_its_own() -> None:
    memories = Memories(lambda: 0.0)
    first = memories.of(KEY, "a1")
    first.meet(MISSING, 0.0)
    assert first.reports()
    assert memories.of(KEY, "a1") is first
    # Nobody saw that it was gone: both events came before the key was taken.
    second = memories.of(KEY, "a2")
    assert memories.hindered_by(Reason.RUNTIME_MISSING) == set()
    assert second.meet(MISSING, 9.0) == PATIENCE_SECONDS
    assert second.reports()
    assert len(memories) == 1
