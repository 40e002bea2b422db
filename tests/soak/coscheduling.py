# SPDX-License-Identifier: Apache-2.0
"""`make soak SOAK_ARGS=coscheduling`: the tests with the scheduler of the scheduler plugins, after building it."""

import sys

from tests.coscheduling import PROGRAM
from tests.soak._rounds import tests_with

if __name__ == "__main__":
    sys.exit(tests_with(PROGRAM, "tests/e2e/test_coscheduling.py", description=__doc__))
