# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of Go: what a schema's `pattern` and CEL's `find` mean.

Go and RE2 share their syntax (https://github.com/google/re2/wiki/Syntax) and the promise that a match takes time linear
in the text, so no pattern and no text can hold up the process.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from trainwright.api.extras import load


class PatternError(ValueError):
    """Not a regular expression."""


class Pattern:
    """A compiled expression. It works on UTF-8, which spares a conversion of all positions."""

    def __init__(self, expression: Any) -> None:
        self._expression = expression

    def search(self, text: str) -> bool:
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
    """The expression. Raises PatternError, and MissingExtraError if google-re2 is not installed."""
    re2 = load("re2")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        expression = re2.compile(_encoded(pattern), options)
    except re2.error as error:
        raise PatternError(error.args[0].decode("utf-8", "replace")) from None
    return Pattern(expression)


def _encoded(text: str) -> bytes:
    """As UTF-8, where half a surrogate pair is the replacement character, as in Go's strings."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
