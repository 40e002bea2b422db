# SPDX-License-Identifier: Apache-2.0
"""`make mutants` for five defects: its copies, its choice, its table and its last line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT


def mutants(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "hack.mutants", "--rooms", "progress", *arguments, "tests/unit/progress"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parity
def test_five_mutants_are_judged_once_and_the_work_tree_stays(tmp_path: Path) -> None:
    status = ["git", "status", "--porcelain"]
    before = subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout
    table = tmp_path / "table.tsv"
    chosen = ["--number", "5", "--jobs", "2", "--seed", "2", "--table", str(table)]
    lines = mutants(*chosen)
    found = re.fullmatch(r"found (\d) of 5 mutants", lines[-1])
    assert found is not None, lines[-1]
    assert int(found[1]) >= 3, lines
    assert subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout == before
    assert mutants(*chosen) == lines[-2:], "what the table has is judged again"
    again = mutants("--against", str(table), "--number", "1", "--jobs", "1")
    assert again[-1] == "found 1 of 1 mutants"
