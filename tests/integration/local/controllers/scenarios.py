# SPDX-License-Identifier: Apache-2.0
"""All scenarios in which our controllers are compared with the real ones."""

from tests.integration.local.controllers import scenarios_of_jobs, scenarios_of_jobsets, scenarios_of_others

SCENARIOS = (*scenarios_of_jobsets.SCENARIOS, *scenarios_of_jobs.SCENARIOS, *scenarios_of_others.SCENARIOS)
CPU = "64"
"""Of the node that they share, so that none waits for a place."""
ALONE = scenarios_of_others.ALONE
"""Each needs a node of 8 CPUs of its own."""
