# SPDX-License-Identifier: Apache-2.0
"""Makes CustomResourceDefinitions that an API server accepts, and JSON Schemas for editors, from authored schemas.

For the API server it expands references, drops keywords that only this compiler knows, and reduces metadata to what the
API server keeps: at the root the server handles metadata itself, and embedded metadata has five fields.

The JSON Schemas, one for each authored kind, also serve validation without an API server. They keep the keywords of
Kubernetes, because `trainwright render` reads list types, defaults and CEL rules from them. Unknown fields are errors,
so that an editor shows misspelled fields; the API server drops them instead.
"""

import copy
import json
from typing import Any

from trainwright.api.manifest import dump
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Kind, Schema
from trainwright.codegen.output import BANNER, MARK, RESOURCE_WORD

_OBJECT_META = "meta/v1/ObjectMeta"

_COMPILER_WORDS = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-group-version-kind")
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_EMBEDDED_METADATA: Schema = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}


def expand(catalog: Catalog, schema: Schema, *, root: bool = False) -> Schema:
    """The schema without references, as in a CustomResourceDefinition. At the root, metadata is left to the server."""
    if schema.get("$ref") == _OBJECT_META:
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        return {**copy.deepcopy(_EMBEDDED_METADATA), **_own_words(beside)}
    resolved = catalog.resolve(schema)
    out = _own_words(resolved)
    if "properties" in resolved:
        out["properties"] = {
            name: {"type": "object"} if root and name == "metadata" else expand(catalog, child)
            for name, child in sorted(resolved["properties"].items())
        }
    for word in ("items", "additionalProperties"):
        if isinstance(resolved.get(word), dict):
            out[word] = expand(catalog, resolved[word])
    if "required" in resolved:
        out["required"] = sorted(resolved["required"])
    return out


def _own_words(schema: Schema) -> Schema:
    inner = ("properties", "items")
    return {
        word: copy.deepcopy(value)
        for word, value in schema.items()
        if word not in _COMPILER_WORDS and word not in inner and not (word == "additionalProperties" and value is True)
    }


def render(catalog: Catalog, kind: Kind) -> dict[str, Any]:
    assert kind.crd is not None, f"{kind.name} is not authored as a CustomResourceDefinition"
    document = copy.deepcopy(kind.crd)
    schema = expand(catalog, kind.definition.schema, root=True)
    document["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return document


def files(catalog: Catalog) -> dict[str, str]:
    """The files of config/crd by path: each kind of this project with its versions, and their kustomization."""
    documents: dict[str, dict[str, Any]] = {}
    for kind in catalog.kinds.values():
        if kind.installed and kind.crd is not None:
            name = f"{kind.definition.package.group}_{kind.plural}.yaml"
            document = render(catalog, kind)
            if name in documents:  # another version of the kind, authored in a folder of its own
                documents[name]["spec"]["versions"] += document["spec"]["versions"]
            documents.setdefault(name, document)
    made = {name: BANNER + dump(document) for name, document in documents.items()}
    listing = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(made),
    }
    made["kustomization.yaml"] = BANNER + dump(listing)
    return made


SHIPPED = {"trainer.kubeflow.org": "controller/cli/local", "jobset.x-k8s.io": "controller/local/controllers"}
"""Where the local cluster finds the definitions that it installs, by group."""


def shipped(catalog: Catalog) -> dict[str, str]:
    """The definitions of the local cluster by path, as JSON, which is read thirty times faster."""
    made: dict[str, str] = {}
    for kind in catalog.kinds.values():
        folder = SHIPPED.get(kind.definition.package.group)
        if folder is not None and kind.crd is not None:
            document = {"//": MARK, **render(catalog, kind)}
            made[f"{folder}/{kind.plural}.crd.json"] = json.dumps(document, separators=(",", ":")) + "\n"
    return made


_BOUNDS = {"int32": 2**31, "int64": 2**63}

_EMBEDDED_NAME = "EmbeddedObjectMeta"


def json_schemas(catalog: Catalog) -> dict[str, str]:
    """Text of every schema, by path below api/."""
    made: dict[str, str] = {}
    for kind in catalog.authored_kinds():
        path = f"{kind.definition.package.folder}/{kind.name.lower()}.schema.json"
        made[path] = json.dumps(_JsonSchema(catalog).render(kind), indent=1) + "\n"
    return made


def _served(kind: Kind) -> Schema:
    version: Schema = kind.crd["spec"]["versions"][0] if kind.crd is not None else {}
    return {
        "plural": kind.plural,
        "namespaced": kind.namespaced,
        "subresources": sorted(version.get("subresources", {})),
    }


class _JsonSchema:
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
            RESOURCE_WORD: _served(kind),
            "$defs": dict(sorted(self._definitions.items())),
        }

    def _convert(self, schema: Schema, *, root: bool = False) -> Schema:
        if "$ref" in schema:
            beside = {word: copy.deepcopy(value) for word, value in schema.items() if word != "$ref"}
            for word in _COMPILER_WORDS:
                beside.pop(word, None)
            return {"$ref": f"#/$defs/{self._define(schema['$ref'], root=root)}", **beside}
        out = {word: copy.deepcopy(value) for word, value in schema.items() if word not in _COMPILER_WORDS}
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
        if key == _OBJECT_META and not root:
            self._definitions[_EMBEDDED_NAME] = {**copy.deepcopy(_EMBEDDED_METADATA), "additionalProperties": False}
            return _EMBEDDED_NAME
        definition = self._catalog.definitions[key]
        name = key.replace("/", ".")
        if name not in self._definitions:
            self._definitions[name] = {}
            self._definitions[name] = self._convert(definition.schema)
        return name
