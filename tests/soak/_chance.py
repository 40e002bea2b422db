# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for `repeat.py`: functions of `random` that spread delays always give the same part of their range.

    TRAINWRIGHT_CHANCE=0.5 pytest -p tests.soak._chance

It is read from the environment because modules of the product bind these functions when they are imported, and pytest
knows its options only after that.
"""

import os
import random

PART = float(os.environ["TRAINWRIGHT_CHANCE"])


def _random() -> float:
    return PART


def _uniform(a: float, b: float) -> float:
    return a + (b - a) * PART


random.random = _random
random.uniform = _uniform
