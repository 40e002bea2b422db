# SPDX-License-Identifier: Apache-2.0
"""A CustomResourceDefinition with every shape of schema that a server checks, and documents of it, right and wrong."""

from random import Random
from typing import Any

from tests.cases import cases

Document = dict[str, Any]
GROUP = "schema.example.com"

TEXT: Document = {"type": "string"}
NUMBER: Document = {"type": "integer"}
_DATA = cases(__file__)
FIELDS: dict[str, Document] = _DATA["fields"]
VALUES: dict[str, list[Any]] = _DATA["values"]
"""Values to try in each field."""
RULED: dict[str, Document] = _DATA["ruled"]
"""Fields with rules."""
RULED_VALUES: dict[str, list[Any]] = _DATA["ruled_values"]
"""Values to try in them."""


def definition(plural: str, fields: dict[str, Document], **words: Any) -> Document:
    """A definition with these fields in `spec` and in `status`."""
    body = {"type": "object", "properties": fields}
    root = {
        "type": "object",
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"type": "object"},
            "spec": {**body, **words},
            "status": body,
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": [version],
        },
    }


_SCALARS: list[Any] = ["a", "", 1, 1.5, 2.0, True, None, {}, [], {"a": 1}, ["a"], [None]]


def wild(random: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    if depth > 2 or random.random() < 0.6:
        return random.choice([*_SCALARS[:9], "ab", 3, -7, 2**40, "x" * 5])
    if random.random() < 0.5:
        return [wild(random, depth + 1) for _ in range(random.randint(0, 3))]
    names = random.sample(["a", "b", "name", "port", "protocol", "x", "apiVersion", "kind"], random.randint(0, 4))
    return {name: wild(random, depth + 1) for name in names}


def spec(random: Random, *, wildness: float = 0.15) -> Document:
    """Several fields with values of their lists or with anything."""
    names = random.sample(sorted(FIELDS), random.randint(1, 6))
    made = {name: wild(random) if random.random() < wildness else random.choice(VALUES[name]) for name in names}
    if random.random() < 0.2:
        made["unknown"] = wild(random)
    return made


def rules(*texts: str, message: str = "", **words: Any) -> list[Document]:
    """Rules, each with its text as message unless told otherwise."""
    return [{"rule": text, **({"message": message} if message else {}), **words} for text in texts]


def ruled_definition(plural: str) -> Document:
    """A definition whose fields have rules, as the object itself has."""
    crd = definition(plural, RULED)
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["x-kubernetes-validations"] = rules(
        "!self.metadata.name.startsWith('bad')", "!has(self.spec.number) || self.spec.number != 4"
    )
    return crd


def ruled_spec(random: Random) -> Document:
    """Several fields with values of their lists."""
    names = random.sample(sorted(RULED), random.randint(1, 6))
    return {name: random.choice(RULED_VALUES[name]) for name in names}
