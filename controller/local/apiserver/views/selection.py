# SPDX-License-Identifier: Apache-2.0
"""Selectors of lists and watches, compiled to predicates."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.validation import names
from trainwright.controller.local.apiserver.merge.apply.values import SCALARS, shown
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds
from trainwright.controller.local.apiserver.views.jsonpath import compile_path

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_WORD = r"[^=!()<>, \t\r\n]+"
_COMMA = re.compile(r",(?![^()]*\))")
"""Not one between brackets."""
_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<label>{_WORD})\s*"
    rf"(?(absent)|(?:(?P<operator>==?|!=|>|<)\s*(?P<value>(?:{_WORD})?)\s*"
    r"|(?<=\s)(?P<among>in|notin)\s*\((?P<values>[^()]*)\)\s*)?)",
    re.ASCII,
)
_SAME = {"=": "in", "==": "in", "!=": "notin"}
_OF_SPECS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
"""Operators of selectors in specs."""
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class SelectorError(ValueError):
    """A selector is refused, with 400."""


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One term of a selector.

    Attributes:
        label: the key.
        operator: `in`, `notin`, `exists`, `absent`, `>` or `<`.
        values: of the operator.
    """

    label: str
    operator: str
    values: frozenset[str] = frozenset()

    def test(self) -> Test:
        """Whether labels meet it, as a function."""
        label, values = self.label, self.values
        match self.operator:
            case "exists":
                return lambda labels: label in labels
            case "absent":
                return lambda labels: label not in labels
            case "in" if len(values) == 1:
                (value,) = values
                return lambda labels: labels.get(label) == value
            case "in":
                return lambda labels: labels.get(label) in values
            case "notin":
                return lambda labels: labels.get(label) not in values
        (text,) = values
        bound, greater = int(text), self.operator == ">"

        def compare(labels: Labels) -> bool:
            number = _integer(labels.get(label, ""))
            return number is not None and (number > bound if greater else number < bound)

        return compare


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """Matches labels that meet every requirement.

    Attributes:
        requirements: sorted by label.
        labels: the keys that it reads.
        matches: whether labels match.
    """

    requirements: tuple[LabelRequirement, ...]
    labels: frozenset[str]
    matches: Test

    def matches_document(self, document: Mapping[str, Any]) -> bool:
        """Whether the labels of an object match."""
        return not self.requirements or self.matches((document.get("metadata") or {}).get("labels") or {})

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.requirements)


def compiled(requirements: Iterable[LabelRequirement]) -> LabelMatcher:
    """The selector of requirements."""
    terms = tuple(sorted(requirements, key=lambda requirement: requirement.label))
    tests = [requirement.test() for requirement in terms]
    if not tests:
        return EVERYTHING
    matches = tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)
    return LabelMatcher(terms, frozenset(term.label for term in terms), matches)


EVERYTHING = LabelMatcher((), frozenset(), lambda _: True)


def parse_label_selector(text: str) -> LabelMatcher:
    """Parse a query's selector, such as `app=web,tier in (a,b),!old,generation>3`.

    Raises:
        SelectorError: it cannot be parsed, or names an invalid label.
    """
    return compiled(map(_requirement, _COMMA.split(text))) if text.strip() else EVERYTHING


def _requirement(text: str) -> LabelRequirement:
    found = _TERM.fullmatch(text)
    if found is None:
        raise SelectorError(f"'{text}' is no term: write a, !a, a=b, a!=b, a in (b,c), a notin (b), a>1 or a<1")
    label, operator = found["label"], found["operator"] or found["among"]
    if operator is None:
        return _checked(label, "absent" if found["absent"] else "exists", ())
    values = found["values"].split(",") if found["among"] else [found["value"]]
    return _checked(label, _SAME.get(operator, operator), [value.strip(" \t\r\n") for value in values])


def _checked(label: str, operator: str, values: Collection[str]) -> LabelRequirement:
    if problems := names.qualified(label):
        raise SelectorError(f"'{label}' is no label: {problems[0]}")
    for value in values:
        if operator in (">", "<") and _integer(value) is None:
            raise SelectorError(f"{label}{operator}{value}: the value must be an integer")
        if problems := names.label_value(value):
            raise SelectorError(f"'{value}' is no value of a label: {problems[0]}")
    return LabelRequirement(label, operator, frozenset(values))


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def label_selector_of(selector: Mapping[str, Any] | None) -> LabelMatcher | None:
    """Compile a LabelSelector of a spec, with `matchLabels` and `matchExpressions`.

    An empty one matches everything; None, for an absent one, matches nothing.

    Raises:
        SelectorError: an operator is unknown, or a key or value is invalid.
    """
    if selector is None:
        return None
    terms = [_checked(label, "in", [value]) for label, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        label, values = expression.get("key", ""), expression.get("values") or []
        operator = expression.get("operator") or ""
        if operator not in _OF_SPECS:
            raise SelectorError(f"'{operator}' is no operator of label selectors: use {', '.join(_OF_SPECS)}")
        if bool(values) != (operator in ("In", "NotIn")):
            raise SelectorError(f"{operator} of '{label}' {'has no' if values else 'needs'} values")
        terms.append(_checked(label, _OF_SPECS[operator], values))
    return compiled(terms)


Document = Mapping[str, Any]
Reader = Callable[[Document], str]
Term = tuple[str, str, str]
"""A field label, `=` or `!=`, and the value."""

SelectableFields = Mapping[str, Reader]
"""The field labels of a kind, and how the value of each is read from an object."""

_PART = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|$)", re.DOTALL)
"""What is between commas that are not escaped."""
_FIELD_TERM = re.compile(r"(?P<label>[^=]*?)(?P<sign>!=|==?)(?P<value>(?:[^\\,=]|\\[\\,=])*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LITERAL = re.compile(r"(?=.*[A-Za-z])(?!(?:true|false)$)[A-Za-z0-9._/:-]+").fullmatch
"""Texts that JSON writes as they are, and that stand for no number, no truth value and no absent field."""


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Matches objects whose fields have all the values.

    Attributes:
        terms: sorted by label.
        fields: the labels that it reads.
        matches: whether an object matches.
        literals: bytes that stand in every object that matches, as it is encoded.
    """

    terms: tuple[Term, ...]
    matches: Callable[[Document], bool]
    fields: frozenset[str] = field(default=frozenset())
    literals: tuple[bytes, ...] = ()

    def may_match(self, body: bytes) -> bool:
        """Whether an encoded object of a built-in kind can match. Spares decoding a thousand events to find five."""
        return all(map(body.__contains__, self.literals))

    def exact(self, label: str) -> str | None:
        """The one value that a field must have, such as the name that a watch is limited to."""
        return next((value for found, sign, value in self.terms if found == label and sign == "="), None)

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.terms)


def parse_field_selector(text: str, selectable: SelectableFields) -> FieldSelector:
    """Parse a query's selector, such as `spec.nodeName=a,status.phase!=Running`.

    Raises:
        SelectorError: it cannot be parsed, or the kind does not support a label.
    """
    terms = [_term(part) for part in _PART.findall(text) if part]
    # `=` and `!=` alone are terms that say nothing.
    terms = [term for term in terms if term[0] or term[2]]
    if unknown := [label for label, _, _ in terms if label not in selectable]:
        raise SelectorError(f"field label not supported: {unknown[0]}; use one of {', '.join(selectable)}")
    tests = [_test(selectable[label], sign, value) for label, sign, value in sorted(terms)]
    matches = tests[0] if len(tests) == 1 else lambda document: all(test(document) for test in tests)
    literals = tuple(value.encode() for _, sign, value in terms if sign == "=" and _LITERAL(value))
    return FieldSelector(tuple(sorted(terms)), matches, frozenset(label for label, _, _ in terms), literals)


def _term(part: str) -> Term:
    found = _FIELD_TERM.fullmatch(part)
    if found is None:
        raise SelectorError(f"'{part}' is no term: write a=b or a!=b, and escape commas, = and backslashes")
    return found["label"], "!=" if found["sign"] == "!=" else "=", _ESCAPED.sub(r"\1", found["value"])


def _test(read: Reader, sign: str, value: str) -> Callable[[Document], bool]:
    if sign == "=":
        return lambda document: read(document) == value
    return lambda document: read(document) != value


def _at(label: str, absent: str = "") -> Reader:
    """The value at a path; what stands for none is Go's zero value."""
    path = label.split(".")

    def read(document: Document) -> str:
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return shown(value) if type(value) in SCALARS else absent

    return read


def _first_pod_ip(pod: Document) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or ()
    return str(addresses[0].get("ip") or "") if addresses else ""


def _source(event: Document) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")


_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_ZEROS = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.replicas": "0"}
_OWN: Mapping[tuple[str, str], SelectableFields] = {
    ("v1", "Pod"): {
        "spec.host": _at("spec.nodeName"),
        "status.podIP": _first_pod_ip,
        # Supported, yet never set: an old flaw that is kept.
        "status.podIPs": lambda _: "",
    },
    ("v1", "Event"): {"source": _source},
    ("batch/v1", "Job"): {"status.successful": _at("status.succeeded", "0")},
}
"""Labels that are no path to a value."""


def selectable_fields(api_version: str, kind: str) -> SelectableFields:
    """The field labels of a built-in kind, as recorded: most have only name and namespace."""
    row, own = recorded_kinds().get((api_version, kind)), _OWN.get((api_version, kind), {})
    recorded = row.selectable if row is not None else ()
    named = (_NAME,) if row is not None and recorded and not row.namespaced else (_NAME, _NAMESPACE)
    return {**{path: _at(path, _ZEROS.get(path, "")) for path in (*named, *recorded)}, **own}


def custom_selectable_fields(json_paths: Iterable[str], *, namespaced: bool) -> SelectableFields:
    """The field labels of a custom resource, by the `jsonPath` of its `selectableFields`, such as `.spec.color`.

    Raises:
        JSONPathError: a path cannot be parsed.
    """
    named = {path: _at(path) for path in ((_NAME, _NAMESPACE) if namespaced else (_NAME,))}
    return named | {path.removeprefix("."): _found(path) for path in json_paths}


def _found(path: str) -> Reader:
    find = compile_path(path)

    def read(document: Document) -> str:
        found = find(document)
        return shown(found[0]) if found and found[0] is not None else ""

    return read
