# SPDX-License-Identifier: Apache-2.0
"""An obstacle is shown after it has lasted, counted per job and cause on an injected clock."""

import pytest

from trainwright.controller.runtime import Key
from trainwright.controller.runtime.errors import (
    Conflict,
    ConnectionLost,
    Forbidden,
    NotControlled,
    ServerError,
    Unreachable,
)
from trainwright.controller.trainer.obstacles import (
    MESSAGE_LIMIT,
    PATIENCE_SECONDS,
    Obstacle,
    Obstacles,
    Reason,
    obstacle_of,
    shortened,
)
from trainwright.controller.trainer.runtimes import RuntimeMissing, RuntimeUnsupported
from trainwright.controller.trainer.snapshot import SnapshotInvalid
from trainwright.plugins.contract import FactUnavailable, PluginFailure, Refusal

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


@pytest.mark.parametrize(
    ("error", "reason", "final"),
    [
        (RuntimeMissing("m"), Reason.RUNTIME_MISSING, True),
        (RuntimeUnsupported("m"), Reason.BUILD_FAILED, True),
        (Refusal("m"), Reason.BUILD_FAILED, True),
        (PluginFailure("m"), Reason.BUILD_FAILED, True),
        (FactUnavailable("m"), Reason.BUILD_FAILED, False),
        (SnapshotInvalid("m"), Reason.SNAPSHOT_INVALID, False),
        (NotControlled("m"), Reason.APPLY_REFUSED, False),
        (Forbidden("m", code=403), Reason.APPLY_REFUSED, False),
        (ServerError("m", code=500), Reason.APPLY_REFUSED, False),
    ],
)
def test_what_is_shown_of_an_error(error: Exception, reason: Reason, final: bool) -> None:
    obstacle = obstacle_of(error)
    assert obstacle is not None
    assert (obstacle.reason, obstacle.message, obstacle.final, obstacle.defect) == (reason, "m", final, False)


@pytest.mark.parametrize("error", [Conflict("m", code=409), Unreachable("m"), ConnectionLost("m")])
def test_what_is_not_shown(error: Exception) -> None:
    assert obstacle_of(error) is None


def test_an_error_that_nobody_foresaw_is_shown_and_logged_with_its_traceback() -> None:
    obstacle = obstacle_of(KeyError("x"))
    assert obstacle is not None
    assert (obstacle.reason, obstacle.defect) == (Reason.BUILD_FAILED, True)
    assert obstacle.message == "the manager failed at this job (KeyError: 'x'): see its log"


def test_a_long_message_keeps_what_it_is_about_and_what_is_wrong() -> None:
    assert shortened("a" * MESSAGE_LIMIT) == "a" * MESSAGE_LIMIT
    message = shortened(f'JobSet "a" is invalid: spec: Invalid value: {"x" * 1000}: field is immutable')
    assert len(message) == MESSAGE_LIMIT
    assert message.startswith('JobSet "a" is invalid')
    assert message.endswith("x: field is immutable")


@pytest.mark.parametrize(
    ("request_line", "told"),
    [
        ("patch /apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/job?force=true", "jobsets/job: denied"),
        ("post /api/v1/namespaces/ns/secrets", "secrets: denied"),
        ("get /apis/g/v1/things/a", "get /apis/g/v1/things/a: denied"),
        ("", "denied"),
    ],
)
def test_an_answer_names_the_object_and_not_the_request(request_line: str, told: str) -> None:
    obstacle = obstacle_of(Forbidden("denied", code=403, request=request_line))
    assert obstacle is not None
    assert obstacle.message == told
