# SPDX-License-Identifier: Apache-2.0
"""Writes one JSON Schema for each authored kind, for editors and for validation without an API server.

It keeps the keywords of Kubernetes, because `trainwright render` reads list types, defaults and CEL rules from them.
Unknown fields are errors, so that an editor shows misspelled fields; the API server drops them instead.
"""

import copy
import json

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.crd import COMPILER_WORDS, EMBEDDED_METADATA, OBJECT_META
from trainwright.codegen.definition import Kind, Schema
from trainwright.codegen.output import RESOURCE_WORD

_BOUNDS = {"int32": 2**31, "int64": 2**63}

_EMBEDDED_NAME = "EmbeddedObjectMeta"


def files(catalog: Catalog) -> dict[str, str]:
    """Text of every schema, by path below api/."""
    made: dict[str, str] = {}
    for kind in catalog.authored_kinds():
        path = f"{kind.definition.package.folder}/{kind.name.lower()}.schema.json"
        made[path] = json.dumps(_Renderer(catalog).render(kind), indent=1) + "\n"
    return made


def _resource(kind: Kind) -> Schema:
    version: Schema = kind.crd["spec"]["versions"][0] if kind.crd is not None else {}
    return {
        "plural": kind.plural,
        "namespaced": kind.namespaced,
        "subresources": sorted(version.get("subresources", {})),
    }


class _Renderer:
    """Writes one schema and the definitions that it reaches."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._definitions: dict[str, Schema] = {}

    def render(self, kind: Kind) -> Schema:
        definition, package = kind.definition, kind.definition.package
        root = self._convert(definition.schema, root=True)
        root["properties"]["apiVersion"] = {"const": f"{package.group}/{package.version}"}
        root["properties"]["kind"] = {"const": kind.name}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": kind.name,
            **root,
            "required": sorted({"apiVersion", "kind", *root.get("required", ())}),
            RESOURCE_WORD: _resource(kind),
            "$defs": dict(sorted(self._definitions.items())),
        }

    def _convert(self, schema: Schema, *, root: bool = False) -> Schema:
        if "$ref" in schema:
            beside = {word: copy.deepcopy(value) for word, value in schema.items() if word != "$ref"}
            for word in COMPILER_WORDS:
                beside.pop(word, None)
            return {"$ref": f"#/$defs/{self._define(schema['$ref'], root=root)}", **beside}
        out = {word: copy.deepcopy(value) for word, value in schema.items() if word not in COMPILER_WORDS}
        if "properties" in schema:
            out["properties"] = {
                name: self._convert(child, root=root and name == "metadata")
                for name, child in sorted(schema["properties"].items())
            }
        for word in ("items", "additionalProperties"):
            if isinstance(schema.get(word), dict):
                out[word] = self._convert(schema[word])
        if out.get("type") == "object" and not out.keys() & {
            "additionalProperties",
            "x-kubernetes-preserve-unknown-fields",
        }:
            out["additionalProperties"] = False
        if (bound := _BOUNDS.get(str(out.get("format")))) is not None:
            out.setdefault("minimum", -bound)
            out.setdefault("maximum", bound - 1)
        return out

    def _define(self, key: str, *, root: bool) -> str:
        if key == OBJECT_META and not root:
            self._definitions[_EMBEDDED_NAME] = {**copy.deepcopy(EMBEDDED_METADATA), "additionalProperties": False}
            return _EMBEDDED_NAME
        definition = self._catalog.definitions[key]
        name = key.replace("/", ".")
        if name not in self._definitions:
            self._definitions[name] = {}
            self._definitions[name] = self._convert(definition.schema)
        return name
