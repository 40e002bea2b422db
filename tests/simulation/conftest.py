# SPDX-License-Identifier: Apache-2.0
"""Worlds fail a test if a rule does not hold: to live one is an assertion."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.assertions import counted


@pytest.fixture
def simulated(simulated: Callable[..., Any]) -> Callable[..., Any]:
    return counted(simulated)
