# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of Go in Python."""

import pytest

from trainwright.api.validation.patterns import PatternError, compiled


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
    ],
)
def test_what_matches(pattern: str, matches: list[str], differs: list[str]) -> None:
    search = compiled(pattern).search
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
        ("(?<!a)", "invalid or unsupported Perl syntax: `(?<`"),
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
