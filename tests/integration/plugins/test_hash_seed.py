# SPDX-License-Identifier: Apache-2.0
"""What the pipeline gives does not hang on the order of sets and dictionaries, which each process has its own of."""

import os
import subprocess
import sys

from tests.repository import ROOT
from tests.unit.plugins.test_properties import everything

PROGRAM = """
import sys
from tests.unit.plugins.test_properties import everything
sys.stdout.buffer.write(everything())
"""


def test_another_process_with_another_hash_seed_gives_the_same_bytes() -> None:
    for seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, check=True, env=environment
        )
        assert done.stdout == everything()
