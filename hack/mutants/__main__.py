# SPDX-License-Identifier: Apache-2.0
"""Plants defects in copies of the repository, and runs the tests that reach them: `make mutants`.

Which tests reach which line is measured once, with all tests, and kept in build/mutants, as is the table; delete that
folder to measure again. Rooms take turns, and within a room the seed chooses. A test counts only if it passes without
the defect. Neither the work tree nor the user's home is changed. Runs have a time limit; their processes end with them.
"""

import argparse
import contextlib
import difflib
import hashlib
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from coverage import CoverageData

from hack.mutants.defects import Defect, defects_of
from tests.repository import ROOT
from tests.soak.coverage import counted_for, measure
from tests.soak.repeat import all_tests
from trainwright.controller.runtime.testing.component import start_guarded

FOLDER = ROOT / "build" / "mutants"
ROOMS = {name: name for name in ("api", "codegen", "plugins")}
ROOMS |= {name: f"controller/{name}" for name in ("runtime", "trainer", "local", "cli", "initialize")}
ROOMS |= {"progress": "trainwright/progress.py"}
RUNGS = ("unit", "simulation", "integration", "e2e")
"""Folders of tests, the cheapest first."""
BATCH = 40
"""Tests of one run of pytest."""
BATCH_SECONDS, TEST_SECONDS, MUTANT_SECONDS = 120.0, 60, 240.0
"""Limits of a run, of a test in it, and of all runs for one mutant."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::[^\s\[]+)?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    defect: Defect
    says: str
    """`found`, `survived`, or `unjudged`: no test that reaches it passes without it."""
    by: str
    """The rung that found it."""
    seconds: float

    def __str__(self) -> str:
        return f"{self.says}\t{self.by or '-'}\t{self.seconds:.1f} s\t{self.defect.name}"


class LineReach:
    """Which tests reach a line, from what was measured before and the sources of then."""

    def __init__(self, selection: Sequence[str]) -> None:
        key = hashlib.sha256("\0".join(selection).encode()).hexdigest()[:8]
        self._folder = FOLDER / f"reach-{key}"
        if not (self._folder / "done").exists():
            print("measuring which tests reach which line; this runs the tests once", flush=True)
            measure(selection, self._folder)
            for path in sorted({path for room in ROOMS for path in modules_of(room)}):
                copy = self._folder / "sources" / path
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, copy)
            (self._folder / "done").touch()
        self._data = CoverageData(str(self._folder / "data"))
        self._data.read()
        self._names = {os.path.relpath(os.path.realpath(name), ROOT): name for name in self._data.measured_files()}

    def tests(self, defect: Defect) -> list[str]:
        """Functions of tests that run the statement; for one that imports run, all that run what it is in."""
        before = self._folder / "sources" / defect.module
        if defect.module not in self._names or not before.exists():
            return []
        old, new = (path.read_text().splitlines() for path in (before, ROOT / defect.module))
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        then = {two + 1 + at: one + 1 + at for one, two, size in blocks for at in range(size)}
        contexts = self._data.contexts_by_lineno(self._names[defect.module])
        here = contexts.get(then.get(defect.line, 0), [])
        if "" in here or not defect.function:
            here = [name for line in defect.within for name in contexts.get(then.get(line, 0), [])]
        found = {test for name in here if (test := counted_for(name))}
        there = [test for test in found if (ROOT / test.partition("::")[0]).exists() and rung_of(test) in RUNGS]
        return sorted(there, key=lambda test: (RUNGS.index(rung_of(test)), test))


def rung_of(test: str) -> str:
    return test.split("/")[1] if test.startswith("tests/") else ""


def modules_of(room: str) -> list[str]:
    place = ROOT / ROOMS[room]
    return [str(path.relative_to(ROOT)) for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]


def sampled(rooms: Sequence[str], seed: str) -> Iterator[tuple[str, Defect]]:
    """Defects of each room in an order that the seed determines; the rooms take turns."""
    orders = []
    for room in rooms:
        found = [one for path in modules_of(room) for one in defects_of(path, (ROOT / path).read_bytes())]
        random.Random(f"{seed} {room}").shuffle(found)  # noqa: S311 - no secret
        orders.append([(room, one) for one in found])
    for turn in itertools.zip_longest(*orders):
        yield from (one for one in turn if one is not None)


@dataclass(slots=True)
class Copy:
    """Of the repository. One defect at a time is planted in it."""

    root: Path
    passes: set[str] = field(default_factory=set)
    fails: set[str] = field(default_factory=set)
    """Tests that were run without a defect."""
    _time: float = field(default_factory=time.time)

    @classmethod
    def of_the_repository(cls, root: Path) -> "Copy":
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_symlink() or (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        return cls(root)

    def judged(self, defect: Defect, tests: Sequence[str]) -> MutantVerdict:
        begin, file, ran = time.monotonic(), self.root / defect.module, False
        source = file.read_bytes()
        try:
            for batch in (tests[at : at + BATCH] for at in range(0, len(tests), BATCH)):
                left = [test for test in batch if test not in self.fails]
                while left and time.monotonic() < begin + MUTANT_SECONDS:
                    self._write(file, defect.planted(source))
                    failed = self._failed(left)
                    ran = ran or failed is None
                    if failed is None:
                        break
                    self._write(file, source)
                    suspects = [test for test in left if test.startswith(failed)] or left
                    if self._is_sound(suspects):
                        return MutantVerdict(defect, "found", rung_of(failed or left[0]), time.monotonic() - begin)
                    left = [test for test in left if test not in self.fails]
        finally:
            self._write(file, source)
        return MutantVerdict(defect, "survived" if ran or not tests else "unjudged", "", time.monotonic() - begin)

    def _is_sound(self, tests: Sequence[str]) -> bool:
        """Whether the tests pass without a defect."""
        if not self.passes.issuperset(tests):
            (self.passes if self._failed(tests) is None else self.fails).update(tests)
        return self.passes.issuperset(tests)

    def _failed(self, tests: Sequence[str]) -> str | None:
        """The first test that fails; empty if none is named, as when nothing can be imported. None: all pass."""
        options = f"-x -q --tb=no -p no:cacheprovider -p no:randomly -o timeout={TEST_SECONDS}".split()
        command = [sys.executable, "-m", "pytest", "--control-plane=local", *options, *tests]
        # A defect may write to the home of whoever runs this, or end a cluster of theirs.
        (home := self.root.parent / f"home-{self.root.name}").mkdir(exist_ok=True)
        unset = dict.fromkeys(("CI", "KUBECONFIG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "")
        environment = {**os.environ, **unset, "HOME": str(home), "PYTHONPATH": str(self.root)}
        code = None
        with tempfile.TemporaryFile() as output:
            process, lifeline = start_guarded(
                command, output=output, errors=subprocess.STDOUT, folder=self.root, environment=environment
            )
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(BATCH_SECONDS)
            finally:
                os.close(lifeline)  # ends all that was started
                process.wait()
            output.seek(0)
            said = output.read().decode(errors="replace")
        if code in (0, 5):
            return None
        named = _FAILED.search(said)
        return named[1] if named else ""

    def _write(self, file: Path, source: bytes) -> None:
        """Bytecode is taken for current by the second of the file's time, so each writing has a second of its own."""
        self._time += 2
        file.write_bytes(source)
        os.utime(file, (self._time, self._time))


def run(
    chosen: Iterator[tuple[str, Defect]], reach: LineReach, jobs: int, seconds: float
) -> list[tuple[str, MutantVerdict]]:
    """Judge defects until the time is over or none is left."""
    verdicts: list[tuple[str, MutantVerdict]] = []
    turn, end = threading.Lock(), time.monotonic() + seconds

    def work(copy: Copy) -> None:
        while time.monotonic() < end:
            with turn:
                if (following := next(chosen, None)) is None:
                    return
                room, defect = following
                tests = reach.tests(defect)
            verdict = copy.judged(defect, tests)
            with turn:
                verdicts.append((room, verdict))
                print(f"{room}\t{verdict}" + ("" if tests else "\tno test reaches it"), flush=True)

    with tempfile.TemporaryDirectory(prefix="trainwright-mutants-") as folder, ThreadPoolExecutor(jobs) as threads:
        [*threads.map(work, [Copy.of_the_repository(Path(folder) / str(number)) for number in range(jobs)])]
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.mutants", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="no mutant is begun later (default: %(default)s)")
    parser.add_argument("--number", type=int, help="mutants at most (default: as many as there is time for)")
    parser.add_argument("--rooms", default=",".join(ROOMS), help="of %(default)s")
    parser.add_argument("--seed", default="1", help="chooses the mutants (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once (default: %(default)s)")
    parser.add_argument("tests", nargs="*", help="files and folders, and options of pytest (default: as make test)")
    arguments = parser.parse_args()
    rooms = [room for room in re.split(r"[,\s]+", arguments.rooms) if room] or list(ROOMS)
    if unknown := sorted({*rooms} - {*ROOMS}):
        parser.error(f"no such room: {', '.join(unknown)}; use {', '.join(ROOMS)}")
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # else what no test runs counts for the test that started this
    reach = LineReach(arguments.tests or all_tests())
    chosen = itertools.islice(sampled(rooms, arguments.seed), arguments.number)
    verdicts = run(chosen, reach, arguments.jobs, arguments.minutes * 60)
    (FOLDER / "table.tsv").write_text("".join(sorted(f"{room}\t{one}\n" for room, one in verdicts)))
    for name in (*rooms, ""):
        own = [one for room, one in verdicts if name in (room, "") and one.says != "unjudged"]
        rungs = ", ".join(f"{rung} {sum(one.by == rung for one in own)}" for rung in RUNGS)
        found = f"found {sum(one.says == 'found' for one in own)} of {len(own)} mutants"
        print(f"{name}: {found}: {rungs}" if name else found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
