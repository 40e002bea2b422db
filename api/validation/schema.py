# SPDX-License-Identifier: Apache-2.0
"""Reads the generated JSON Schemas as the structural schemas that they were made from."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

_API = Path(__file__).resolve().parents[1]


class KindSchema:
    """The schema of one kind and how the kind is served."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self._definitions: dict[str, Schema] = document["$defs"]
        self._resolved: dict[int, Schema] = {}
        resource = document["x-kubernetes-resource"]
        self.served: bool = bool(resource["plural"])
        self.namespaced: bool = resource["namespaced"]
        self.has_status: bool = "status" in resource["subresources"]

    def resolve(self, schema: Schema) -> Schema:
        """The schema with its reference resolved; keywords beside the reference take precedence, and rules add up."""
        reference = schema.get("$ref")
        if reference is None:
            return schema
        known = self._resolved.get(id(schema))
        if known is None:
            target = self.resolve(self._definitions[reference.removeprefix("#/$defs/")])
            rules = [*target.get("x-kubernetes-validations", ()), *schema.get("x-kubernetes-validations", ())]
            known = {**target, **schema}
            del known["$ref"]
            if rules:
                known["x-kubernetes-validations"] = rules
            self._resolved[id(schema)] = known
        return known

    def parts(self) -> Iterator[Schema]:
        """All schemas in the document, including definitions; references are not followed."""
        queue: list[Schema] = [self.document, *self._definitions.values()]
        while queue:
            schema = queue.pop()
            yield schema
            queue.extend(schema.get("properties", {}).values())
            queue.extend(
                inner for word in ("items", "additionalProperties") if isinstance(inner := schema.get(word), dict)
            )

    def field(self, schema: Schema, name: str) -> Schema | None:
        """The resolved schema of a field or of a value of a map; `None` when the schema does not know it."""
        found = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        return self.resolve(found) if isinstance(found, dict) else None

    def items(self, schema: Schema) -> Schema:
        """The resolved schema of the items of a list."""
        return self.resolve(schema.get("items", {}))


def children(kind: KindSchema, schema: Schema, value: Any) -> Iterator[tuple[str | int, Schema, Any]]:
    """The parts of a value, each with its schema. Metadata at the root is left out: the server handles it itself."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "metadata" and schema is kind.document:
                continue
            known = kind.field(schema, name)
            if known is not None:
                yield name, known, inner
    elif isinstance(value, list) and "items" in schema:
        items = kind.items(schema)
        for index, inner in enumerate(value):
            yield index, items, inner


@cache
def schemas() -> dict[tuple[str, str], KindSchema]:
    """Every generated schema by apiVersion and kind."""
    found: dict[tuple[str, str], KindSchema] = {}
    for path in sorted(_API.glob("*/*/*.schema.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        properties = document["properties"]
        found[properties["apiVersion"]["const"], properties["kind"]["const"]] = KindSchema(document)
    return found
