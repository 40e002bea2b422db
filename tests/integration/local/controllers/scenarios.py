# SPDX-License-Identifier: Apache-2.0
"""All scenarios in which our controllers are compared with the real ones: the functions of three modules."""

from inspect import iscoroutinefunction

from tests.integration.local.controllers import scenarios_of_jobs, scenarios_of_jobsets, scenarios_of_others
from tests.integration.local.controllers.comparison import Scenario

ALONE: tuple[Scenario, ...] = (scenarios_of_others.pods_have_no_place,)
"""Each needs a node of 8 CPUs of its own."""
CPU = "64"
"""Of the node that the others share, so that none waits for a place."""
SCENARIOS: tuple[Scenario, ...] = tuple(
    one
    for module in (scenarios_of_jobsets, scenarios_of_jobs, scenarios_of_others)
    for one in vars(module).values()
    if iscoroutinefunction(one) and one.__module__ == module.__name__ and one not in ALONE
)
