# SPDX-License-Identifier: Apache-2.0
"""Keeps figures of `make bench` in docs/figures.json, which `hack/check` compares with what the pages say.

Reads the output of the benchmarks from standard input and passes it on. A line that is the path of a script says whose
lines follow. What was not measured this time stays as it was: each figure has its date, and the machine factor then.
"""

import json
import re
import sys
from collections.abc import Iterator
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


class Claim(NamedTuple):
    """What a page says of a figure."""

    page: str
    sentence: str
    """The groups are the lowest and the highest value; one group alone is the highest."""
    slack: float = 1.0
    """For `about`: the value may be so many times the highest."""


CLAIMS = {
    "bare applies in the CPU of a life": Claim(
        "docs/weaknesses.md", r"as much CPU time as (\d+) to (\d+) bare requests", 1.05
    ),
    "MiB with 1,000 jobs": Claim("docs/admins/sizing.md", r"\| 1,000 \| (?:[\d.]+) MiB, at most ([\d.]+) MiB"),
    "MiB with 10,000 jobs": Claim("docs/admins/sizing.md", r"\| 10,000 \| (?:[\d.]+) MiB, at most ([\d.]+) MiB"),
    "writes after a restart": Claim("docs/admins/sizing.md", r"(\d+) writes after a restart"),
    "s of CPU for a restart": Claim("docs/admins/sizing.md", r"([\d.]+) to ([\d.]+) s of CPU until", 1.25),
    "ms of CPU for a report, kept connection": Claim(
        "docs/admins/progress.md", r"about ([\d.]+) ms of CPU on a kept connection", 1.25
    ),
    "ms of CPU for a report, new connection": Claim("docs/admins/progress.md", r"(\d+) ms with a new one", 1.25),
    "ms that a streaming list blocks": Claim("docs/runtime/differences.md", r"the stream for (\d+) ms", 1.25),
    "ms that a paged list blocks": Claim("docs/runtime/differences.md", r"blocks the loop for (\d+) ms", 1.25),
    "ms of CPU, first local cluster": Claim(
        "docs/runtime/envtest.md", r"first cluster of a session, without definitions \| (\d+) ms", 1.25
    ),
    "ms of CPU, local cluster": Claim("docs/runtime/envtest.md", r"each further one, start to end \| (\d+) ms", 1.25),
    "ms of CPU, first local cluster with definitions": Claim(
        "docs/runtime/envtest.md", r"which are read once a session \| (\d+) ms", 1.25
    ),
    "ms of CPU, local cluster with definitions": Claim(
        "docs/runtime/envtest.md", r"each further cluster with them \| (\d+) ms", 1.25
    ),
    "microseconds of an update": Claim("docs/users/progress.md", r"in about (\d+) microseconds?", 1.25),
}


def contradictions() -> Iterator[str]:
    """What pages say otherwise than what was measured last.

    Times are divided by the machine factor, since pages give them for a machine of factor 1. A figure that was not
    measured since the file began is not compared; its sentence must be there all the same.
    """
    measured = read()
    for name, claim in CLAIMS.items():
        page = " ".join((FILE.parents[1] / claim.page).read_text(encoding="utf-8").split())
        match = re.search(claim.sentence, page)
        if match is None:
            yield f"{claim.page}: the sentence with the figure {name!r} is missing: {claim.sentence}"
        elif known := measured.get(name):
            value = known["value"] / ((known["machine"] or 1.0) if FIGURES[name].is_time else 1.0)
            *lowest, highest = map(float, match.groups())
            if value > claim.slack * highest or (lowest and value < lowest[0] / claim.slack):
                yield f"{claim.page} says {match[0]!r}, make bench printed {value:g}: correct the page"
    for name in FIGURES.keys() ^ CLAIMS.keys():
        yield f"hack/figures.py: {name!r} has no pattern or no page"


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
