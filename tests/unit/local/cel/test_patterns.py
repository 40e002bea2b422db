# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of Go in Python."""

import sys

import pytest

from tests.cases import cases
from trainwright.api.extras import MissingExtraError, install
from trainwright.controller.local.types.patterns import PatternError, compiled

CASES = cases(__file__)


@pytest.mark.parametrize(("pattern", "matches", "differs"), CASES["what_matches"])
def test_what_matches(pattern: str, matches: list[str], differs: list[str]) -> None:
    search = compiled(pattern).search  # anchored nowhere
    assert [text for text in matches if not search(text)] == []
    assert [text for text in differs if search(text)] == []


@pytest.mark.parametrize("pattern", CASES["what_is_refused"])
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compiled(pattern)


@pytest.mark.parametrize(("pattern", "text", "found"), CASES["all_matches"])
def test_all_matches(pattern: str, text: str, found: list[str]) -> None:
    assert list(compiled(pattern).find(text)) == found


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(a*)*b?$", "^([a-z0-9]+-?)+$", "(.*)(.*)(.*)(.*)(.*)x$"])
def test_a_match_takes_time_linear_in_the_text(pattern: str) -> None:
    # An engine that backtracks needs longer than the life of the sun.
    assert not compiled(pattern).search("a" * 10_000 + "!")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtraError) as error:
        compiled("a")
    assert str(error.value) == f"offline validation needs google-re2: {install(['google-re2'])}"
