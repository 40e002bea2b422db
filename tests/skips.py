# SPDX-License-Identifier: Apache-2.0
"""In CI (`CI` is set) a run in which a test was skipped fails, and names it: a skip hides that nothing was tested.

What cannot run on a machine is left out by the markers of `tests/conftest.py`. Expected failures are no skips.
"""

import os

import pytest

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that was skipped."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(f"{report.nodeid}: {_reason(report.longrepr)}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that was skipped."""
    if report.skipped:
        _skipped.append(f"{report.nodeid}: {_reason(report.longrepr)}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run."""
    if os.environ.get("CI") and _skipped and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            for line in _skipped:
                reporter.write_line(f"skipped in CI, which counts as a failure: {line}", red=True)


def _reason(found: object) -> str:
    return str(found[2]) if isinstance(found, tuple) else str(found)
