# SPDX-License-Identifier: Apache-2.0
"""A test that executes no assertion fails; whatever can fail is an assertion."""

import pytest

pytest_plugins = ["pytester"]
_TESTS = """
import pytest
from tests.assertions import does_not_raise
from trainwright.controller.runtime.testing.waiting import eventually_sync

NOTHING = []

@pytest.fixture
def asserting():
    assert NOTHING == []
    yield
    assert NOTHING == []

def test_vacuous_loop(asserting):
    for item in NOTHING:
        assert item

def test_vacuous_constant():
    assert "a sentence"

def test_vacuous_end():
    int("1")

def test_sound_assert(asserting):
    assert NOTHING == []
    assert not NOTHING

def test_sound_refusal():
    with pytest.raises(ValueError):
        int("a")

def test_sound_wait():
    eventually_sync(lambda: not NOTHING)

def test_sound_end():
    with does_not_raise():
        int("1")

@pytest.mark.xfail(strict=True)
def test_sound_expected_failure():
    int("a")

def test_sound_after_a_failure():
    assert not NOTHING
"""


def test_a_test_without_an_assertion_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_TESTS)
    pytester.makeini("[pytest]\nenable_assertion_pass_hook = true")
    ran = pytester.inline_run("-p", "tests.assertions", "-p", "no:randomly", "-p", "no:asyncio")
    good, _, bad = ran.listoutcomes()
    assert {report.nodeid.split("::")[1][:12] for report in bad} == {"test_vacuous"}
    assert (len(bad), len(good)) == (3, 5)
