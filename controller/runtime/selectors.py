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
class Requirement:
    """One term: a label, an operator (in, notin, exists, absent) and its values."""

    label: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy this term; `notin` holds for a missing label."""
        if self.operator == "exists":
            return self.label in labels
        if self.operator == "absent":
            return self.label not in labels
        if self.operator == "in":
            return labels.get(self.label) in self.values
        return labels.get(self.label) not in self.values


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Matches if all requirements hold; without requirements everything matches."""

    requirements: tuple[Requirement, ...] = ()

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


def _parse_term(term: str) -> Requirement:
    if match := _SET.match(term):
        values = frozenset(value.strip() for value in match[3].split(","))
        return Requirement(match[1], match[2], values)
    if match := _EQUAL.match(term):
        return Requirement(match[1], "notin" if match[2] == "!=" else "in", frozenset({match[3]}))
    if match := _EXISTS.match(term):
        return Requirement(match[2], "absent" if match[1] else "exists")
    raise ConfigurationError(f"label selector: cannot parse {term.strip()!r}; write a=b, a!=b, a in (b,c), a or !a")
