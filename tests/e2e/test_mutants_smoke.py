# SPDX-License-Identifier: Apache-2.0
"""`make mutants` for five defects: its copies, its choice and its last line."""

import re
import subprocess
import sys

import pytest

from tests.repository import ROOT


@pytest.mark.parity
def test_five_mutants_are_judged_and_the_work_tree_stays() -> None:
    status = ["git", "status", "--porcelain"]
    before = subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout
    chosen = ["--rooms", "progress", "--number", "5", "--jobs", "2", "--seed", "1"]
    command = [sys.executable, "-m", "hack.mutants", *chosen, "tests/unit/progress"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"found (\d) of (\d) mutants", last)
    assert found is not None, last
    assert int(found[2]) == 5
    assert int(found[1]) >= 3, done.stdout
    assert subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout == before
