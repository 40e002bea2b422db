# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of Go in Python."""

import sys

import pytest

from trainwright.api.extras import MissingExtraError, install
from trainwright.controller.local.types.patterns import PatternError, compiled


@pytest.mark.parametrize(
    ("pattern", "matches", "differs"),
    [
        ("^a$", ["a"], ["a\n", "ab", "ba"]),
        ("(?m)^a$", ["a", "b\na\nc"], ["ab"]),
        ("a", ["xay"], ["b"]),
        (r"\Aa\z", ["a"], ["a\n"]),
        (r"^\d+$", ["12"], ["\N{ARABIC-INDIC DIGIT ONE}", "x"]),
        (r"^\w+$", ["a_1"], ["\N{LATIN SMALL LETTER E WITH ACUTE}"]),
        (r"^\s$", [" ", "\t"], ["\v"]),
        (r"^[\s\S]$", ["\v", "a"], [""]),
        (r"^\S$", ["\v", "a"], [" "]),
        ("^[[:alpha:]_]+$", ["ab_"], ["a1"]),
        ("^[[:^digit:]]$", ["a", "\N{LATIN SMALL LETTER E WITH ACUTE}"], ["1"]),
        (r"^\p{L}+$", ["a\N{LATIN SMALL LETTER E WITH ACUTE}"], ["1"]),
        (r"^\PL$", ["1"], ["a"]),
        (r"^\p{Greek}$", ["\N{GREEK SMALL LETTER ALPHA}"], ["a"]),
        (r"^\Qa.b\E+$", ["a.b", "a.bb"], ["axb"]),
        ("(?i)^a$", ["A", "a"], ["b"]),
        ("^a(?i)b$", ["ab", "aB"], ["AB"]),
        ("^(a(?i)b|c)d$", ["aBd", "Cd"], ["aBD"]),
        ("^(?i:a)b$", ["Ab"], ["AB"]),
        ("^(?P<x>a)(?<y>b)$", ["ab"], ["a"]),
        ("^a{2}$", ["aa"], ["a{2}"]),
        ("^a{,2}$", ["a{,2}"], ["aa"]),
        ("^{}$", ["{}"], [""]),
        (r"^\x41\x{1F600}$", ["A\N{GRINNING FACE}"], ["A"]),
        (r"^\-\_\/$", ["-_/"], [""]),
        ("^a+?b*?$", ["aab"], [""]),
        ("^[]a]$", ["]", "a"], ["b"]),
        ("^[a-c&&b]$", ["a", "&"], ["d"]),
        ("^a{,99999}$", ["a{,99999}"], ["a"]),
        ("^a{0001}$", ["a{0001}"], ["a"]),
        ("^[(]{2}$", ["(("], ["("]),
        ("^(?<n>a)(?<n>b)$", ["ab"], ["a"]),
        ("^.$", ["\N{GRINNING FACE}", "\ud800"], ["ab"]),
    ],
)
def test_what_matches(pattern: str, matches: list[str], differs: list[str]) -> None:
    search = compiled(pattern).search  # anchored nowhere
    assert [text for text in matches if not search(text)] == []
    assert [text for text in differs if search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("[a", "missing closing ]: `[a`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("x(?<!a)", "invalid named capture: `(?<!a)`"),
        ("(?<=a>b)", "invalid named capture: `(?<=a>`"),
        (
            "(?P<\N{LATIN SMALL LETTER E WITH ACUTE}>a)",
            "invalid named capture: `(?P<\N{LATIN SMALL LETTER E WITH ACUTE}>`",
        ),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("a{2,99999999999}", "invalid repeat count: `{2,99999999999}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
    ],
)
def test_what_go_refuses(pattern: str, text: str) -> None:
    with pytest.raises(PatternError) as caught:
        compiled(pattern)
    assert str(caught.value) == f"error parsing regexp: {text}"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b*", "abc", ["", "b", ""]),
        ("b*", "\N{GRINNING FACE}b", ["", "b"]),
        ("", "a\N{GRINNING FACE}", ["", "", ""]),
        ("[0-9]+", "1 22 x333", ["1", "22", "333"]),
        ("x", "", []),
    ],
)
def test_all_matches(pattern: str, text: str, found: list[str]) -> None:
    assert list(compiled(pattern).find(text)) == found


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(a*)*b?$", "^([a-z0-9]+-?)+$", "(.*)(.*)(.*)(.*)(.*)x$"])
def test_a_match_takes_time_linear_in_the_text(pattern: str) -> None:
    # An engine that backtracks needs longer than the life of the sun.
    assert not compiled(pattern).search("a" * 10_000 + "!")


def test_nested_groups() -> None:
    compiled("(" * 999 + ")" * 999)
    compiled("(?:" * 1001 + ")" * 1001)
    with pytest.raises(PatternError, match="expression nests too deeply"):
        compiled("(" * 1000 + ")" * 1000)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtraError) as error:
        compiled("a")
    assert str(error.value) == f"offline validation needs google-re2: {install(['google-re2'])}"
