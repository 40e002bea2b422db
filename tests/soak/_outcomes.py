# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for `repeat.py`: writes what became of the tests of a run, which a log would have to be read for.

    pytest -p tests.soak._outcomes --outcomes FILE

FILE is JSON: `counts`, the reports per outcome as pytest's last line has them; `failed`, the ids of tests and files
that failed or could not be set up, taken down or collected.
"""

import json
from pathlib import Path

import pytest

_FAILED = ("failed", "error")
_NOT_COUNTED = ("", "warnings", "deselected")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addoption("--outcomes", required=True, metavar="FILE", help="file to write the outcomes to")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the file. The workers of pytest-xdist have no summary, so it is written once."""
    stats = terminalreporter.stats
    outcomes = {
        "counts": {name: len(reports) for name, reports in stats.items() if name not in _NOT_COUNTED},
        "failed": sorted({report.nodeid for name in _FAILED for report in stats.get(name, ())}),
    }
    Path(str(config.getoption("--outcomes"))).write_text(json.dumps(outcomes))
