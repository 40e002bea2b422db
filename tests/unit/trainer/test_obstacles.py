# SPDX-License-Identifier: Apache-2.0
"""An obstacle is shown after it has lasted, counted per job and cause on an injected clock."""

from trainwright.controller.runtime import Key
from trainwright.controller.trainer.obstacles import PATIENCE_SECONDS, Obstacle, Obstacles, Reason

KEY, OTHER = Key("n", "a"), Key("n", "b")
MISSING = Obstacle(Reason.RUNTIME_MISSING, "m", RuntimeError(), final=True)
REFUSED = Obstacle(Reason.APPLY_REFUSED, "m", RuntimeError(), final=False)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_it_waits_out_its_time_once() -> None:
    clock = Clock()
    obstacles = Obstacles(clock)
    assert obstacles.met(KEY, MISSING) == PATIENCE_SECONDS
    clock.seconds += 3
    assert obstacles.met(KEY, MISSING) == PATIENCE_SECONDS - 3
    clock.seconds += 3
    assert obstacles.met(KEY, MISSING) == 0


def test_it_begins_once_per_cause() -> None:
    obstacles = Obstacles(Clock())
    assert obstacles.begins(KEY, MISSING)
    obstacles.met(KEY, MISSING)
    assert not obstacles.begins(KEY, MISSING)
    assert obstacles.begins(KEY, REFUSED)
    obstacles.gone(KEY)
    assert obstacles.begins(KEY, MISSING)


def test_another_cause_and_another_job_begin_anew() -> None:
    clock = Clock()
    obstacles = Obstacles(clock)
    obstacles.met(KEY, MISSING)
    clock.seconds += PATIENCE_SECONDS
    assert obstacles.met(OTHER, MISSING) == PATIENCE_SECONDS
    assert obstacles.met(KEY, REFUSED) == PATIENCE_SECONDS


def test_one_that_was_gone_begins_anew() -> None:
    clock = Clock()
    obstacles = Obstacles(clock)
    obstacles.met(KEY, MISSING)
    clock.seconds += PATIENCE_SECONDS
    obstacles.gone(KEY)
    assert obstacles.waiting(Reason.RUNTIME_MISSING) == set()
    assert obstacles.met(KEY, MISSING) == PATIENCE_SECONDS
    assert obstacles.waiting(Reason.RUNTIME_MISSING) == {KEY}
    assert obstacles.waiting(Reason.BUILD_FAILED) == set()
