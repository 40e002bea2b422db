# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of Go: what a schema's `pattern` and CEL's `find` mean.

Go and RE2 share their syntax (https://github.com/google/re2/wiki/Syntax) and the promise that a match takes time linear
in the text, so no pattern and no text can hold up the process. Only the words of errors differ.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from trainwright.api.extras import load

_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""The words of Go for those of RE2, where they differ."""
_DEPTH = 1000
"""How deeply Go lets capturing groups nest."""
_REPEATS = 1000
_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|\Z)|\\.                             # literal text, an escape
      |\[\^?\]?(?:\[:\^?\w*:\]|\\.|[^\]\\])*\]?          # a class
      |\(\?P?<(?P<name>[^>]*)>|\(\?|\(|\)                # groups
      |\{(?P<least>0|[1-9]\d*)(?:,(?P<most>0|[1-9]\d*)?)?\}  # a count; with leading zeros it is text
    """,
    re.DOTALL | re.VERBOSE,
)
_NAME = re.compile(r"[0-9A-Za-z_]+")


class PatternError(ValueError):
    """Not a regular expression of Go; the text is Go's."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


class Pattern:
    """A compiled expression. It works on UTF-8, which spares a conversion of all positions."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def search(self, text: str) -> bool:
        """Whether it matches somewhere: nothing is anchored."""
        return self._expression.search(_encoded(text)) is not None

    def find(self, text: str) -> Iterator[str]:
        """All matches that do not overlap, from left to right. An empty one does not follow another at its end."""
        data = _encoded(text)
        at, last = 0, -1
        while at <= len(data) and (match := self._expression.search(data, at)) is not None:
            begin, end = match.span()
            if begin != end or begin != last:
                yield data[begin:end].decode()
            at = last = end
            if begin == end:
                at += 1
                while at < len(data) and data[at] & 0xC0 == 0x80:  # inside a character
                    at += 1


@lru_cache(maxsize=2048)
def compiled(pattern: str) -> Pattern:
    """The expression.

    Raises:
        PatternError: the expression is not one of Go.
        MissingExtraError: google-re2 is not installed.
    """
    re2 = load("re2")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        expression = re2.compile(_encoded(pattern), options)
    except re2.error as error:
        raise _go_error(pattern, error.args[0].decode("utf-8", "replace")) from None
    _refuse_what_go_refuses(pattern)
    return Pattern(expression)


def _go_error(pattern: str, text: str) -> PatternError:
    if text.startswith("pattern too large"):
        return PatternError("expression too large", "")
    what, _, where = text.partition(": ")
    if where.startswith("(?<"):  # looking behind: Go takes it for the name of a group
        rest, end, _ = pattern[pattern.find(where) :].partition(">")
        return PatternError("invalid named capture", rest + end)
    return PatternError(_WORDS.get(what, what), where)


def _refuse_what_go_refuses(pattern: str) -> None:
    """Raises PatternError for the little that RE2 knows and Go does not."""
    captures: list[bool] = []
    """Of the open groups, which of them capture."""
    depth = 0
    for token in _TOKEN.finditer(pattern):
        text, name = token[0], token["name"]
        if text == "\\C":
            raise PatternError("invalid escape sequence", text)
        if name is not None and not _NAME.fullmatch(name):
            raise PatternError("invalid named capture", text)
        if any(len(number or "") > 4 or int(number or 0) > _REPEATS for number in token.group("least", "most")):
            raise PatternError("invalid repeat count", text)
        if text.startswith("("):
            captures.append(text != "(?")
            depth += captures[-1]
        elif text == ")":
            depth -= captures.pop()
        if depth >= _DEPTH:
            raise PatternError("expression nests too deeply", pattern)


def _encoded(text: str) -> bytes:
    """As UTF-8, where half a surrogate pair is the replacement character, as in Go's strings."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
