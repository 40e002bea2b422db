# SPDX-License-Identifier: Apache-2.0
"""Which lines each test runs: the tests without which no line would go unrun, and those that run the same lines.

A line that one test alone runs depends on it. A test on which no line depends is not needless by that: it may try the
same lines with other values. Where two tests of different modules run exactly the same lines, read both: one may be a
twin. Processes that tests start are counted, unless a signal ends them before they can say what they ran. What a shared
fixture runs is counted for the test that happened to need it first. Prints the tests and lines of each folder, and
groups of equal tests; build/coverage/tests.json has all of it, by test. Exit code 1 if the tests fail.
"""

import argparse
import contextlib
import difflib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

from coverage import CoverageData

from tests.repository import ROOT
from tests.soak.repeat import all_tests, guarded, side_by_side

FOLDER = ROOT / "build" / "coverage"
SETTINGS = """\
[run]
source_pkgs = trainwright
data_file = {folder}/data
parallel = true
patch = subprocess
context = $PYTEST_CURRENT_TEST
disable_warnings = no-data-collected, module-not-imported, couldnt-parse
"""
MOST_GROUPS = 100
"""Groups of equal tests that are printed. The file has all."""

_INHERITED = re.compile(r"(?P<test>.*) \((setup|call|teardown)\)(\|(?P<own>.*))?", re.DOTALL)


@dataclass(slots=True)
class Lines:
    """What one test runs."""

    number: int = 0
    alone: list[str] = field(default_factory=list)
    """FILE:LINE that no other test runs."""
    mark: int = 0
    """The same for tests that run the same lines: hashes of each, added up."""

    def add(self, line: tuple[str, int], *, alone: bool) -> None:
        self.number += 1
        self.mark = (self.mark + hash(line)) % 2**64
        if alone:
            self.alone.append(f"{line[0]}:{line[1]}")


def counted_for(context: str) -> str:
    """The function that a line was run for, all its parameters together; empty for what no test ran, such as imports.

    A process has what it inherited (`ID (call)`), which the tests that it runs itself are added to (`ID (call)|ID`).
    """
    inherited = _INHERITED.fullmatch(context)
    own = context if inherited is None else inherited["own"] or inherited["test"]
    return own.partition("[")[0]


def lines_of(files: Iterable[tuple[str, Mapping[int, Iterable[str]]]]) -> dict[str, Lines]:
    """What each test runs, from the contexts of each line of each file."""
    found: dict[str, Lines] = defaultdict(Lines)
    for name, lines in files:
        for number, contexts in lines.items():
            tests = {test for context in contexts if (test := counted_for(context))}
            for test in tests:
                found[test].add((name, number), alone=len(tests) == 1)
    return dict(found)


def equals(tests: Mapping[str, Lines]) -> list[list[str]]:
    """Tests of more than one module that run exactly the same lines; those with the most lines come first."""
    groups: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name, lines in tests.items():
        groups[lines.number, lines.mark].append(name)
    several = {
        key: sorted(names) for key, names in groups.items() if len({name.partition("::")[0] for name in names}) > 1
    }
    return [several[key] for key in sorted(several, reverse=True)]


def measure(selection: Sequence[str], folder: Path = FOLDER) -> int:
    """Run the tests, and put the data into the folder; gives the exit code of pytest."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = folder / "settings"
    settings.write_text(SETTINGS.format(folder=folder))
    command = [sys.executable, "-m", "coverage"]
    tests = ["-m", "pytest", "-p", "tests.soak._contexts", *selection, *side_by_side()]
    # No handle is needed: what it prints is what pytest prints.
    with guarded([*command, "run", f"--rcfile={settings}", *tests], sys.stdout.fileno()) as process:
        code = process.wait()
    print("putting the data together …", flush=True)
    subprocess.run([*command, "combine", "--quiet", f"--rcfile={settings}"], cwd=ROOT, check=True)
    return code


class LineReach:
    """Which tests run a line, from what is measured once and kept in a folder, with the sources of then."""

    def __init__(self, folder: Path, selection: Sequence[str], sources: Iterable[str]) -> None:
        """`sources`: files whose lines may be asked for later, when they have moved. Raises SystemExit."""
        self._sources, done = folder / "sources", folder / "done"
        if not done.exists():
            print("measuring which tests run which line; this runs the tests once", flush=True)
            if (code := measure(selection, folder)) not in (0, 1):
                raise SystemExit(f"error: the tests were not run to their end: exit code {code} of pytest")
            for path in sources:
                (self._sources / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, self._sources / path)
            done.write_text(str(ROOT))
        self._data = CoverageData(str(folder / "data"))
        self._data.read()
        names = self._data.measured_files()
        self._names = {os.path.relpath(os.path.realpath(name), done.read_text()): name for name in names}
        self._lines: dict[tuple[str, str], int] = defaultdict(int)
        """How many lines a test runs of a file, and ("") of all."""
        with contextlib.closing(sqlite3.connect(folder / "data")) as data:
            joined = "line_bits join context on context.id = context_id join file on file.id = file_id"
            for context, path, bits in data.execute(f"select context, path, numbits from {joined}"):
                for of in (path, ""):
                    self._lines[counted_for(context), of] += int.from_bytes(bits).bit_count()

    def tests(self, file: str, lines: Iterable[int]) -> dict[str, float]:
        """Functions of tests that run one of the lines, and which part of what a test runs is in the file.

        One of them is the empty text if an import runs a line.
        """
        if (name := self._names.get(file)) is None or not (self._sources / file).exists():
            return {}
        old, new = ((root / file).read_text().splitlines() for root in (self._sources, ROOT))
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        then = {two + 1 + at: one + 1 + at for one, two, size in blocks for at in range(size)}
        contexts = self._data.contexts_by_lineno(name)
        tests = {counted_for(context) for line in lines for context in contexts.get(then.get(line, 0), [])}
        return {test: self._lines[test, name] / self._lines[test, ""] for test in tests}


def report(tests: Mapping[str, Lines]) -> None:
    """Print it, and write the file."""
    modules: dict[str, list[Lines]] = defaultdict(list)
    for name, lines in tests.items():
        modules[str(Path(name.partition("::")[0]).parent)].append(lines)
    print(f"{'folder':50} {'tests':>6} {'with lines of their own':>24} {'such lines':>11}")
    for module, found in sorted(modules.items()):
        own = sum(1 for lines in found if lines.alone)
        print(f"{module:50} {len(found):6} {own:24} {sum(len(lines.alone) for lines in found):11}")
    groups = equals(tests)
    print(f"groups of tests of different modules that run the same lines: {len(groups)}")
    for names in groups[:MOST_GROUPS]:
        print(f"  {tests[names[0]].number} lines", *names, sep="\n    ")
    file = FOLDER / "tests.json"
    file.write_text(
        json.dumps(
            {
                "tests": {name: {"lines": lines.number, "alone": lines.alone} for name, lines in sorted(tests.items())},
                "equal": groups,
            },
            indent=1,
        )
        + "\n"
    )
    print(f"all of it: {file}")


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, choices=[1], help="one: the lines are the same each time")
    parser.add_argument(
        "selection", nargs="*", default=all_tests(), metavar="PATH", help="files and folders (default: as make test)"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    begin = time.monotonic()
    code = measure(arguments.selection)
    data = CoverageData(str(FOLDER / "data"))
    data.read()
    root = f"{ROOT}{os.sep}"
    measured = sorted(data.measured_files())
    report(lines_of((name.removeprefix(root), data.contexts_by_lineno(name)) for name in measured))
    print(f"took {time.monotonic() - begin:.0f} s; the tests {'passed' if code == 0 else f'FAILED ({code})'}")
    return 1 if code else 0


if __name__ == "__main__":
    raise SystemExit(main())
