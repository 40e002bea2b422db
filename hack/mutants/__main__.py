# SPDX-License-Identifier: Apache-2.0
"""Plants defects in copies of the repository, and runs the tests that reach them: `make mutants`.

Which tests run which line is measured once and kept in build/mutants; delete that folder to measure again. Rooms take
turns; the seed and the name of a defect determine its place, so that the others keep theirs when code goes. A test
counts only if it passes without the defect. Verdicts are appended to the table as they come: SIGTERM stops after the
current one, --table continues. Neither the work tree nor the home is changed. See docs/contributing/power.md.
"""

import argparse
import contextlib
import hashlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

from hack.mutants.defects import Defect, defects_of
from tests.repository import ROOT
from tests.soak.coverage import LineReach
from tests.soak.repeat import all_tests
from trainwright.controller.runtime.testing.component import start_guarded

FOLDER = ROOT / "build" / "mutants"
ROOMS = {name: name for name in ("api", "codegen", "plugins")}
ROOMS |= {name: f"controller/{name}" for name in ("runtime", "trainer", "local", "cli", "initialize")}
ROOMS |= {"progress": "trainwright/progress.py"}
RUNGS = {"unit": (120, 60.0), "simulation": (5, 20.0), "integration": (8, 40.0), "e2e": (2, 20.0)}
"""Folders of tests, the cheapest first: tests of one run of pytest, and seconds after which no other run begins."""
BATCH_SECONDS, TEST_SECONDS, SOUND_SECONDS = 150.0, 40, 10.0
"""Limits of a run and of a test. Hitting one proves something only of a test that takes less than the third without the
defect: else the machine is busy."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::[^\s\[]+)?)", re.MULTILINE)
_BEGUN = re.compile(r"^(tests/\S+?\.py::[^\s\[]+)", re.MULTILINE)


class MutantVerdict(NamedTuple):
    """A line of the table."""

    room: str
    says: str
    """`found`, `survived`, or `unjudged`: no test that reaches it passes without it."""
    rung: str
    seconds: str
    ran: str
    """Tests that were run, of those that reach it."""
    name: str
    test: str


def verdicts_of(table: Path) -> list[MutantVerdict]:
    return [MutantVerdict(*line.split("\t")) for line in table.read_text().splitlines()] if table.exists() else []


def reaching(defect: Defect, reach: LineReach, first: str) -> list[str]:
    """Functions of tests that run its statement, or if imports run it, anything of what it is in; the cheapest rung and
    then those of which the largest part is in the module come first, after `first`, if there is such a test."""
    found = reach.tests(defect.module, [defect.line])
    if "" in found or not defect.function:
        found = reach.tests(defect.module, defect.within)
    there = [test for test in {first, *found} if rung_of(test) in RUNGS and is_there(test)]
    return sorted(there, key=lambda test: (test != first, [*RUNGS].index(rung_of(test)), -found.get(test, 0), test))


def rung_of(test: str) -> str:
    return test.split("/")[1] if test.startswith("tests/") else ""


def is_there(test: str) -> bool:
    file, _, function = test.partition("::")
    return (ROOT / file).exists() and f"def {function.rpartition('::')[2]}(" in (ROOT / file).read_text()


def modules_of(room: str) -> list[str]:
    place = ROOT / ROOMS[room]
    return [str(path.relative_to(ROOT)) for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]


def defects_in(room: str) -> list[Defect]:
    return [one for path in modules_of(room) for one in defects_of(path, (ROOT / path).read_bytes())]


def sampled(rooms: Sequence[str], seed: str) -> Iterator[tuple[str, Defect, str]]:
    """Defects of each room in an order that the seed determines; the rooms take turns."""

    def place(one: Defect) -> bytes:
        key = (seed, Path(one.module).name, one.function, one.what, str(one.number))
        return hashlib.sha256(" ".join(key).encode()).digest()

    orders = [[(room, one, "") for one in sorted(defects_in(room), key=place)] for room in rooms]
    return (one for turn in itertools.zip_longest(*orders) for one in turn if one is not None)


def found_before(rooms: Sequence[str], table: Path) -> Iterator[tuple[str, Defect, str]]:
    """What tests found then, in the module where it was, or the only one that has such a function; and the test."""
    for room in rooms:
        places = defaultdict(list)
        for one in defects_in(room):
            places[one.name].append(one)
            places[one.name.partition(":")[2]].append(one)
        for then in verdicts_of(table):
            now = places[then.name] or places[then.name.partition(":")[2]]
            if (then.room, then.says, len(now)) == (room, "found", 1):
                yield room, now[0], then.test


@dataclass(slots=True)
class Copy:
    """Of the repository. One defect at a time is planted in it."""

    root: Path
    sound: dict[str, float] = field(default_factory=dict)
    """Seconds of each test that was run without a defect; infinite if it failed."""
    _time: float = field(default_factory=time.time)

    @classmethod
    def of_the_repository(cls, root: Path) -> "Copy":
        command = ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_symlink() or (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        return cls(root)

    def judged(self, room: str, defect: Defect, tests: Sequence[str]) -> MutantVerdict:
        begin, ran, finder = time.monotonic(), 0, ""
        for rung, those in itertools.groupby(tests, rung_of):
            size, seconds = RUNGS[rung]
            waiting, rung_begin = [test for test in those if self.sound.get(test) != inf], time.monotonic()
            while waiting and not finder and time.monotonic() < rung_begin + seconds:
                batch, waiting = waiting[:size], waiting[size:]
                suspect, begun, is_late = self._failed(batch, defect)
                ran += len(begun)
                if suspect and self._proves(suspect, defect, is_late=is_late):
                    finder = suspect
                elif suspect:
                    waiting[:0] = [test for test in batch if test not in begun and not test.startswith(suspect)]
        says = "found" if finder else "unjudged" if tests and not ran else "survived"
        took = f"{time.monotonic() - begin:.1f}"
        return MutantVerdict(room, says, rung_of(finder) or "-", took, f"{ran}/{len(tests)}", defect.name, finder)

    def _proves(self, test: str, defect: Defect, *, is_late: bool) -> bool:
        """Whether it passes without the defect; what takes time, which may fail by chance, must fail with it again."""
        if test not in self.sound or is_late:
            begin = time.monotonic()
            self.sound[test] = inf if self._failed([test])[0] else time.monotonic() - begin
        is_sound = self.sound[test] <= (SOUND_SECONDS if is_late else BATCH_SECONDS)
        return is_sound and ((rung_of(test) == "unit" and not is_late) or bool(self._failed([test], defect)[0]))

    def _failed(self, tests: Sequence[str], defect: Defect | None = None) -> tuple[str, set[str], bool]:
        """The first test that fails with the defect, empty if all pass; those that began; whether it hit a limit."""
        options = f"-x -v --tb=line -p no:cacheprovider -p no:randomly -o timeout={TEST_SECONDS}".split()
        command = [sys.executable, "-m", "pytest", "--control-plane=local", *options, *tests]
        # A defect may write to the home of whoever runs this, or end a cluster of theirs.
        (home := self.root.parent / f"home-{self.root.name}").mkdir(exist_ok=True)
        unset = dict.fromkeys(("CI", "KUBECONFIG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "")
        environment = {**os.environ, **unset, "HOME": str(home), "PYTHONPATH": str(self.root)}
        code = None
        with tempfile.TemporaryFile() as output, contextlib.ExitStack() as planted:
            if defect is not None:
                source = (file := self.root / defect.module).read_bytes()
                self._write(file, defect.planted(source))
                planted.callback(self._write, file, source)
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
            return "", set(tests), False
        begun, named = _BEGUN.findall(said), _FAILED.search(said)
        # None is named if nothing can be imported, or the run hangs.
        suspect = named[1] if named else begun[-1] if begun else tests[0]
        return suspect, {*begun}, code is None or "Timeout (>" in said

    def _write(self, file: Path, source: bytes) -> None:
        """Bytecode is taken for current by the second of the file's time, so each writing has a second of its own."""
        self._time += 2
        file.write_bytes(source)
        os.utime(file, (self._time, self._time))


def run(chosen: Iterator[tuple[str, Defect, str]], reach: LineReach, jobs: int, seconds: float, table: Path) -> None:
    """Judge defects, and append the verdicts to the table, until the time is over or none is left."""
    turn, stop, end = threading.Lock(), threading.Event(), time.monotonic() + seconds
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def work(copy: Copy) -> None:
        while time.monotonic() < end and not stop.is_set():
            with turn:
                if (following := next(chosen, None)) is None:
                    return
                room, defect, first = following
                tests = reaching(defect, reach, first)
            row = "\t".join(copy.judged(room, defect, tests))
            with turn, table.open("a") as rows:
                print(row, file=rows)
                print(row, flush=True)

    with tempfile.TemporaryDirectory(prefix="trainwright-mutants-") as folder, ThreadPoolExecutor(jobs) as threads:
        [*threads.map(work, [Copy.of_the_repository(Path(folder) / str(number)) for number in range(jobs)])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.mutants", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="no mutant is begun later (default: %(default)s)")
    parser.add_argument("--number", type=int, help="mutants at most (default: as many as there is time for)")
    parser.add_argument("--rooms", default=",".join(ROOMS), help="of %(default)s")
    parser.add_argument("--seed", default="1", help="chooses the mutants (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once (default: %(default)s)")
    parser.add_argument("--table", type=Path, help="continue this one (default: begin build/mutants/table.tsv)")
    parser.add_argument("--against", type=Path, help="judge what was found in this table, not what the seed chooses")
    parser.add_argument("tests", nargs="*", help="files and folders, and options of pytest (default: as make test)")
    arguments = parser.parse_args()
    rooms = [room for room in re.split(r"[,\s]+", arguments.rooms) if room] or list(ROOMS)
    if unknown := sorted({*rooms} - {*ROOMS}):
        parser.error(f"no such room: {', '.join(unknown)}; use {', '.join(ROOMS)}")
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # else what no test runs counts for the test that started this
    selection = arguments.tests or all_tests()
    key = hashlib.sha256("\0".join(selection).encode()).hexdigest()[:8]
    sources = sorted({path for room in ROOMS for path in modules_of(room)})
    reach = LineReach(FOLDER / f"reach-{key}", selection, sources)
    table = arguments.table or FOLDER / "table.tsv"
    if arguments.table is None:
        table.unlink(missing_ok=True)
    judged = {one.name for one in verdicts_of(table)}
    chosen = found_before(rooms, arguments.against) if arguments.against else sampled(rooms, arguments.seed)
    left = (one for one in itertools.islice(chosen, arguments.number) if one[1].name not in judged)
    run(left, reach, arguments.jobs, arguments.minutes * 60, table)
    for name in (*rooms, ""):
        own = [one for one in verdicts_of(table) if name in (one.room, "") and one.says != "unjudged"]
        rungs = ", ".join(f"{rung} {sum(one.rung == rung for one in own)}" for rung in RUNGS)
        found = f"found {sum(one.says == 'found' for one in own)} of {len(own)} mutants"
        print(f"{name}: {found}: {rungs}" if name else found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
