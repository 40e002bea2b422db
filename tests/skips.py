# SPDX-License-Identifier: Apache-2.0
"""What a run leaves out is told in its last lines, and fails the run in CI (`CI` is set) unless the reason is listed.

A test that is skipped or deselected proves nothing, and nobody sees it in a run of thousands. So each is counted by its
reason, also under pytest-xdist, whose workers deselect and have no terminal. `left_out.txt` beside this file lists the
reasons that are allowed in CI. Expected failures are not left out: they run.
"""

import os
import re
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.local.testing.pytest_plugin import needs_real

LISTED = Path(__file__).with_name("left_out.txt")
NEEDS, WHERE = "needs_environment", "only_where"
_OUTPUT = "trainwright_left_out"


def register(config: pytest.Config) -> None:
    """Declare the markers, and count from now on what is left out."""
    config.addinivalue_line(
        "markers",
        f"{NEEDS}(variable): left out unless the variable names a virtual environment that the project does "
        "not install, such as one with a framework",
    )
    config.addinivalue_line(
        "markers", f"{WHERE}(condition, reason): left out unless the condition holds, such as on another system"
    )
    config.pluginmanager.register(LeftOut(config), "left-out")


def why_not(item: pytest.Item) -> str:
    """Why a test cannot run here; empty if it can."""
    for marker in item.iter_markers(NEEDS):
        if not os.environ.get(marker.args[0]):
            return f"{marker.args[0]} is not set"
    return next((str(marker.args[1]) for marker in item.iter_markers(WHERE) if not marker.args[0]), "")


class LeftOut:
    """The plugin that counts; one in each worker of pytest-xdist, and one where the terminal is."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        """A test or file for each reason."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests that cannot run here, of those that the command line selects."""
        left_out = [item for item in items if why_not(item)]
        items[:] = [item for item in items if not why_not(item)]
        config.hook.pytest_deselected(items=left_out)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Count what is deselected, by the project or by the command line."""
        for item in items:
            reason = why_not(item) or _only_real(item) or _selection(self._config)
            self._deselected[reason] += 1
            self._first.setdefault(reason, item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that was skipped. The reports of workers come here, too."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skip(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that was skipped."""
        if report.skipped:
            self._skip(report)

    def _skip(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        found = report.longrepr
        reason = (str(found[2]) if isinstance(found, tuple) else str(found)).removeprefix("Skipped: ")
        self._skipped[reason] += 1
        self._first.setdefault(reason, report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker deselected. All workers collect all tests, so their counts are not added up."""
        counts, first = getattr(node, "workeroutput", {}).get(_OUTPUT, ({}, {}))
        self._deselected |= Counter(counts)
        self._first = first | self._first

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """In a worker, pass on the counts; elsewhere in CI, fail a run that left something out for another reason."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = (dict(self._deselected), self._first)
        elif self._unlisted() and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _unlisted(self) -> set[str]:
        """In CI, the reasons that are not allowed."""
        if not os.environ.get("CI") or self._config.option.collectonly:
            return set()
        return {reason for reason in self._deselected + self._skipped if not is_listed(reason)}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Tell what was left out, right above the line with the counts."""
        yield
        unlisted = self._unlisted()
        for reason, count in sorted((self._deselected + self._skipped).items()):
            line = f"left out {count}: {reason}"
            if reason in unlisted:
                line += f"; CI fails since {LISTED.name} does not list this reason, first test: {self._first[reason]}"
            terminalreporter.write_line(line, red=reason in unlisted)


def is_listed(reason: str) -> bool:
    """Whether tests may be left out in CI for this reason."""
    return any(re.fullmatch(re.escape(line).replace(r"\*", ".*"), reason, re.DOTALL) for line in listed())


def listed() -> list[str]:
    """The reasons of the list, in which `*` stands for any text."""
    lines = (line.strip() for line in LISTED.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _only_real(item: pytest.Item) -> str:
    """Why a test does not run on the local API server, if that is where this run is; see its pytest plugin."""
    if item.config.getoption("--control-plane", default="real") == "real":
        return ""
    reason = needs_real(item)
    return f"real control plane: {reason}" if reason else ""


def _selection(config: pytest.Config) -> str:
    """What of the command line selects tests."""
    options = config.option
    chosen = [
        f'{flag} "{value}"'
        for flag, name in (("-k", "keyword"), ("-m", "markexpr"))
        if (value := getattr(options, name))
    ]
    chosen += [
        flag
        for flag, name in (("--deselect", "deselect"), ("--last-failed", "lf"), ("--stepwise", "stepwise"))
        if getattr(options, name, None)
    ]
    return " ".join(chosen) or "deselected by a plugin"
