# SPDX-License-Identifier: Apache-2.0
"""`make soak`: the programs of this folder one after the other. README.md tells how to add one.

What follows `--` is for the program itself, if one is named. Prints what they print, and at the end one line for each:
whether it passed, and how long it took. Exit code 1 if one did not; the others run all the same.
"""

import argparse
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

FOLDER = Path(__file__).parent


def programs() -> list[str]:
    """The names of the programs, in the order in which they run."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def soak(name: str, rounds: int | None, own: Sequence[str]) -> int:
    """Run one program with arguments of its own; gives its exit code."""
    command = [sys.executable, "-m", f"tests.soak.{name}", *own]
    if rounds is not None:
        command.append(f"--rounds={rounds}")
    return subprocess.run(command, cwd=FOLDER.parents[1], check=False).returncode


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="make soak SOAK_ARGS=…", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(programs())}; all if none is given")
    parser.add_argument("--rounds", type=int, help="of each program, instead of its own number")
    given, _, own = shlex.join(sys.argv[1:]).partition(" -- ")
    arguments = parser.parse_args(shlex.split(given))
    arguments.names = [name.replace("-", "_") for name in arguments.names]
    if own and len(arguments.names) != 1:
        parser.error("arguments after -- are for one program: name it")
    if unknown := set(arguments.names) - set(programs()):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    # An exception, as Ctrl-C is: it kills the program that runs, and what that started ends with it.
    signal.signal(signal.SIGTERM, _terminated)
    report = []
    for name in arguments.names or programs():
        print(f"--- {name}", flush=True)
        begin = time.monotonic()
        code = soak(name, arguments.rounds, shlex.split(own))
        report.append(
            (code, f"{name:20} {'passed' if code == 0 else f'FAILED ({code})'} in {time.monotonic() - begin:.0f} s")
        )
    print("---", *(line for _, line in report), sep="\n")
    return 1 if any(code for code, _ in report) else 0


if __name__ == "__main__":
    raise SystemExit(main())
