# SPDX-License-Identifier: Apache-2.0
"""Which line of a log says most of a failure, and whose failure it tells of."""

import pytest

from tests.cases import cases
from trainwright.controller.trainer.failures.last_words import (
    ended_below,
    is_consequence,
    is_victim,
    program_ended,
    telling_line,
)

CASES = cases(__file__)
CRASH = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in <module>\nValueError: bad data\n'


@pytest.mark.parametrize(("log", "told"), CASES["the_line_that_says_most"])
def test_the_line_that_says_most(log: str, told: str) -> None:
    assert telling_line(log.split("\n")) == told


@pytest.mark.parametrize(("log", "told"), CASES["torchrun_sums_up_what_its_processes_did"])
def test_torchrun_sums_up_what_its_processes_did(log: str, told: str) -> None:
    assert telling_line(log.split("\n")) == told


@pytest.mark.parametrize(("log", "told"), CASES["the_launcher_knows_which_process_failed_by_itself"])
def test_of_several_processes_the_launcher_knows_the_one_that_failed_by_itself(log: str, told: str) -> None:
    assert telling_line(log.split("\n")) == told


@pytest.mark.parametrize(("log", "told"), CASES["the_exception_that_ended_python_goes_before_what_follows_it"])
def test_the_exception_that_ended_python_goes_before_what_follows_it(log: str, told: str) -> None:
    assert telling_line(log.split("\n"), 1).startswith(told)


def test_an_exception_that_was_caught_long_before_did_not_end_the_program() -> None:
    assert telling_line(("caught:\n" + CRASH + "step\n" * 2000 + "no space left\n").split("\n"), 1) == "no space left"


def test_an_exception_did_not_end_a_program_that_was_killed() -> None:
    assert telling_line((CRASH + "step 4\n").split("\n"), 137) == "step 4"


@pytest.mark.parametrize(("line", "elsewhere"), CASES["words_of_a_rank_that_lost_another"])
def test_words_of_a_rank_that_lost_another(line: str, elsewhere: bool) -> None:
    assert is_consequence(line) is elsewhere


@pytest.mark.parametrize(("log", "code", "victim"), CASES["who_was_stopped"])
def test_who_was_stopped_is_a_victim_unless_its_process_had_failed_before(log: str, code: int, victim: bool) -> None:
    assert is_victim(log.split("\n"), code, stopped=True) is victim


@pytest.mark.parametrize(("log", "told"), CASES["torchrun_waits_for_others"])
def test_torchrun_that_waits_for_others_has_said_that_its_process_ended(log: str, told: str) -> None:
    assert ended_below(log.split("\n")) == told


@pytest.mark.parametrize(("log", "finished", "ended"), CASES["when_the_process_of_torchrun_ended"])
def test_when_the_process_of_torchrun_ended(log: str, finished: str, ended: str) -> None:
    assert program_ended(log.split("\n"), finished) == ended
