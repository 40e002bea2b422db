# SPDX-License-Identifier: Apache-2.0
"""Chooses the parameters of the next trials, and the running trials to stop, from the history of a search.

    python -m trainwright.controller.optimization.sampler < question.json > answer.json

Nothing is kept between two questions: the history comes in with each, and the same question has the same answer. A
trial of `random`, `grid` or `qmc` depends on the seed and its number alone. `random`, `grid` and the pruners need the
standard library only, so the image of the manager serves the whole API of Kubeflow Trainer. Optuna suggests for `tpe`
and `gp`. For `qmc` and `cmaes` the libraries that Optuna uses are asked directly: its samplers keep their position and
their state in the attributes of a study's own trials, and a history that is read back from a cluster has none.

Exit code 1: the question cannot be answered, and the last line on stderr says why.
"""

import hashlib
import importlib
import json
import logging
import math
import random
import statistics
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Question = Mapping[str, Any]
Trial = Mapping[str, Any]

LIBRARIES = {"tpe": ["optuna"], "gp": ["optuna", "scipy", "torch"], "qmc": ["scipy"], "cmaes": ["cmaes"]}
"""What a sampler imports. The extra `optimization` has all but torch, which takes 2 GB, and 250 MB of memory."""
_STARTUP = 10
"""TPE learns nothing from fewer trials, as Optuna's."""
_ENOUGH_ENDED = 5
"""The median pruner stops nothing before so many trials have ended with a value, as Optuna's."""
_ETA = 4
"""ASHA lets the best of four go on at each rung, as Optuna's successive halving."""


class SamplerError(Exception):
    """The question cannot be answered; the text says why."""


def serve(answering: Callable[[Question], object]) -> str | None:
    """Answer the question of this process; returns what is wrong."""
    # Whatever a library prints belongs on stderr: stdout has the answer.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        json.dump(answering(json.load(sys.stdin)), out, allow_nan=False)
    except SamplerError as error:
        return str(error)
    except Exception as error:  # a library has failed
        traceback.print_exc()
        return f"the sampler failed: {type(error).__name__}: {error}"
    return None


def answer(question: Question) -> dict[str, Any]:
    """The trials of `numbers`, and the running trials to prune.

    The last trials are left out, and `exhausted` is true, if a grid has no more points. Raises SamplerError.
    """
    found = problems(question["sampler"], question["parameters"])
    if found:
        raise SamplerError(found[0])
    space = [Parameter.of(one) for one in question["parameters"]]
    suggest = _SAMPLERS[question["sampler"]]
    trials = list(question["trials"])
    suggested: list[dict[str, Any]] = []
    for number in question["numbers"]:
        values = suggest(question, space, usable(trials, space), number)
        if values is None:
            break
        suggested.append({"number": number, "parameters": values})
        trials.append({**suggested[-1], "state": "running", "value": None, "intermediate": []})
    return {
        "trials": suggested,
        "exhausted": len(suggested) < len(question["numbers"]),
        "prune": pruned(question),
    }


def problems(sampler: str, parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why these parameters, as in the spec of an OptimizationJob, cannot be searched with the sampler."""
    space = [Parameter.of(one) for one in parameters]
    found: list[str] = []
    for one in space:
        if not math.isfinite(float(one.high) - float(one.low)):
            found.append(f"parameter {one.name}: its min, its max, or the range between them is not a finite number")
        elif one.size < 1:
            found.append(f"parameter {one.name}: no whole number lies between its min and its max")
    if sampler == "cmaes" and sum(one.is_number for one in space) < 2:
        found.append("the sampler cmaes needs two parameters or more that are uniform or logUniform; use tpe")
    return found


# ---------------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    choices: Sequence[str] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    """Of type Int: `low` and `high` are whole numbers."""

    @classmethod
    def of(cls, parameter: Mapping[str, Any]) -> "Parameter":
        space = parameter["searchSpace"]
        if (categorical := space.get("categorical")) is not None:
            return cls(parameter["name"], tuple(categorical["choices"]))
        log = space.get("logUniform") is not None
        bounds = space["logUniform" if log else "uniform"]
        low, high, whole = float(bounds["min"]), float(bounds["max"]), bounds.get("type") == "Int"
        if whole and math.isfinite(high - low):
            low, high = math.ceil(low), math.floor(high)
        return cls(parameter["name"], (), low, high, log, whole)

    @property
    def is_number(self) -> bool:
        return not self.choices

    @property
    def size(self) -> float:
        """How many values there are."""
        if self.choices:
            return len(self.choices)
        return self.high - self.low + 1 if self.whole else math.inf

    def at(self, share: float) -> str:
        """The value at a share from 0 to 1 of the space, on its own scale."""
        if self.choices:
            return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]
        low, high = self._scaled_bounds()
        scaled = low + share * (high - low)
        value = math.exp(scaled) if self.log else scaled
        return self.text(min(max(round(value) if self.whole else value, self.low), self.high))

    def share(self, text: str) -> float:
        """Where a number lies; the inverse of `at`."""
        low, high = self._scaled_bounds()
        value = float(text)
        return ((math.log(value) if self.log else value) - low) / (high - low)

    def text(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        return str(int(value)) if self.whole else repr(float(value))

    def value(self, text: str) -> float | int | str:
        """What Optuna calls the value. Raises ValueError if the text is none of this parameter's values."""
        if self.choices:
            if text not in self.choices:
                raise ValueError(text)
            return text
        value = int(text) if self.whole else float(text)
        if not self.low <= value <= self.high:
            raise ValueError(text)
        return value

    def _scaled_bounds(self) -> tuple[float, float]:
        # Half a step more on either side, so that the whole numbers at the ends are as likely as the others.
        half = 0.5 if self.whole else 0.0
        low, high = self.low - half, self.high + half
        return (math.log(low), math.log(high)) if self.log else (low, high)


def usable(trials: Iterable[Trial], space: Sequence[Parameter]) -> list[Trial]:
    """The trials whose parameters are known and lie in the space, with these as values."""
    found: list[Trial] = []
    for trial in trials:
        try:
            values = {one.name: one.value(trial["parameters"][one.name]) for one in space}
        except (KeyError, ValueError):
            continue
        found.append({**trial, "values": values})
    return found


# ---------------------------------------------------------------------- samplers

Values = dict[str, str]


def _random(question: Question, space: Sequence[Parameter], _: Sequence[Trial], number: int) -> Values:
    chance = random.Random(f"{question['seed']}/{number}")  # noqa: S311
    return {one.name: one.at(chance.random()) for one in space}


def _grid(_: Question, space: Sequence[Parameter], __: Sequence[Trial], number: int) -> Values | None:
    left = number - 1
    found: Values = {}
    for one in reversed(space):
        left, place = divmod(left, len(one.choices))
        found[one.name] = one.choices[place]
    return None if left else {one.name: found[one.name] for one in space}


def _qmc(question: Question, space: Sequence[Parameter], _: Sequence[Trial], number: int) -> Values:
    libraries("qmc")
    qmc = importlib.import_module("scipy.stats.qmc")
    sobol = qmc.Sobol(len(space), scramble=True, rng=question["seed"])
    if number > 1:
        sobol.fast_forward(number - 1)
    return {one.name: one.at(share) for one, share in zip(space, sobol.random(1)[0], strict=True)}


def _cmaes(question: Question, space: Sequence[Parameter], history: Sequence[Trial], number: int) -> Values:
    """A whole population of ended trials makes a generation; the next trials are drawn from what it taught."""
    (cmaes,) = libraries("cmaes")
    import numpy as np  # noqa: PLC0415

    numbers = [one for one in space if one.is_number]
    size = len(numbers)
    evolution = cmaes.CMA(
        mean=np.full(size, 0.5), sigma=1 / 6, bounds=np.array([[0.0, 1.0]] * size), seed=_seed(question, number)
    )
    sign = -1 if _maximizes(question) else 1
    ended = [
        (np.array([one.share(trial["parameters"][one.name]) for one in numbers]), sign * trial["value"])
        for trial in complete(history)
    ]
    for first in range(0, len(ended) - evolution.population_size + 1, evolution.population_size):
        evolution.tell(ended[first : first + evolution.population_size])
    drawn = {one.name: one.at(share) for one, share in zip(numbers, evolution.ask(), strict=True)}
    return {**_random(question, space, (), number), **drawn}


def _tpe(question: Question, space: Sequence[Parameter], history: Sequence[Trial], number: int) -> Values:
    (optuna,) = libraries("tpe")
    if number <= _STARTUP:
        return _spread(question, space, number)
    # Jointly over all parameters; running trials count as bad ones, so that parallel trials do not crowd together.
    sampler = optuna.samplers.TPESampler(
        seed=_seed(question, number), n_startup_trials=_STARTUP, multivariate=True, constant_liar=True, gamma=_good
    )
    return _asked(optuna, sampler, question, space, history)


def _good(ended: int) -> int:
    # Optuna's default of a tenth leaves one or two good trials of the 20 that people try.
    return max(3, math.ceil(0.15 * ended))


def _spread(question: Question, space: Sequence[Parameter], number: int) -> Values:
    """A point of the sequence R_d, which fills a space evenly, shifted by the seed.

    On Branin and Hartmann-6, TPE finds better values after such a start than after a random one.
    https://extremelearning.com.au/unreasonable-effectiveness-of-quasirandom-sequences/
    """
    chance = random.Random(str(question["seed"]))  # noqa: S311
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (len(space) + 1))
    return {
        one.name: one.at((chance.random() + number * ratio**-place) % 1) for place, one in enumerate(space, start=1)
    }


def _gp(question: Question, space: Sequence[Parameter], history: Sequence[Trial], number: int) -> Values:
    optuna, *_ = libraries("gp")
    return _asked(optuna, optuna.samplers.GPSampler(seed=_seed(question, number)), question, space, history)


def _asked(
    optuna: Any, sampler: Any, question: Question, space: Sequence[Parameter], history: Sequence[Trial]
) -> Values:
    asked = study(question, space, history, sampler).ask(_distributions(optuna, space))
    return {one.name: one.text(asked.params[one.name]) for one in space}


_SAMPLERS: Mapping[str, Callable[[Question, Sequence[Parameter], Sequence[Trial], int], Values | None]] = {
    "random": _random,
    "grid": _grid,
    "qmc": _qmc,
    "cmaes": _cmaes,
    "tpe": _tpe,
    "gp": _gp,
}


def study(question: Question, space: Sequence[Parameter], history: Sequence[Trial], sampler: Any) -> Any:
    (optuna,) = libraries("tpe")
    study = optuna.create_study(direction="maximize" if _maximizes(question) else "minimize", sampler=sampler)
    distributions = _distributions(optuna, space)
    for trial in history:
        told = dict(trial.get("intermediate") or ())
        if trial["state"] == "pruned" and not told and trial.get("value") is not None:
            told = {0: trial["value"]}
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState["FAIL" if trial["state"] == "failed" else trial["state"].upper()],
                params=dict(trial["values"]),
                distributions=distributions,
                value=trial["value"] if trial["state"] == "complete" else None,
                intermediate_values=told,
            )
        )
    return study


def _distributions(optuna: Any, space: Iterable[Parameter]) -> dict[str, Any]:
    made = optuna.distributions
    found: dict[str, Any] = {}
    for one in space:
        if one.choices:
            found[one.name] = made.CategoricalDistribution(one.choices)
        else:
            kind = made.IntDistribution if one.whole else made.FloatDistribution
            found[one.name] = kind(one.low, one.high, log=one.log)
    return found


def libraries(sampler: str) -> list[Any]:
    """Import what the sampler needs. Raises SamplerError, which says how to install it."""
    # Optuna warns of what is experimental, each time, and logs each trial.
    warnings.simplefilter("ignore")
    try:
        found = [importlib.import_module(name) for name in LIBRARIES.get(sampler, ())]
    except ImportError as error:
        from trainwright.api import extras  # noqa: PLC0415

        command = extras.install(LIBRARIES[sampler])
        raise SamplerError(f"{error.name or sampler} is not installed; install it with: {command}") from error
    if "optuna" in sys.modules:
        logging.getLogger("optuna").setLevel(logging.ERROR)
    return found


def _seed(question: Question, number: int) -> int:
    digest = hashlib.sha256(f"{question['seed']}/{number}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _maximizes(question: Question) -> bool:
    return bool(question["objective"]["direction"] == "Maximize")


def complete(trials: Iterable[Trial]) -> list[Trial]:
    return [one for one in trials if one["state"] == "complete" and one["value"] is not None]


# ---------------------------------------------------------------------- pruners


def pruned(question: Question) -> list[dict[str, int]]:
    """The running trials that the pruner stops, each with the step that it was judged at."""
    if (pruner := question.get("pruner")) is None:
        return []
    sign = -1 if _maximizes(question) else 1
    curves = {
        one["number"]: [(step, sign * value) for step, value in one.get("intermediate") or ()]
        for one in question["trials"]
    }
    ended = [curves[one["number"]] for one in complete(question["trials"])]
    found: list[dict[str, int]] = []
    for trial in question["trials"]:
        curve = curves[trial["number"]]
        if trial["state"] != "running" or not curve or curve[-1][0] < pruner["warmupSteps"]:
            continue
        if pruner["name"] == "median":
            stopped = _is_worse_than_median(curve, ended)
        else:
            others = [one for number, one in curves.items() if number != trial["number"]]
            stopped = _is_left_behind(curve, others, max(pruner["warmupSteps"], 1))
        if stopped:
            found.append({"number": trial["number"], "step": curve[-1][0]})
    return found


Curve = Sequence[tuple[int, float]]
"""Steps and values, of which the lower ones are better."""


def _is_worse_than_median(curve: Curve, ended: Sequence[Curve]) -> bool:
    """Whether the best value so far is worse than the median of what ended trials had reached by the same step.

    Reports come at times and not at steps, so a trial's value at a step is that of its last report before.
    """
    if len(ended) < _ENOUGH_ENDED:
        return False
    reached = [value for one in ended if (value := _until(one, curve[-1][0])) is not None]
    return bool(reached) and min(value for _, value in curve) > statistics.median(reached)


def _until(curve: Curve, step: int) -> float | None:
    return next((value for at, value in reversed(curve) if at <= step), None)


def _is_left_behind(curve: Curve, others: Sequence[Curve], first: int) -> bool:
    """Whether the trial is below the best quarter at the highest rung that it has reached.

    Rungs are at `first`, 4 times that, 16 times ... steps. A trial's value at one is that of its first report at or
    after it. No trial is stopped at a rung before four have reached it.
    """
    rung = first
    while rung * _ETA <= curve[-1][0]:
        rung *= _ETA
    own = _from(curve, rung)
    reached = [value for one in others if (value := _from(one, rung)) is not None]
    if own is None or len(reached) + 1 < _ETA:
        return False
    better = sum(value < own for value in reached)
    return better >= (len(reached) + 1) // _ETA


def _from(curve: Curve, rung: int) -> float | None:
    return next((value for at, value in curve if at >= rung), None)


if __name__ == "__main__":
    sys.exit(serve(answer))
