# SPDX-License-Identifier: Apache-2.0
"""Label selectors in string form, parsed and matched as the API server does.

Used where an object is matched without the server: for the answer of a write, which may or may not belong in a cache
with a selector, and for cached lists.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainwright.controller.runtime.errors import ConfigurationError

_SET = re.compile(r"^\s*([^\s!=(),]+)\s+(in|notin)\s*\(([^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s!=(),]+)\s*(==|=|!=)\s*([^\s!=(),]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=(),]+)\s*$")


@dataclass(frozen=True, slots=True)
class _Requirement:
    label: str
    values: frozenset[str] | None = None
    """None: the label must be there, whatever its value."""
    negated: bool = False
    """A label that is missing satisfies a negated term."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        held = self.label in labels if self.values is None else labels.get(self.label) in self.values
        return held is not self.negated


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Matches if all requirements hold; without requirements everything matches."""

    requirements: tuple[_Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


def _terms(text: str) -> Iterable[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def parse_label_selector(text: str) -> LabelSelector:
    """Parse a selector such as `app=web,tier in (a,b),!old`. Raises ConfigurationError that quotes the wrong term."""
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_parse_term(term) for term in _terms(text)))


def _parse_term(term: str) -> _Requirement:
    if match := _SET.match(term):
        values = frozenset(value.strip() for value in match[3].split(","))
        return _Requirement(match[1], values, match[2] == "notin")
    if match := _EQUAL.match(term):
        return _Requirement(match[1], frozenset({match[3]}), match[2] == "!=")
    if match := _EXISTS.match(term):
        return _Requirement(match[2], negated=bool(match[1]))
    raise ConfigurationError(f"label selector: cannot parse {term.strip()!r}; write a=b, a!=b, a in (b,c), a or !a")
