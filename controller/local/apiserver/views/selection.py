# SPDX-License-Identifier: Apache-2.0
"""Field selectors, and the field labels that each kind supports.

https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/#list-of-supported-fields
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.selectors import SelectorError
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.views.jsonpath import compile_path
from trainwright.controller.local.values import SCALARS, shown

Document = Mapping[str, Any]
Reader = Callable[[Document], str]
Term = tuple[str, str, str]
"""A field label, `=` or `!=`, and the value."""

SelectableFields = Mapping[str, Reader]
"""The field labels of a kind, and how the value of each is read from an object."""

_PART = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|$)", re.DOTALL)
"""What is between commas that are not escaped."""
_TERM = re.compile(r"(?P<label>[^=]*?)(?P<sign>!=|==?)(?P<value>(?:[^\\,=]|\\[\\,=])*)", re.DOTALL)
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
    """Parse a selector such as `spec.nodeName=a,status.phase!=Running`. Raises SelectorError."""
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
    found = _TERM.fullmatch(part)
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


def selectable_fields(resource: Resource) -> SelectableFields:
    """The field labels of a kind: most have only name and namespace. Raises JSONPathError."""
    # As the real server, which lets many built-in kinds without a namespace be selected by it.
    named = (_NAME,) if not resource.namespaced and (resource.custom or resource.selectable) else (_NAME, _NAMESPACE)
    found = {path: _at(path) for path in named}
    if resource.custom:
        return found | {path.removeprefix("."): _found(path) for path in resource.selectable}
    recorded = {path: _at(path, _ZEROS.get(path, "")) for path in resource.selectable}
    return {**found, **recorded, **_OWN.get((resource.api_version, resource.kind), {})}


def _found(path: str) -> Reader:
    find = compile_path(path)

    def read(document: Document) -> str:
        found = find(document)
        return shown(found[0]) if found and found[0] is not None else ""

    return read
