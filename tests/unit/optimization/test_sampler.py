# SPDX-License-Identifier: Apache-2.0
"""The sampler: the same question has the same answer, values lie in their space, TPE learns, bad trials are stopped."""

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.functions import FUNCTIONS, searched
from trainwright.api import extras
from trainwright.controller.optimization import sampler
from trainwright.controller.views.importance import importance

MODULE = "trainwright.controller.optimization.sampler"
BATCH = {"name": "batch", "searchSpace": {"categorical": {"choices": ["16", "32"]}}}
RATE = {"name": "lr", "searchSpace": {"logUniform": {"min": "1e-5", "max": "1e-1", "type": "Float"}}}
LAYERS = {"name": "layers", "searchSpace": {"uniform": {"min": "1", "max": "4", "type": "Int"}}}
SPACE = [RATE, LAYERS, BATCH]
INSTALLED = ["random", *(name for name in sampler.LIBRARIES if name != "gp")]
"""gp needs torch, which is not among the development dependencies."""


def question(name: str = "random", numbers: Sequence[int] = (1,), **more: Any) -> dict[str, Any]:
    asked = {"objective": {"metric": "loss", "direction": "Minimize"}, "sampler": name, "seed": 7, "pruner": None}
    return {**asked, "parameters": SPACE, "trials": [], "numbers": list(numbers), **more}


def trial(number: int, parameters: Mapping[str, str], value: float | None, state: str = "complete") -> dict[str, Any]:
    return {"number": number, "parameters": parameters, "state": state, "value": value, "intermediate": []}


def history(count: int, value: Callable[[Mapping[str, str]], float]) -> list[dict[str, Any]]:
    made = sampler.answer(question(numbers=range(1, count + 1)))["trials"]
    return [trial(one["number"], one["parameters"], value(one["parameters"])) for one in made]


def by_rate(parameters: Mapping[str, str]) -> float:
    return abs(math.log10(float(parameters["lr"])) + 3)


@pytest.mark.parametrize("name", INSTALLED)
def test_values_lie_in_their_space_and_the_same_question_has_the_same_answer(name: str) -> None:
    asked = question(name, numbers=[31, 32, 33], trials=history(30, by_rate))
    answered = sampler.answer(asked)
    assert answered == sampler.answer(asked)
    assert [one["number"] for one in answered["trials"]] == [31, 32, 33]
    values = [one["parameters"] for one in answered["trials"]]
    assert all(1e-5 <= float(one["lr"]) <= 1e-1 for one in values)
    assert {one["layers"] for one in values} <= {"1", "2", "3", "4"}
    assert {one["batch"] for one in values} <= {"16", "32"}
    assert len({one["lr"] for one in values}) == 3
    assert sampler.answer({**asked, "seed": 8})["trials"] != answered["trials"]


@pytest.mark.parametrize("name", ["random", "qmc"])
def test_a_trial_depends_on_the_seed_and_its_number_alone(name: str) -> None:
    alone = [sampler.answer(question(name, [number]))["trials"][0] for number in (1, 2, 3)]
    assert sampler.answer(question(name, [1, 2, 3], trials=history(4, by_rate)))["trials"] == alone


def test_all_values_of_a_space_come_up_as_often() -> None:
    made = [sampler.answer(question(numbers=[number]))["trials"][0] for number in range(1, 2001)]
    for layers in "1234":
        assert 400 < sum(one["parameters"]["layers"] == layers for one in made) < 600
    small = sum(float(one["parameters"]["lr"]) < 1e-3 for one in made)
    assert 900 < small < 1100, "half of the decades lie below"


def test_a_grid_is_exhausted_in_a_fixed_order() -> None:
    colour = {"name": "colour", "searchSpace": {"categorical": {"choices": ["red", "green", "blue"]}}}
    answered = sampler.answer(question("grid", range(1, 11), parameters=[colour, BATCH]))
    made = [(one["parameters"]["colour"], one["parameters"]["batch"]) for one in answered["trials"]]
    assert made == [(one, two) for one in ("red", "green", "blue") for two in ("16", "32")]
    assert answered["exhausted"]
    assert not sampler.answer(question("grid", [6], parameters=[colour, BATCH]))["exhausted"]


@pytest.mark.parametrize("name", ["tpe", "cmaes"])
def test_the_history_is_learned_from_and_trials_that_do_not_fit_are_left_out(name: str) -> None:
    space = [RATE, {"name": "x", "searchSpace": {"uniform": {"min": "-1", "max": "1"}}}]
    trials = history(0, by_rate)
    for number in range(1, 41):
        made = sampler.answer(question(name, [number], parameters=space, trials=trials))["trials"][0]["parameters"]
        trials.append(trial(number, made, by_rate(made) + abs(float(made["x"]))))
    assert min(one["value"] for one in trials[20:]) < min(one["value"] for one in trials[:10])
    assert sum(one["value"] for one in trials[30:]) < sum(one["value"] for one in trials[:10])
    strange = [trial(41, {}, 1.0), trial(42, {"lr": "7", "x": "0"}, -9.0), trial(43, {"lr": "?", "x": "0"}, -9.0)]
    asked = question(name, [44], parameters=space, trials=trials)
    assert sampler.answer({**asked, "trials": trials + strange}) == sampler.answer(asked)


@pytest.mark.parametrize("direction", ["Minimize", "Maximize"])
def test_the_direction_is_obeyed(direction: str) -> None:
    trials = history(30, lambda one: by_rate(one) if direction == "Minimize" else -by_rate(one))
    asked = question("tpe", range(31, 37), trials=trials, objective={"metric": "m", "direction": direction})
    assert sum(by_rate(one["parameters"]) < 1 for one in sampler.answer(asked)["trials"]) >= 4


def test_states_of_all_kinds_are_told() -> None:
    trials = history(20, by_rate)
    trials[3] |= {"state": "failed", "value": None}
    trials[4] |= {"state": "pruned", "value": 2.0}
    trials[5] |= {"state": "pruned", "intermediate": [[10, 3.0], [20, 2.5]]}
    trials[6] |= {"state": "running", "value": None, "intermediate": [[10, 3.0]]}
    assert len(sampler.answer(question("tpe", [21, 22], trials=trials))["trials"]) == 2


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_tpe_finds_better_values_than_chance(function: str) -> None:
    assert sum(searched(function, "tpe", seed) < searched(function, "random", seed) for seed in range(10)) >= 8


def test_the_importance_of_parameters() -> None:
    found = importance(question(trials=history(40, by_rate)))
    assert max(found, key=found.__getitem__) == "lr"
    assert sum(found.values()) == pytest.approx(1)
    assert importance(question(trials=history(20, lambda _: 1.0))) == {}


def number(low: str, high: str, kind: str) -> dict[str, Any]:
    return {"name": "n", "searchSpace": {"uniform": {"min": low, "max": high, "type": kind}}}


ENDLESS = "parameter n: its min, its max, or the range between them is not a finite number"


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("cmaes", [RATE, BATCH], "the sampler cmaes needs two parameters or more that are uniform or logUniform"),
        (
            "random",
            [number("0.2", "0.8", "Int")],
            "parameter n: no whole number lies between its min and its max",
        ),
        ("random", [number("1", "1e400", "Int")], ENDLESS),
        ("random", [number("-1e308", "1e308", "Float")], ENDLESS),
        ("random", [number("-1e308", "1e308", "Int")], ENDLESS),
    ],
)
def test_what_cannot_be_searched_is_said(name: str, parameters: list[dict[str, Any]], said: str) -> None:
    assert sampler.problems(name, parameters)[0].startswith(said)
    with pytest.raises(sampler.SamplerError, match=said):
        sampler.answer(question(name, parameters=parameters))


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(0.01, 1e6),
    log=st.booleans(),
    whole=st.booleans(),
    share=st.floats(0, 1),
)
@settings(max_examples=200, deadline=None)
def test_every_share_of_a_space_is_a_value_of_it(
    low: float, width: float, log: bool, whole: bool, share: float
) -> None:
    low = abs(low) + 0.5 if log else low
    bounds = {"min": repr(low), "max": repr(low + width), "type": "Int" if whole else "Float"}
    one = sampler.Parameter.of({"name": "x", "searchSpace": {"logUniform" if log else "uniform": bounds}})
    if one.size >= 1:
        text = one.at(share)
        assert one.low <= one.value(text) <= one.high  # type: ignore[operator]
        assert len(text) <= 64
        if not whole:
            assert one.share(text) == pytest.approx(share, abs=1e-6)


# ---------------------------------------------------------------------- pruners


def curve(number: int, end: float, steps: Sequence[int], state: str = "complete") -> dict[str, Any]:
    """Falls from 10 to `end` at step 100."""
    reports = [[step, 10 - (10 - end) * math.sqrt(step / 100)] for step in steps]
    return trial(number, {}, end if state == "complete" else None, state) | {"intermediate": reports}


def asked_pruner(name: str, trials: Sequence[Any], warmup: int = 10, direction: str = "Minimize") -> list[int]:
    objective = {"metric": "loss", "direction": direction}
    asked = question(numbers=[], trials=trials, pruner={"name": name, "warmupSteps": warmup}, objective=objective)
    return [one["number"] for one in sampler.answer(asked)["prune"]]


ENDED = [curve(number, number, range(0, 101, 7)) for number in range(1, 8)]


@pytest.mark.parametrize("name", ["median", "asha"])
def test_a_bad_trial_is_stopped_and_a_good_one_is_not(name: str) -> None:
    running = [curve(8, 9.0, [5, 20, 41], "running"), curve(9, 0.5, [5, 20, 41], "running")]
    assert asked_pruner(name, [*ENDED, *running]) == [8]
    upside_down = [{**one, "intermediate": [[s, -v] for s, v in one["intermediate"]]} for one in [*ENDED, *running]]
    assert asked_pruner(name, upside_down, direction="Maximize") == [8]
    assert asked_pruner(name, [*ENDED, *running], warmup=42) == []
    assert asked_pruner(name, [*ENDED[:2], *running]) == ([] if name == "median" else [8])
    assert asked_pruner(name, [ENDED[0], *running]) == []
    assert asked_pruner(name, [*ENDED, curve(8, 9.0, [], "running")]) == []


@pytest.mark.parametrize("name", ["median", "asha"])
@pytest.mark.parametrize("seed", range(10))
def test_the_best_of_a_search_survives(name: str, seed: int) -> None:
    """Twenty trainings, four at a time, whose curves fall towards their ends with some noise."""
    chance = random.Random(seed)
    ends = [chance.uniform(0, 5) for _ in range(20)]
    trials = [curve(number, end, [], "running") for number, end in enumerate(ends, 1)]
    stopped: set[int] = set()
    for first in range(0, 20, 4):
        running = trials[first : first + 4]
        for step in range(5, 101, 5):
            for one in running:
                exact = curve(0, ends[one["number"] - 1], [step])["intermediate"][0][1]
                one["intermediate"].append([step, exact + chance.gauss(0, 0.02)])
            stopped |= set(asked_pruner(name, trials[: first + 4]))
            running = [one for one in running if one["number"] not in stopped]
        for one in running:
            one |= {"state": "complete", "value": ends[one["number"] - 1]}
        for one in trials:
            if one["number"] in stopped:
                one["state"] = "pruned"
    assert stopped
    assert 1 + ends.index(min(ends)) not in stopped


# ---------------------------------------------------------------------- the process


def run(asked: str, *, without: Sequence[str] = (), folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Ask the process; `without` are libraries that it does not find."""
    environ = dict(os.environ)
    if folder is not None:
        for name in without:
            (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})")
        environ["PYTHONPATH"] = str(folder)
    return subprocess.run(
        [sys.executable, "-m", MODULE], input=asked, capture_output=True, text=True, check=False, env=environ
    )


def test_the_process_answers_with_json_alone() -> None:
    asked = question("tpe", [11, 12], trials=history(10, by_rate))
    done = run(json.dumps(asked))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == sampler.answer(asked)


@pytest.mark.parametrize("name", ["tpe", "qmc", "cmaes"])
def test_a_missing_library_is_said_with_the_command_that_installs_it(name: str, tmp_path: Path) -> None:
    library = sampler.LIBRARIES[name][0]
    asked = question(name, parameters=[RATE, {**RATE, "name": "decay"}])
    done = run(json.dumps(asked), without=[library], folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()[-1]
    assert said == f"{library} is not installed; install it with: {extras.install(sampler.LIBRARIES[name])}"


@pytest.mark.parametrize("name", ["random", "grid"])
def test_upstreams_algorithms_need_no_library(name: str, tmp_path: Path) -> None:
    asked = question(name, parameters=[BATCH], pruner={"name": "median", "warmupSteps": 0})
    done = run(json.dumps(asked), without=["optuna", "numpy", "scipy", "cmaes"], folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_question_that_cannot_be_answered_ends_with_a_sentence() -> None:
    done = run(json.dumps(question("cmaes", parameters=[BATCH])))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("the sampler cmaes needs two parameters")


@pytest.mark.parametrize(
    ("asked", "said"),
    [("{", "the sampler failed: JSONDecodeError: "), (json.dumps(question("none")), "the sampler failed: KeyError: ")],
)
def test_what_goes_wrong_otherwise_ends_with_a_sentence_too(asked: str, said: str) -> None:
    done = run(asked)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(said)
