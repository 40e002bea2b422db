# SPDX-License-Identifier: Apache-2.0
"""Plants each defect of tests/simulation/mutants.py, and counts the simulated lives until a rule is broken.

A defect that no world finds is a hole in the simulation. The seeds are the same each time, so a mutant that is found
once is found again, unless the scenario has changed.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.simulation.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
LIVES = 3000
"""Within which each defect is to be found."""
_FOUND = re.compile(r"^BROKEN (\S+) ", re.MULTILINE)
_LIVED = re.compile(r"^(\d+) worlds, (\d+) lives", re.MULTILINE)


def main() -> int:
    """Exit code 0, or 1 if a mutant was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mutants", description=__doc__)
    parser.add_argument("--rounds", type=int, default=250, help="worlds of each mutant at most (default: %(default)s)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all if none is given")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {one.name for one in MUTANTS}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [one.name for one in MUTANTS if not arguments.names or one.name in arguments.names]
    missed = [name for name in chosen if not is_found(name, arguments.rounds)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants were found")
    if missed:
        print(f"NOT FOUND: {', '.join(missed)}")
    return 1 if missed else 0


def is_found(name: str, worlds: int) -> bool:
    """Live worlds with one defect until a rule is broken, and print a line."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.simulation.mutants", name, "--until-found", "--seeds", f"0-{worlds - 1}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lived = _LIVED.search(done.stdout)
    if lived is None:
        print(f"{name:24} failed to run:\n{done.stdout[-1000:]}{done.stderr[-2000:]}", flush=True)
        return False
    rules, lives = _FOUND.findall(done.stdout), int(lived[2])
    late = f", more than {LIVES}" if lives > LIVES else ""
    said = f"{', '.join(rules)}" if rules else "NOT FOUND"
    print(f"{name:24} {said} in {lived[1]} worlds, {lives} lives{late}, {time.monotonic() - begun:.0f} s", flush=True)
    return bool(rules) and lives <= LIVES


if __name__ == "__main__":
    raise SystemExit(main())
