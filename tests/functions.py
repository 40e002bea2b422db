# SPDX-License-Identifier: Apache-2.0
"""Functions that optimizers are compared on, and a search of one without a cluster.

Their definitions and minima: https://www.sfu.ca/~ssurjano/branin.html and https://www.sfu.ca/~ssurjano/hart6.html.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trainwright.controller.optimization import sampler

_A = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
_P = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def branin(x: Sequence[float]) -> float:
    """Its minimum is 0.397887."""
    a, b = x
    valley = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10


def hartmann6(x: Sequence[float]) -> float:
    """Its minimum is -3.32237."""
    peaks = zip((1, 1.2, 3, 3.2), _A, _P, strict=True)
    return -sum(
        height * math.exp(-sum(a * (value - p) ** 2 for a, value, p in zip(scale, x, centre, strict=True)))
        for height, scale, centre in peaks
    )


class Function(NamedTuple):
    value: Callable[[Sequence[float]], float]
    bounds: Sequence[tuple[int, int]]

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """As in the spec of an OptimizationJob."""
        return [
            {"name": f"x{place}", "searchSpace": {"uniform": {"min": str(low), "max": str(high), "type": "Float"}}}
            for place, (low, high) in enumerate(self.bounds)
        ]


FUNCTIONS = {
    "branin": Function(branin, ((-5, 10), (0, 15))),
    "hartmann6": Function(hartmann6, ((0, 1),) * 6),
}


def searched(function: str, name: str, seed: int, trials: int = 40) -> float:
    """The lowest value that a sampler finds, one trial after the other."""
    value, parameters = FUNCTIONS[function].value, FUNCTIONS[function].parameters
    history: list[dict[str, Any]] = []
    best = math.inf
    for number in range(1, trials + 1):
        question = {
            "objective": {"metric": "value", "direction": "Minimize"},
            "sampler": name,
            "seed": seed,
            "parameters": parameters,
            "trials": history,
            "numbers": [number],
        }
        (made,) = sampler.answer(question)["trials"]
        found = value([float(made["parameters"][one["name"]]) for one in parameters])
        best = min(best, found)
        history.append({**made, "state": "complete", "value": found, "intermediate": []})
    return best
