# SPDX-License-Identifier: Apache-2.0
"""Figures on the pages are those that `make bench` last printed, as docs/figures.json keeps them.

A figure that was not measured since the file began is not compared; its sentence must be there all the same. Times are
divided by the machine factor, since pages give them for a machine of factor 1.
"""

import io
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from hack import figures
from tests.repository import ROOT


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


def claimed(name: str) -> re.Match[str]:
    """The sentence of the page."""
    claim = CLAIMS[name]
    match = re.search(claim.sentence, " ".join((ROOT / claim.page).read_text(encoding="utf-8").split()))
    assert match, f"{claim.page}: {claim.sentence}"
    return match


def broken(name: str, value: float, machine: float | None) -> str:
    """How the page contradicts the value; empty: it does not."""
    claim, match = CLAIMS[name], claimed(name)
    *lowest, highest = map(float, match.groups())
    if figures.FIGURES[name].is_time:
        value /= machine or 1.0
    if value > claim.slack * highest or (lowest and value < lowest[0] / claim.slack):
        return f"{claim.page} says {match[0]!r}, make bench printed {value:g}: correct the page"
    return ""


def test_each_figure_has_a_page() -> None:
    assert CLAIMS.keys() == figures.FIGURES.keys()


@pytest.mark.parametrize("name", CLAIMS)
def test_the_page_says_what_was_measured(name: str) -> None:
    assert claimed(name)[0]
    known = figures.read().get(name)
    assert not known or broken(name, known["value"], known["machine"]) == ""


def test_a_page_that_says_something_else_is_found() -> None:
    assert "correct the page" in broken("bare applies in the CPU of a life", 15.0, 1.0)
    assert "correct the page" in broken("bare applies in the CPU of a life", 5.0, 1.0)
    assert broken("bare applies in the CPU of a life", 9.0, 1.0) == ""
    assert broken("microseconds of an update", 1.8, 1.5) == ""
    assert "correct the page" in broken("microseconds of an update", 1.8, 1.0)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_the_benchmark_prints_such_a_line(name: str) -> None:
    """The words of the pattern are in the script."""
    figure = figures.FIGURES[name]
    text = re.sub(r"\{[^}]*\}", "1000", (ROOT / "tests" / "bench" / f"{figure.script}.py").read_text(encoding="utf-8"))
    words = re.findall(r"[A-Za-z][A-Za-z, ]+[a-z]", figure.pattern)
    assert words
    assert [word for word in words if word not in text] == []


OUTPUT = """\
tests/bench/machine.py
machine factor 1.50: multiply the absolute times of the budgets by it
tests/bench/life.py
  CPU of a bare apply, aiohttp         0.612 ms   ratio   9.4 (budget 10)
  resident memory,  10000 jobs         175.3 MiB (budget 250)
  API writes after a restart               0    (budget 0)
tests/bench/progress_writer.py
file each 5 s                                      1.20     3.89    11.82  32096.70    10.8
"""


def test_output_becomes_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    old = {"value": 80.0, "date": "2026-01-02", "machine": 1.0}
    file.write_text(json.dumps({"MiB with 1,000 jobs": old}))
    monkeypatch.setattr(figures, "FILE", file)
    monkeypatch.setattr("sys.stdin", io.StringIO(OUTPUT))
    assert figures.main() == 0
    found = figures.read()
    assert found.pop("MiB with 1,000 jobs") == old
    assert {name: one["value"] for name, one in found.items()} == {
        "bare applies in the CPU of a life": 9.4,
        "MiB with 10,000 jobs": 175.3,
        "writes after a restart": 0.0,
        "microseconds of an update": 1.2,
    }
    assert {one["machine"] for one in found.values()} == {1.5}


def test_a_script_that_failed_fails_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "figures.json").write_text("{}")
    monkeypatch.setattr(figures, "FILE", tmp_path / "figures.json")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{OUTPUT}{figures.FAILED}tests/bench/start.py\n"))
    assert figures.main() == 1
