# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of Go (RE2) as Python's: what a schema's `pattern` and CEL's `find` mean.

Both languages share most of their syntax. Translated are: `$` (the very end in Go), `\\z`, `\\C`, `\\Q…\\E`,
`\\x{…}`, POSIX and Unicode classes, flags in the middle of an expression, `\\s` without the vertical tab, and `{,n}`,
which is literal in Go. What Go does not know is refused: references to groups, looking ahead and behind, possessive
quantifiers. Matches are ASCII for `\\d`, `\\w` and `\\b`, as in Go.

Reference: https://github.com/google/re2/wiki/Syntax.
"""

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import cache

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_SPACE = "\\t\\n\\f\\r "


def _ranges(pairs: list[tuple[int, int]]) -> list[str]:
    return [f"\\U{low:08x}-\\U{high:08x}" for low, high in pairs]


_CLASSES = {
    **{name: f"\\{name}" for name in "dDwW"},
    "s": _SPACE,
    "S": "".join(_ranges([(0, 8), (11, 11), (14, 31), (33, sys.maxunicode)])),
}
_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC", "HAN", "HIRAGANA", "KATAKANA", "ARABIC", "HEBREW")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_GROUP = re.compile(r"\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)]))")


class PatternError(ValueError):
    """Not a regular expression of Go; the text is Go's."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression; use `search`, since nothing is anchored.

    Raises:
        PatternError: the expression is not one of Go, or cannot be translated.
    """
    try:
        return re.compile(_Translation(pattern).translated(), re.ASCII)
    except (re.error, OverflowError) as error:
        raise PatternError(str(error), pattern) from error


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._made: list[str] = []
        self._open: list[list[str]] = [[]]
        """For each open group, the groups of ours inside it: flags in its middle, for the rest of it."""
        self._multiline = [False]
        self._repeatable = False
        """Whether something stands before that a quantifier can repeat."""
        self._repeated = False
        """Whether it has a quantifier already."""

    def translated(self) -> str:
        while self._at < len(self._pattern):
            self._step()
        if len(self._open) > 1:
            raise PatternError("missing closing )", self._pattern)
        return "".join(self._made) + ")" * len(self._open[0])

    def _step(self) -> None:
        character = self._pattern[self._at]
        match character:
            case "\\":
                self._escape()
            case "[":
                self._emit(self._class())
            case "(":
                self._group()
            case ")":
                self._close()
            case "$":
                self._at += 1
                self._emit("$" if self._multiline[-1] else "\\Z")
            case "*" | "+" | "?":
                self._quantifier(character)
            case "{" if (repeat := _REPEAT.match(self._pattern, self._at)) is not None:
                self._bounds(repeat)
            case "|":
                self._at += 1
                # Flags go on behind the bar, but it divides the group around.
                inside = self._open[-1]
                self._made.append(")" * len(inside) + "|" + "".join(inside))
                self._repeatable = self._repeated = False
            case _:
                self._at += 1
                self._emit("\\" + character if character in "{}" else character)

    def _emit(self, text: str) -> None:
        self._made.append(text)
        self._repeatable, self._repeated = True, False

    def _quantifier(self, text: str) -> None:
        self._at += len(text)
        if not self._repeatable:
            raise PatternError("missing argument to repetition operator", text)
        if self._repeated:
            raise PatternError("invalid nested repetition operator", self._made[-1] + text)
        if self._pattern[self._at : self._at + 1] == "?":
            self._at += 1
            text += "?"
        self._made.append(text)
        self._repeated = True

    def _bounds(self, repeat: re.Match[str]) -> None:
        least, most = int(repeat[1]), int(repeat[3] or repeat[1])
        if most < least or max(least, most) > 1000:
            raise PatternError("invalid repeat count", repeat[0])
        self._quantifier(repeat[0])

    def _escape(self) -> None:
        text = self._pattern[self._at : self._at + 2]
        if len(text) == 1:
            raise PatternError("trailing backslash at end of expression", "")
        if text == "\\Q":
            end = self._pattern.find("\\E", self._at)
            end = len(self._pattern) if end < 0 else end
            for character in self._pattern[self._at + 2 : end]:
                self._emit(re.escape(character))
            self._at = end + 2
        elif text in ("\\A", "\\b", "\\B"):
            self._at += 2
            self._emit(text)
        elif text == "\\z":
            self._at += 2
            self._emit("\\Z")
        else:
            members, single = self._escaped()
            self._emit(members if single else f"[{members}]")

    def _escaped(self) -> tuple[str, bool]:
        """An escape that is valid inside a class too: its text there, and whether it is a single character."""
        pattern, at = self._pattern, self._at
        character = pattern[at + 1]
        self._at += 2
        if character in "pP":
            return self._unicode(character == "P"), False
        if character in _CLASSES:
            return _CLASSES[character], False
        return self._single(character), True

    def _single(self, character: str) -> str:
        if character == "x":
            return self._hexadecimal()
        if character in "01234567":
            return self._octal()
        if character in "afnrtv":
            return "\\" + character
        if character.isascii() and not character.isalnum():
            return re.escape(character)
        raise PatternError("invalid escape sequence", "\\" + character)

    def _hexadecimal(self) -> str:
        found = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self._pattern, self._at)
        if found is None or int(found[1] or found[2], 16) > sys.maxunicode:
            raise PatternError("invalid escape sequence", "\\x" + self._pattern[self._at : self._at + 2])
        self._at = found.end()
        return re.escape(chr(int(found[1] or found[2], 16)))

    def _octal(self) -> str:
        found = re.compile(r"[0-7]{1,3}").match(self._pattern, self._at - 1)
        assert found is not None
        if found[0][0] != "0" and len(found[0]) == 1:
            raise PatternError("invalid escape sequence", "\\" + found[0])  # a reference to a group
        self._at = found.end()
        return re.escape(chr(int(found[0], 8)))

    def _unicode(self, negated: bool) -> str:
        found = re.compile(r"\{(\^?)(\w+)\}|(\w)").match(self._pattern, self._at)
        if found is None:
            raise PatternError("invalid character class range", "\\p" + self._pattern[self._at : self._at + 1])
        self._at = found.end()
        name = found[2] or found[3]
        members = _unicode_class(name, negated != bool(found[1]))
        if members is None:
            raise PatternError("invalid character class range", f"\\p{{{name}}}")
        return members

    def _class(self) -> str:
        start = self._at
        self._at += 1
        made = ["["]
        if self._pattern[self._at : self._at + 1] == "^":
            self._at += 1
            made.append("^")
        first = True
        while first or self._pattern[self._at : self._at + 1] != "]":
            if self._at >= len(self._pattern):
                raise PatternError("missing closing ]", self._pattern[start:])
            made.append(self._member())
            first = False
        self._at += 1
        return "".join(made) + "]"

    def _member(self) -> str:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self._pattern, self._at)
        if posix is not None:
            if posix[2] not in _POSIX:
                raise PatternError("invalid character class range", posix[0])
            self._at = posix.end()
            return _complement(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
        character = self._pattern[self._at]
        if character == "\\":
            if self._at + 1 >= len(self._pattern):
                raise PatternError("missing closing ]", self._pattern)
            return self._escaped()[0]
        self._at += 1
        return "\\" + character if character in "[]&~|" else character

    def _group(self) -> None:
        self._at += 1
        self._open.append([])
        self._multiline.append(self._multiline[-1])
        text = "("
        if self._pattern[self._at : self._at + 1] == "?":
            found = _GROUP.match(self._pattern, self._at)
            if found is None or "U" in (found[2] or "") + (found[3] or ""):
                raise PatternError("invalid or unsupported Perl syntax", "(" + self._pattern[self._at : self._at + 2])
            self._at = found.end()
            text = f"(?P<{found[1]}>" if found[1] else self._flags(found[2], found[3] or "")
            if found[4] == ")":
                # Flags for the rest of the group around: a group of its own in Python.
                self._open.pop()
                self._multiline[-2:] = [self._multiline[-1]]
                self._open[-1].append(text)
        self._made.append(text)
        self._repeatable = self._repeated = False

    def _flags(self, on: str, off: str) -> str:
        if "m" in on + off:
            self._multiline[-1] = "m" in on
        on, off = "".join(sorted(set(on))), "".join(sorted(set(off)))
        return f"(?{on}-{off}:" if off else f"(?{on}:"

    def _close(self) -> None:
        if len(self._open) == 1:
            raise PatternError("unexpected )", self._pattern)
        self._at += 1
        self._multiline.pop()
        self._emit(")" * (len(self._open.pop()) + 1))


def _complement(members: str) -> str:
    inside = re.compile(f"[{members}]")
    return "".join(_ranges([*_runs(lambda character: inside.match(character) is None, limit=0x80), (0x80, 0x10FFFF)]))


def _runs(wanted: Callable[[str], bool], limit: int = sys.maxunicode + 1) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for code in range(limit):
        if wanted(chr(code)):
            if runs and runs[-1][1] == code - 1:
                runs[-1] = (runs[-1][0], code)
            else:
                runs.append((code, code))
    return runs


@cache
def _unicode_class(name: str, negated: bool) -> str | None:
    """The members of a Unicode category or one of the larger scripts. Takes half a second, once."""
    if name.upper() in _SCRIPTS:
        start = {"HAN": "CJK UNIFIED"}.get(name.upper(), name.upper()) + " "
        runs = _runs(lambda character: unicodedata.name(character, "").startswith(start) is not negated)
    elif len(name) <= 2 and name[0] in "LMNPSZC":
        runs = _runs(lambda character: unicodedata.category(character).startswith(name) is not negated)
    else:
        return None
    return "".join(_ranges(runs))
