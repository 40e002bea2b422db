# SPDX-License-Identifier: Apache-2.0
"""A skipped test fails a run in CI, and what cannot run on a machine is left out."""

import pytest

from tests.repository import ROOT

pytest_plugins = ["pytester"]
_CONFTEST = """
from tests.skips import pytest_collectreport, pytest_runtest_logreport, pytest_sessionfinish
"""
_TESTS = """
import pytest

def test_good():
    pass

@pytest.mark.skip(reason="no time")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert False
"""
_SKIPPED = 'import pytest\npytest.skip("no such library", allow_module_level=True)\n'


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeconftest(_CONFTEST)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("CI", "true")
    return pytester


def test_a_skip_fails_in_ci_and_is_named(project: pytest.Pytester) -> None:
    project.makepyfile(test_some=_TESTS, test_more=_SKIPPED)
    result = project.runpytest_subprocess("-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, skipped=2, xfailed=1)
    result.stdout.fnmatch_lines(["*counts as a failure: test_some.py::test_skipped: *no time*"])
    result.stdout.fnmatch_lines(["*counts as a failure: test_more.py: *no such library*"])


def test_nothing_else_fails(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(test_some="def test_good():\n    pass\n")
    assert project.runpytest_subprocess("-n", "0").ret == pytest.ExitCode.OK
    monkeypatch.delenv("CI")
    project.makepyfile(test_some=_TESTS)
    assert project.runpytest_subprocess("-n", "0").ret == pytest.ExitCode.OK
