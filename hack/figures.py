# SPDX-License-Identifier: Apache-2.0
"""Keeps figures of `make bench` in docs/figures.json, which tests compare with what the pages say.

Reads the output of the benchmarks from standard input and passes it on. A line that is the path of a script says whose
lines follow. What was not measured this time stays as it was: each figure has its date, and the machine factor then.
"""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parent.parent / "docs" / "figures.json"
FAILED = "failed: "
"""Begins the line after the output of a script that failed."""
_SCRIPT = re.compile(r"tests/bench/(\w+)\.py$")
_MACHINE = re.compile(r"^machine factor ([\d.]+)")


class Figure(NamedTuple):
    """A figure that a page gives."""

    script: str
    """Below tests/bench, without its ending."""
    pattern: str
    """The line that prints it; the group is its value."""
    is_time: bool = False
    """Whether it grows with the machine factor."""


_LAG, _OURS = "loop lag p99 during", r" .*ours [\d.]+, max ([\d.]+)"
_ALONE, _DEFINED = r"^API server alone \(budget 300 ms\):", r"^with this project's three definitions \(0\.8 MB\):"
FIGURES = {
    "bare applies in the CPU of a life": Figure("life", r"^  CPU of a bare apply, aiohttp .*ratio +([\d.]+)"),
    "MiB with 1,000 jobs": Figure("life", r"^  resident memory, +1000 jobs +([\d.]+) MiB"),
    "MiB with 10,000 jobs": Figure("life", r"^  resident memory, +10000 jobs +([\d.]+) MiB"),
    "writes after a restart": Figure("life", r"^  API writes after a restart +(\d+)"),
    "s of CPU for a restart": Figure("life", r"^  restart until all lists are there .*CPU ([\d.]+) s", True),
    "ms of CPU for a report, kept connection": Figure(
        "progress", r"CPU of a report, kept connection +([\d.]+) ms", True
    ),
    "ms of CPU for a report, new connection": Figure(
        "progress", r"CPU of a report, new TLS connection +([\d.]+) ms", True
    ),
    "ms that a streaming list blocks": Figure("runtime", rf"{_LAG}[ ]streaming list[ ]of 10000 pods{_OURS}", True),
    "ms that a paged list blocks": Figure("runtime", rf"{_LAG}[ ]paged list[ ]of 10000 pods{_OURS}", True),
    "ms of CPU, first local cluster": Figure("local_cluster", rf"{_ALONE} the first (\d+) ms", True),
    "ms of CPU, local cluster": Figure("local_cluster", rf"{_ALONE} .*each further one (\d+) ms", True),
    "ms of CPU, first local cluster with definitions": Figure("local_cluster", rf"{_DEFINED} the first (\d+) ms", True),
    "ms of CPU, local cluster with definitions": Figure(
        "local_cluster", rf"{_DEFINED} .*each further one (\d+) ms", True
    ),
    "microseconds of an update": Figure("progress_writer", r"^file each 5 s +([\d.]+) ", True),
}


def found_in(script: str, line: str) -> dict[str, float]:
    """The figures that a line of a script's output gives."""
    matches = {name: re.search(one.pattern, line) for name, one in FIGURES.items() if one.script == script}
    return {name: float(match[1]) for name, match in matches.items() if match}


def read() -> dict[str, dict[str, Any]]:
    """The figures by name: `value`, `date`, `machine`."""
    known: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return known


def main() -> int:
    """Exit code 1 if a script failed."""
    known, script, machine, code = read(), "", None, 0
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
        if match := _SCRIPT.match(line.rstrip("\n")):
            script = match[1]
        elif match := _MACHINE.match(line):
            machine = float(match[1])
        elif line.startswith(FAILED):
            code = 1
        else:
            date = datetime.now(UTC).date().isoformat()
            for name, value in found_in(script, line).items():
                known[name] = {"value": value, "date": date, "machine": machine}
    FILE.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
