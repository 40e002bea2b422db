# SPDX-License-Identifier: Apache-2.0
"""What follows from the end of an attempt: retries in a row, the same failure again, pauses."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.cases import cases
from trainwright.api.trainer.v1alpha1 import TrainerStatus
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_RETRIES
from trainwright.api.trainer.v1alpha1.recovery import Allowed, Declaration, declared
from trainwright.controller.trainer.recovery.causes import Attribution, FailureCause
from trainwright.controller.trainer.recovery.verdict import (
    LONGEST_PAUSE_IN_QUEUE,
    MOST_ATTEMPTS,
    Counts,
    EndedAttempt,
    Judgement,
    Position,
    Summary,
    count_from_jobset,
    judge,
    position_of,
    retries_left,
    summary_of,
    text_of,
)

CASES = cases(__file__)

WANTED = Declaration(mode="gang")
CODE, MEMORY, HANG = FailureCause.CODE, FailureCause.MEMORY, FailureCause.HANG
INFRASTRUCTURE, PREEMPTED, SUSPENDED = FailureCause.INFRASTRUCTURE, FailureCause.PREEMPTED, FailureCause.SUSPENDED


def ended(
    cause: FailureCause = CODE,
    step: float | None = None,
    percent: int | None = None,
    checkpoint: float | None = None,
    **more: Any,
) -> EndedAttempt:
    why = Attribution(cause, "rank 1 failed with exit code 1")
    return EndedAttempt(why=why, position=Position(step, percent, checkpoint=checkpoint), **more)


def lived(*attempts: EndedAttempt, wanted: Declaration = WANTED) -> list[Judgement]:
    """What followed from each attempt, up to the one that ended the job."""
    counts, outcomes = Counts(), []
    for one in attempts:
        outcome = judge(counts, one, wanted)
        counts = outcome.counts
        outcomes.append(outcome)
        if outcome.reason:
            break
    return outcomes


def test_failures_in_a_row_use_up_the_retries() -> None:
    """Scenario 7: four attempts with three retries, text T2."""
    found = lived(*[ended()] * 9)
    assert len(found) == 4
    assert [one.paid for one in found[:3]] == [f"{n} of 3 retries used" for n in (1, 2, 3)]
    assert (found[-1].reason, found[-1].message) == (
        "RestartsExhausted",
        (
            "the job failed after 4 attempts without progress; the last: rank 1 failed with exit code 1; "
            "its 3 retries are used up: raise annotation trainwright.dev/retries (local run: --retries)"
        ),
    )


def test_the_last_sentence_counts_all_attempts() -> None:
    free = [ended(INFRASTRUCTURE), ended(FailureCause.SUSPENDED), ended(step=10.0)]
    assert lived(*free, *[ended(step=10.0)] * 9)[-1].message.startswith(
        "the job failed after 6 attempts, 4 of them without progress; the last: "
    )


def test_progress_clears_the_counts() -> None:
    """Scenario 9: a failure, progress, a failure ... goes on for long."""
    found = lived(*[ended(step=10.0 * n) for n in range(1, 21)])
    assert {one.reason for one in found} == {""}
    assert found[-1].counts.row == {"retries": 1}
    assert found[-1].counts.causes == {CODE: 20}
    assert retries_left(found[-1].counts, WANTED) == 2
    # The same step again is no progress, nor is a lower one, nor a percentage where steps are known.
    steps = [100, 100, 90, 99, 80]
    assert len(lived(*[ended(step=float(n)) for n in steps])) == 4
    assert len(lived(*[ended(step=7.0, percent=n) for n in range(9)])) == 4


@pytest.mark.parametrize(("lives", "used"), CASES["progress"].values(), ids=CASES["progress"])
def test_progress_is_a_newer_checkpoint_else_a_later_step(
    lives: list[tuple[float | None, float | None]], used: int
) -> None:
    many = Declaration(mode="gang", retries=9)
    found = lived(*[ended(step=step, checkpoint=checkpoint) for step, checkpoint in lives], wanted=many)
    assert found[-1].counts.row == {"retries": used}
    assert (found[-1].pause > 0) == (used > 1)


def test_without_reports_an_hour_is_progress() -> None:
    assert len(lived(*[ended(seconds=3600.0)] * 9)) == 9
    assert len(lived(*[ended(seconds=3599.0)] * 9)) == 4


def test_the_same_failure_three_times_ends_the_job() -> None:
    """Scenario 8, text T3."""
    same = ended(fingerprint="1 ValueError: bad shape", step=120.0)
    found = lived(*[same] * 9)
    assert len(found) == 3
    assert (found[-1].reason, found[-1].message) == (
        "SameFailure",
        "the same failure three times at step 120, so a retry would not help: rank 1 failed with exit code 1",
    )


def test_a_failure_at_one_step_is_the_same_also_where_checkpoints_are_kept() -> None:
    """A script that always fails at step 25: its first attempt notes a checkpoint, the others begin from it."""
    words = "1 ValueError: bad batch"
    first, again = ended(fingerprint=words, step=25, checkpoint=20), ended(fingerprint=words, step=25)
    found = lived(first, *[again] * 9)
    assert (len(found), found[-1].reason) == (3, "SameFailure")


@pytest.mark.parametrize(
    ("metrics", "position"),
    [
        ({"current_step": "24", "checkpoint_step": "20"}, Position(24.0, checkpoint=20.0)),
        ({"current_step": "19", "checkpoint_step": "20"}, Position(20.0, checkpoint=20.0)),
        ({"checkpoint_step": "20"}, Position(20.0, checkpoint=20.0)),
        ({"current_step": "24"}, Position(24.0)),
        ({"current_step": "nan", "checkpoint_step": "many"}, Position()),
    ],
)
def test_how_far_a_report_says_the_attempt_came(metrics: dict[str, str], position: Position) -> None:
    said = {"metrics": [{"name": name, "value": value} for name, value in metrics.items()]}
    assert position_of(msgspec.convert(said, TrainerStatus)) == position


def test_what_is_not_the_same_failure() -> None:
    other = ended(fingerprint="1 KeyError")
    words = ended(fingerprint="1 ValueError")
    assert len(lived(words, other, words, other)) == 4
    assert lived(words, other, words, other)[-1].reason == "RestartsExhausted"
    at = [ended(fingerprint="1 ValueError", step=float(step)) for step in (120, 110, 120, 110)]
    assert lived(*at)[-1].reason == "RestartsExhausted"
    # An eviction in between changes nothing.
    assert lived(words, ended(INFRASTRUCTURE), words, words)[-1].reason == "SameFailure"


@pytest.mark.parametrize(
    ("cause", "attempts", "reason"),
    [
        pytest.param(MEMORY, 2, "RestartsExhausted", id="memory"),
        pytest.param(HANG, 3, "Hang", id="hang"),  # scenario 31
        pytest.param(INFRASTRUCTURE, 51, "RestartsExhausted", id="infrastructure"),
        pytest.param(PREEMPTED, MOST_ATTEMPTS, "RestartsExhausted", id="preempted"),
        pytest.param(FailureCause.CONFIGURATION, 1, "CannotRun", id="configuration"),
    ],
)
def test_the_budget_of_each_cause(cause: FailureCause, attempts: int, reason: str) -> None:
    found = lived(*[ended(cause)] * 200)
    assert (len(found), found[-1].reason) == (attempts, reason)


def test_suspensions_cost_nothing() -> None:
    """Scenario 41."""
    found = lived(ended(), *[ended(SUSPENDED)] * 200, ended())
    assert found[-1].reason == ""
    assert (found[-1].counts.row, found[-1].counts.attempts) == ({"retries": 2}, 2)
    assert {one.pause for one in found[1:-1]} == {0.0}


@pytest.mark.parametrize(
    ("causes", "attempts", "paid", "advice"),
    [
        (
            [CODE, MEMORY, HANG],
            4,
            "3 of 3 retries used, 1 of 2 for hangs",
            "its 3 retries are used up: raise annotation {} ",
        ),
        ([MEMORY], 2, "1 of 3 retries used, 1 of 1 for lack of memory", "its only retry for lack of memory is used up"),
        (
            [CODE, HANG, HANG],
            4,
            "3 of 3 retries used, 2 of 2 for hangs",
            "its 3 retries are used up: raise annotation {} ",
        ),
        (
            [HANG],
            3,
            "2 of 3 retries used, 2 of 2 for hangs",
            "its 2 retries for hangs are used up: raise annotation {} ",
        ),
    ],
)
def test_named_budgets_are_within_the_retries(
    causes: list[FailureCause], attempts: int, paid: str, advice: str
) -> None:
    found = lived(*map(ended, causes * 9))
    assert (len(found), found[attempts - 2].paid) == (attempts, paid)
    assert advice.format("trainwright.dev/retries") in found[-1].message


@pytest.mark.parametrize("cause", [CODE, MEMORY, HANG])
def test_retries_that_a_job_names_are_so_many_more_attempts_whatever_the_cause(cause: FailureCause) -> None:
    for number in (0, 1, 5):
        wanted, _ = declared({ANNOTATION_RETRIES: str(number)}, {}, Allowed())
        found = lived(*[ended(cause)] * 9, wanted=wanted)
        assert len(found) == number + 1
        assert "annotation trainwright.dev/retries (local run: --retries)" in found[-1].message
        of_trial = lived(*[ended(cause)] * 9, wanted=replace(wanted, is_trial=True))[-1]
        assert found[-1].message.startswith(f"{of_trial.message}; it")
    wanted, _ = declared({ANNOTATION_RETRIES: "90"}, {}, Allowed(retries_memory=4))
    assert (wanted.memory, wanted.hang, wanted.infrastructure) == (90, 90, 90)


def test_pauses_grow_without_progress() -> None:
    """Scenario 37."""
    many = Declaration(mode="gang", retries=100)
    assert [one.pause for one in lived(*[ended()] * 6, wanted=many)] == [0, 10, 60, 300, 600, 600]
    assert [one.pause for one in lived(*[ended(INFRASTRUCTURE)] * 5)] == [0, 30, 120, 300, 300]
    queued = lived(*[ended(in_queue=True)] * 6, wanted=many)
    assert [one.pause for one in queued] == [0, *[LONGEST_PAUSE_IN_QUEUE] * 5]
    assert {one.pause for one in lived(*[ended(step=float(n)) for n in range(9)])} == {0}


def test_a_summary_is_read_as_it_was_written() -> None:
    outcome = lived(ended(step=3.0), ended(MEMORY))[-1]
    summary = Summary(jobset="u", judged=2, counts=outcome.counts, hold_until="2026-11-25T10:00:00Z")
    assert summary_of({"summary": text_of(summary)}) == summary
    for text in ("", "[", "counts: 3", "judged: many"):
        assert summary_of({"summary": text}) is None
    assert summary_of(None) is None


def test_a_lost_record_begins_from_the_counts_of_the_jobset() -> None:
    """Scenario 48."""
    begun = Summary()
    count_from_jobset(begun, "u", 5, 2)
    assert (begun.judged, begun.counts.causes) == (5, {CODE: 2, INFRASTRUCTURE: 3})
    assert begun.counts.row == {"retries": 2}
    count_from_jobset(begun, "u", 9, 9)
    assert begun.judged == 5
