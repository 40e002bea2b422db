# SPDX-License-Identifier: Apache-2.0
"""Planted defects still fit the product, and change what they are to change. `make soak` lives worlds with them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS, Edit, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.name for one in MUTANTS])
def test_a_planted_defect_fits_the_source(mutant: Mutant) -> None:
    for file, tree in mutant.patched().items():
        compile(tree, file, "exec")
        assert ast.dump(tree) != ast.dump(ast.parse((ROOT / file).read_text(encoding="utf-8")))


def test_there_are_twenty_with_names_of_their_own() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 20


def test_an_edit_that_does_not_fit_is_named() -> None:
    mutant = Mutant("m", "", [Edit("WorkQueue.forget", "self.limiter.remember(key)", "None")])
    with pytest.raises(ValueError, match=r"mutant m: WorkQueue.forget has 'self.limiter.remember\(key\)' 0 times"):
        mutant.patched()


@pytest.mark.parametrize("old", ["self . limiter.forget(\n key )", "_.forget(_)"])
def test_an_edit_fits_however_the_code_is_laid_out(old: str) -> None:
    mutant = Mutant("m", "", [Edit("WorkQueue.forget", old, "self.limiter.delay(key)")])
    [tree] = mutant.patched().values()
    assert "self.limiter.forget(key)" not in ast.unparse(tree)
    assert "self.limiter.delay(key)" in ast.unparse(tree)


def test_a_defect_is_planted_in_a_process_and_found() -> None:
    """By a rule about what a world leaves behind, in the first worlds."""
    command = [sys.executable, "-m", "tests.simulation.mutants", "backoff-grows", "--seeds", "1-9", "--until-found"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN back-off" in done.stdout
    assert "replay it: python -m tests.simulation --seed=" in done.stdout


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    command = [sys.executable, "-m", "tests.simulation.mutants", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no such mutant: nonsense; known are made-and-forgotten" in done.stderr
