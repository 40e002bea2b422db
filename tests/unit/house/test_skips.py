# SPDX-License-Identifier: Apache-2.0
"""What a run leaves out is told in its last lines; in CI it fails the run unless the reason is listed."""

import re

import pytest

from tests import skips
from tests.repository import ROOT

pytest_plugins = ["pytester"]
_CONFTEST = """
from tests.skips import register

def pytest_configure(config):
    config.addinivalue_line("markers", "parity: long")
    register(config)
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
_LEFT_OUT = """
import pytest

@pytest.mark.parity
def test_long():
    pass

@pytest.mark.only_where(False, "namespaces: none")
@pytest.mark.parametrize("number", [1, 2])
def test_of_a_machine(number):
    pass

@pytest.mark.needs_environment("TRAINWRIGHT_TORCH")
def test_of_a_variable():
    pass

def test_good():
    pass
"""
SIDE_BY_SIDE = pytest.mark.parametrize("workers", ["0", "2"])
"""Workers are processes, which take seconds; without them pytest runs in this process."""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeconftest(_CONFTEST)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("TRAINWRIGHT_TORCH", raising=False)
    return pytester


def run(project: pytest.Pytester, *arguments: str, workers: str = "0") -> pytest.RunResult:
    """Run pytest, in this process unless there are workers."""
    start = project.runpytest_inprocess if workers == "0" else project.runpytest_subprocess
    return start("-p", "no:randomly", "-p", "no:asyncio", "-n", workers, *arguments)


@SIDE_BY_SIDE
def test_a_skip_fails_in_ci_and_is_named(project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(test_some=_TESTS, test_more=_SKIPPED)
    result = run(project, workers=workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, skipped=2, xfailed=1)
    result.stdout.fnmatch_lines(["left out 1: no such library; CI fails since *, first test: test_more.py"])
    result.stdout.fnmatch_lines(["left out 1: no time; CI fails since *, first test: test_some.py::test_skipped"])
    assert re.search(r"1 passed, 2 skipped, 1 xfailed.* in ", result.outlines[-1])


@SIDE_BY_SIDE
def test_what_is_deselected_is_told_with_its_reason(project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(_LEFT_OUT)
    result = run(project, "-m", "not parity", workers=workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = [line for line in result.outlines if line.startswith("left out ")]
    assert told == result.outlines[-4:-1]
    assert told[0] == 'left out 1: -m "not parity"'
    assert told[1].startswith("left out 1: TRAINWRIGHT_TORCH is not set; CI fails")
    assert told[1].endswith("::test_of_a_variable")
    assert told[2] == "left out 2: namespaces: none"
    assert re.search(r"1 passed.* in ", result.outlines[-1])


def test_what_is_listed_fails_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(_LEFT_OUT.replace('needs_environment("TRAINWRIGHT_TORCH")', "only_where(True, '')"))
    result = run(project, "-m", "not parity")
    assert result.ret == pytest.ExitCode.OK
    assert "CI fails" not in result.stdout.str()


def test_a_selection_by_hand_fails_in_ci(project: pytest.Pytester) -> None:
    project.makepyfile(test_some="def test_good():\n    pass\n\ndef test_bad():\n    assert False\n")
    result = run(project, "-k", "good")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(['left out 1: -k "good"; CI fails since *'])


def test_nothing_else_fails(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(test_some="def test_good():\n    pass\n")
    assert run(project).ret == pytest.ExitCode.OK
    monkeypatch.delenv("CI")
    project.makepyfile(test_some=_TESTS)
    result = run(project)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["left out 1: no time"])


def test_what_is_not_run_fails_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(_LEFT_OUT)
    assert run(project, "--collect-only").ret == pytest.ExitCode.OK


def test_each_listed_reason_is_one_that_a_test_or_a_command_gives() -> None:
    sources = [ROOT / "Makefile", *(ROOT / "tests").rglob("*.py")]
    text = "\n".join(path.read_text() for path in sources if path.name != "test_skips.py")
    for reason in skips.listed():
        given = reason.partition("*")[0].removeprefix('-m "').removeprefix("real control plane: ").strip('" ')
        assert given in text, reason


def test_a_star_stands_for_any_text_and_nothing_else_does() -> None:
    assert skips.is_listed("this machine refuses namespaces: EPERM [1]")
    assert not skips.is_listed("real control plane: kubectl and more")
    assert not skips.is_listed("-m not parity")
