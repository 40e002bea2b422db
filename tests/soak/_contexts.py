# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for `coverage.py`: tells Coverage.py which test runs, so that it keeps the lines of each apart.

    coverage run -m pytest -p tests.soak._contexts

Processes that a test starts find its name in PYTEST_CURRENT_TEST, which pytest sets itself.
"""

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count setup, test and teardown as the test's, and all parameters of a function together."""
    measuring = coverage.Coverage.current()
    assert measuring is not None, "run me under Coverage.py"
    measuring.switch_context(item.nodeid.partition("[")[0])
    try:
        return (yield)
    finally:
        measuring.switch_context("")
