# SPDX-License-Identifier: Apache-2.0
"""The process of the sampler that hangs, dies, or prints rubbish, and what the user reads then."""

import asyncio
import sys
import time

import msgspec
import pytest

from tests.unit.optimization.conftest import Search, optimization_job
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import OptimizationJob
from trainwright.controller.optimization.question import NoAnswerError, ask, checked, in_process, question

ANSWERS = {
    # program, seconds, what is said
    "it hangs": ("import time; time.sleep(600)", 0.5, "the sampler did not answer within 0.5 s and was stopped"),
    "it dies": ("import sys; print('a\\nno disk', file=sys.stderr); sys.exit(3)", 60.0, "no disk"),
    "it dies without a word": ("import sys; sys.exit(7)", 60.0, "exit code 7"),
    "it is killed": ("import os; os.kill(os.getpid(), 9)", 60.0, "exit code -9"),
    "it prints rubbish": ("print('hello')", 60.0, "the sampler's answer is not a JSON object: "),
    "it prints a list": ("print('[]')", 60.0, "the sampler's answer is not a JSON object: "),
    "it prints nothing": ("pass", 60.0, "the sampler's answer is not a JSON object: "),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_process_without_an_answer(name: str) -> None:
    program, seconds, said = ANSWERS[name]
    with pytest.raises(NoAnswerError) as error:
        await in_process({"numbers": [1]}, [sys.executable, "-c", program], seconds)
    assert str(error.value).startswith(said)


async def test_a_process_that_answers() -> None:
    program = "import json, sys; print(json.dumps({'trials': json.load(sys.stdin)['numbers']}))"
    assert await in_process({"numbers": [1, 2]}, [sys.executable, "-c", program], 60.0) == {"trials": [1, 2]}


async def test_a_question_that_is_given_up_leaves_no_process() -> None:
    program = "import time; time.sleep(600)"
    asking = asyncio.create_task(in_process({}, [sys.executable, "-c", program], 600.0))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert time.monotonic() - began < 300


WRONG: dict[str, tuple[Document, str]] = {
    "no trials": ({}, "the sampler's answer is not as expected: "),
    "parameters of another trial": ({"trials": [{"number": 2, "parameters": {"x": "1"}}]}, "did not answer with"),
    "fewer": ({"trials": []}, "the sampler did not answer with parameters for the trials [1]"),
    "another parameter": ({"trials": [{"number": 1, "parameters": {"y": "1"}}]}, "did not answer with parameters"),
    "a number": ({"trials": [{"number": 1, "parameters": {"x": 1}}]}, "is not as expected: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_to_another_question_is_refused(name: str) -> None:
    answer, said = WRONG[name]
    with pytest.raises(NoAnswerError, match=r".*") as error:
        checked(answer, [1], msgspec.convert(optimization_job(), OptimizationJob))
    assert said in str(error.value)


async def test_a_trial_depends_on_seed_and_number_alone() -> None:
    job = msgspec.convert(optimization_job(), OptimizationJob)
    at_once = checked(await ask(question(job, {}, [1, 2, 3])), [1, 2, 3], job).trials
    alone = checked(await ask(question(job, {}, [3])), [3], job).trials
    assert at_once[2:] == alone
    assert len({one.parameters["x"] for one in at_once}) == 3


def test_the_condition_quotes_the_process_and_the_search_goes_on(search: Search) -> None:
    search.without_sampler("Optuna is not installed. Install it with: pip install optuna")
    search.start()
    search.job(numTrials=2, annotations={"trainwright.io/sampler": "tpe"})
    status, reason, message = search.conditions["Created"]
    assert (status, reason) == ("False", "AlgorithmServiceCreationFailed")
    assert message == "Optuna is not installed. Install it with: pip install optuna"
    assert search.trials() == []
    search.answer_with({"x": "0.5"})
    search.advance(600)
    assert search.conditions["Created"][0] == "True"
    assert search.running() == {"s-1": {"x": "0.5"}}
