# SPDX-License-Identifier: Apache-2.0
"""`make soak SOAK_ARGS=kueue`: the tests with Kueue's own manager, and Kueue's own specs for TrainJobs.

Both are built first, which takes half an hour the first time.
"""

import sys

from tests.kueue import PROGRAM
from tests.soak._rounds import tests_with

if __name__ == "__main__":
    sys.exit(tests_with(PROGRAM, "tests/e2e/test_kueue.py", "tests.soak._kueue_specs", description=__doc__))
