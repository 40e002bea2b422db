# SPDX-License-Identifier: Apache-2.0
"""A custom resource with every kind of list, map and freedom that a schema can give, and random documents of it."""

import copy
from random import Random
from typing import Any

Document = dict[str, Any]

_TEXT = {"type": "string"}
_PORT = {
    "type": "object",
    "properties": {"port": {"type": "integer"}, "protocol": {**_TEXT, "default": "TCP"}, "note": _TEXT},
    "required": ["port"],
}
_SPEC: Document = {
    "type": "object",
    "properties": {
        "text": _TEXT,
        "number": {"type": "integer"},
        "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "empty": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}},
        "unit": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _TEXT, "b": _TEXT}},
        "plain": {"type": "array", "items": _TEXT},
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array",
            "items": _PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": _TEXT,
                    "value": _TEXT,
                    "inner": {"type": "object", "properties": {"a": _TEXT, "b": {"type": "integer"}}},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
_STATUS: Document = {
    "type": "object",
    "properties": {
        "phase": _TEXT,
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": _TEXT, "status": _TEXT, "reason": _TEXT},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}


def definition(plural: str) -> Document:
    """The CustomResourceDefinition, with two versions of one schema and a status endpoint."""
    schema = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
    versions: list[Document] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1",
            "schema": {"openAPIV3Schema": copy.deepcopy(schema)},
            "subresources": {"status": {}},
        }
        for name in ("v1", "v2")
    ]
    group = "apply.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": versions,
        },
    }


class Gadgets:
    """Makes documents that the server takes: no nulls, no repeated items, nothing undeclared."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def document(self) -> Document:
        """Metadata, spec and status, each in parts."""
        made: Document = {"metadata": self._metadata(), "spec": self._spec()}
        if self._random.random() < 0.5:
            made["status"] = self._status()
        return made

    def _some(self, chance: float = 0.4) -> bool:
        return self._random.random() < chance

    def _text(self) -> str:
        return self._random.choice(["x", "y", "z<&>", ""])

    def _names(self) -> list[str]:
        return self._random.sample(["a", "b", "c", "d", "e"], self._random.randint(0, 4))

    def _metadata(self) -> Document:
        made: Document = {}
        if self._some():
            made["labels"] = {name: self._random.choice("123") for name in self._names()}
        if self._some(0.2):
            made["annotations"] = {name: self._text() for name in self._names()}
        if self._some(0.2):
            made["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": self._random.choice("pq"), "uid": name}
                for name in self._names()
            ]
        return made

    def _spec(self) -> Document:
        makers: dict[str, Any] = {
            "text": self._text,
            "number": lambda: self._random.randint(0, 2),
            "flag": self._some,
            "either": lambda: self._random.choice([1, "1", "many"]),
            "when": lambda: self._random.choice(["2026-11-20T08:30:00Z", "2027-01-01T00:00:00Z"]),
            "free": self._free,
            "table": lambda: {name: self._random.randint(0, 2) for name in self._names()},
            "unit": lambda: {name: self._text() for name in "ab" if self._some()},
            "plain": self._names,
            "tags": self._names,
            "ports": self._ports,
            "items": lambda: [self._item(name) for name in self._names()],
            "template": self._template,
        }
        return {name: make() for name, make in makers.items() if self._some()}

    def _free(self) -> Document:
        return {name: self._random.choice([1, "x", [1, 2], {}, {"a": 1, "b": {"c": True}}]) for name in self._names()}

    def _ports(self) -> list[Document]:
        numbers = self._random.sample([80, 443, 8080, 1_000_000], self._random.randint(0, 3))
        made = []
        for number in numbers:
            # The default is a key too; it is spelled out, so that defaulting changes nothing.
            protocol = self._random.choice(["TCP", "UDP"])
            made.append({"port": number, "protocol": protocol} | ({"note": self._text()} if self._some() else {}))
        return made

    def _item(self, name: str) -> Document:
        made: Document = {"name": name}
        if self._some():
            made["value"] = self._text()
        if self._some():
            made["inner"] = {"a": self._text()} | ({"b": self._random.randint(0, 2)} if self._some() else {})
        return made

    def _template(self) -> Document:
        metadata = {"name": "t"} | ({"labels": {"a": self._random.choice("12")}} if self._some() else {})
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": self._text()}}

    def _status(self) -> Document:
        conditions = [
            {"type": name, "status": self._random.choice(["True", "False"])}
            for name in self._names()
            if self._some(0.8)
        ]
        return {"conditions": conditions} | ({"phase": self._text()} if self._some() else {})
