# SPDX-License-Identifier: Apache-2.0
"""Definitions that an API server refuses or takes, each one change of a good one."""

import copy
from collections.abc import Callable
from typing import Any

from tests.cases import cases

Document = dict[str, Any]
GROUP = "schema.example.com"


def good(plural: str = "things") -> Document:
    """A definition without mistakes, of one version."""
    kind = plural[:-1].title()
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


Change = Callable[[Document], object]


def field(schema: Document, **version: Any) -> Change:
    """The definition has a field of this schema."""

    def change(crd: Document) -> None:
        one = crd["spec"]["versions"][0]
        one["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["f"] = schema
        one |= version

    return change


def _merged(into: Document, patch: Document) -> None:
    for word, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(word), dict):
            _merged(into[word], value)
        elif value is None:
            into.pop(word, None)
        else:
            into[word] = value


def _ruled(schema: Document, rule: Document) -> Change:
    return field({**schema, "x-kubernetes-validations": [rule]})


_DATA: dict[str, Any] = cases(__file__)
_SHORT = {"type": "string", "maxLength": 10}
_TYPED: Document = _DATA["field"]["typed"]
"""A field of many types."""
CHANGES: dict[str, Change] = {
    **{name: field(schema) for name, schema in _DATA["fields"].items()},
    **{name: _ruled(_SHORT, rule) for name, rule in _DATA["rules"].items()},
    **{name: _ruled(_TYPED, rule) for name, rule in _DATA["typed"].items()},
    **{text: _ruled(_TYPED, {"rule": text}) for text in _DATA["texts"]},
    **{name: lambda crd, patch=patch: _merged(crd, copy.deepcopy(patch)) for name, patch in _DATA["patches"].items()},  # type: ignore[misc]
}
"""What makes the good definition another one, by name: a schema or a rule of its field, or a merge patch of it."""
