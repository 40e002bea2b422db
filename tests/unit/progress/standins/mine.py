# SPDX-License-Identifier: Apache-2.0
"""What the examples of docs/users/progress.md take from the reader's own code."""

import os
from typing import Any


class Model:
    """Halves its input."""

    def __call__(self, inputs: float) -> float:
        if os.environ.get("FAILS") and inputs > 5:
            raise FloatingPointError("the example fails")
        return inputs / 2

    def parameters(self) -> list[float]:
        """What is trained."""
        return [0.5]


class Scalar:
    """An array with one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def item(self) -> float:
        """Read it."""
        return self.value


def train_step(state: int, batch: tuple[float, float]) -> tuple[int, Any]:
    """One step: the new state, and the loss."""
    return state + 1, Scalar(batch[0] / 10)


model = Model()
data = [(float(number), number / 2 + 1) for number in range(1, 11)]
held_out = data
state = 0
