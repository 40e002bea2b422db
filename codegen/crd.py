# SPDX-License-Identifier: Apache-2.0
"""Makes CustomResourceDefinitions that an API server accepts from authored ones.

It expands references, drops keywords that only this compiler knows, and reduces metadata to what the API server keeps:
at the root the server handles metadata itself, and embedded metadata has five fields.
"""

import copy
import json
from typing import Any

from trainwright.api.manifest import dump
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Kind, Schema
from trainwright.codegen.output import BANNER, MARK

OBJECT_META = "meta/v1/ObjectMeta"

COMPILER_WORDS = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-group-version-kind")
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
EMBEDDED_METADATA: Schema = {
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
    if schema.get("$ref") == OBJECT_META:
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        return {**copy.deepcopy(EMBEDDED_METADATA), **_own_words(beside)}
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
        if word not in COMPILER_WORDS and word not in inner and not (word == "additionalProperties" and value is True)
    }


def render(catalog: Catalog, kind: Kind) -> dict[str, Any]:
    assert kind.crd is not None, f"{kind.name} is not authored as a CustomResourceDefinition"
    document = copy.deepcopy(kind.crd)
    schema = expand(catalog, kind.definition.schema, root=True)
    document["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return document


def files(catalog: Catalog) -> dict[str, str]:
    """The files of config/crd by path: each kind of this project, and the kustomization that lists them."""
    made: dict[str, str] = {}
    for kind in catalog.kinds.values():
        if kind.installed and kind.crd is not None:
            name = f"{kind.definition.package.group}_{kind.plural}.yaml"
            made[name] = BANNER + dump(render(catalog, kind))
    listing = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(made),
    }
    made["kustomization.yaml"] = BANNER + dump(listing)
    return made


SHIPPED = {"trainer.kubeflow.org": "controller/cli/local", "jobset.x-k8s.io": "controller/local/workloads/jobset"}
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
