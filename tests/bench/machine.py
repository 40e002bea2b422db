# SPDX-License-Identifier: Apache-2.0
"""How fast this machine is, as one number: what the absolute times of the budgets are to be multiplied by.

    python tests/bench/machine.py

A fixed loop of decoding and of plain Python is timed in CPU time. The factor is 1.0 on the machine on which the budgets
were set, where the sample TrainJob decodes in 7.6 microseconds; it is 1.6 where both take 1.6 times as long. The best
of several rounds counts, since other work can only add. Benchmarks without anything bare to compare their times with
print their budgets for this machine with `budget`.
"""

import math
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.models import train_job
from trainwright.api.trainer.v1alpha1 import TrainJob

DECODE_MICROSECONDS = 7.6
"""One decoding of the sample where the factor is 1.0."""
PYTHON_MICROSECONDS = 18.8
"""One turn of `plain` there."""
ROUNDS = 15
TURNS = 400


class _Thing:
    """What Python code does most: attributes, methods, small dictionaries."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: dict[str, int]) -> None:
        self.name = name
        self.values = values

    def changed(self, key: str) -> "_Thing":
        return _Thing(self.name, {**self.values, key: len(self.name)})


def plain() -> int:
    """A turn of plain Python."""
    thing = _Thing("thing", {})
    for index in range(40):
        thing = thing.changed(f"key-{index % 5}")
        if hasattr(thing, "name") and thing.values.get("key-1") is None:
            thing.name += "."
    return sum(thing.values.values())


def microseconds(work: Callable[[], object]) -> float:
    """CPU time of one turn, in the best round."""
    best = math.inf
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(TURNS):
            work()
        best = min(best, (time.process_time() - begin) / TURNS)
    return 1e6 * best


def measured() -> tuple[float, float]:
    """Microseconds of one decoding of the sample, and of one turn of plain Python."""
    decoder, text = msgspec.json.Decoder(TrainJob), msgspec.json.encode(train_job())
    return microseconds(lambda: decoder.decode(text)), microseconds(plain)


def factor(decode: float, python: float) -> float:
    """Of two times that were `measured`: 1.0 on the machine of the budgets, larger on a slower one."""
    return math.sqrt(decode / DECODE_MICROSECONDS * python / PYTHON_MICROSECONDS)


@cache
def budget(absolute: float) -> str:
    """A budget of the design as text, with what it is on this machine now."""
    found = factor(*measured())
    return f"budget {absolute:g} x machine factor {found:.2f} = {absolute * found:.2g}"


def main() -> None:
    decode, python = measured()
    print(f"machine factor {factor(decode, python):.2f}: multiply the absolute times of the budgets by it")
    print(f"  decode the sample TrainJob {decode:8.1f} µs   ratio {decode / DECODE_MICROSECONDS:.2f}")
    print(f"  a turn of plain Python     {python:8.1f} µs   ratio {python / PYTHON_MICROSECONDS:.2f}")


if __name__ == "__main__":
    main()
