# SPDX-License-Identifier: Apache-2.0
"""Trials that are stopped early: a bad one is, a good one never."""

import json
import random

import msgspec
import pytest
from msgspec.structs import replace

from tests.unit.optimization.conftest import Search, optimization_job
from tests.virtual_trainer import SPACE
from trainwright.api.trainer.v1alpha1 import OptimizationJob
from trainwright.controller.optimization.question import ask, checked, question
from trainwright.controller.optimization.trials import State, Trial, Trials

MEDIAN = {"trainwright.io/pruner": "median", "trainwright.io/pruner-warmup-steps": "10"}


def test_a_bad_trial_is_suspended_and_counts_as_pruned(search: Search) -> None:
    search.start()
    search.job(numTrials=7, annotations=MEDIAN)
    for number in range(1, 6):
        for percentage in (10, 20, 50):
            search.trainer.report(percentage, f"s-{number}", loss=str(5 - percentage / 25))
            search.advance(1)
        search.ends(f"s-{number}", "1")
    # Before the warm-up nothing is stopped, and nothing that is as good as the others.
    search.trainer.report(5, "s-6", loss="90")
    search.advance(1)
    assert list(search.running()) == ["s-6"]
    search.trainer.report(20, "s-6", loss="4.1")
    search.advance(1)
    assert list(search.running()) == ["s-6"]
    search.trainer.report(50, "s-6", loss="80")
    search.advance(1)
    stopped = search.stored.get("trainjob", "s-6", SPACE)
    assert stopped is not None
    assert stopped["spec"]["suspend"] is True
    note = json.loads(stopped["metadata"]["annotations"]["trainwright.io/pruned"])
    assert note == {"pruner": "median", "step": 50, "value": 80}
    jobset = search.stored.get("jobset", "s-6", SPACE)
    assert jobset is not None
    assert jobset["spec"]["suspend"] is True
    assert (search.record[5]["state"], search.record[5]["value"]) == ("pruned", 80)
    # Its place is free, and it is neither a failure nor the best.
    assert list(search.running()) == ["s-7"]
    search.ends("s-7", "2")
    assert search.columns == ["7/7", "0", "0", "1"]
    assert "TrialPruned" in {reason for reason, _ in search.events}


def test_steps_of_the_reporter_count_and_a_trial_at_its_end_is_left_alone(search: Search) -> None:
    search.start()
    search.job(numTrials=7, annotations=MEDIAN)
    for number in range(1, 6):
        search.trainer.report(10, f"s-{number}", loss="1", current_step="500")
        search.advance(1)
        search.ends(f"s-{number}", "1", current_step="1000")
    # The percentage is past the warm-up, and the step is not.
    search.trainer.report(50, "s-6", loss="80", current_step="9", epoch="90")
    search.advance(1)
    assert list(search.running()) == ["s-6"]
    search.trainer.report(100, "s-6", loss="80", current_step="1000")
    search.advance(600)
    assert list(search.running()) == ["s-6"]
    assert search.record[5]["state"] == "running"
    search.ends("s-6", "80", current_step="1000")
    assert search.record[5]["value"] == 80


@pytest.mark.parametrize("pruner", ["median", "asha"])
async def test_the_best_of_ten_searches_survives(pruner: str) -> None:
    pruned = 0
    for seed in range(10):
        chance = random.Random(seed)
        document = optimization_job(numTrials=20, parallelTrials=4, annotations={"trainwright.io/pruner": pruner})
        job = msgspec.convert(document, OptimizationJob)
        ends = {number: chance.uniform(0, 1) for number in range(1, 21)}
        trials: Trials = {}
        waiting = list(ends)
        while waiting or any(not one.is_over for one in trials.values()):
            while waiting and sum(not one.is_over for one in trials.values()) < 4:
                trials[waiting[0]] = Trial(number=waiting[0], state=State.RUNNING, parameters={"x": "0"})
                waiting.pop(0)
            for number, trial in trials.items():
                if trial.is_over:
                    continue
                step = trial.curve[-1][0] + 10 if trial.curve else 10
                # It falls to its end, as all do.
                value = ends[number] + 1 - step / 100
                trials[number] = replace(trial, curve=(*trial.curve, (step, value)))
                if step == 100:
                    trials[number] = replace(trials[number], state=State.COMPLETE, value=value)
            answer = checked(await ask(question(job, trials, sampler_name="random")), (), job)
            for one in answer.prune:
                trials[one.number] = replace(trials[one.number], state=State.PRUNED)
                pruned += 1
        best = min(ends, key=lambda number: ends[number])
        assert trials[best].state is State.COMPLETE, seed
    assert pruned >= 10
