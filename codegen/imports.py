# SPDX-License-Identifier: Apache-2.0
"""Definitions of other projects as authored schemas: `trainwright generate DIR --import FILE`.

An object inside another becomes a definition that is named after its path, such as `JobSetSpecNetwork`, so names stay
when fields are added. Kept is what models need: fields, types, defaults, list types, texts. Other constraints are left
out, since the API server of that project checks them; so the definition is not written for an installation again.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from trainwright.api.manifest import dump
from trainwright.codegen.definition import CompileError, Schema, SchemaMistake

_KEPT = (
    "default",
    "enum",
    "required",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)
_FORMATS = {"int32", "int64", "float", "double", "date-time", "byte"}


def imported(file: Path) -> dict[str, str]:
    """The authored files, by path below the folder of schemas: one for each kind and version that is served.

    Raises CompileError if the file cannot be read, or has no CustomResourceDefinition.
    """
    try:
        documents = [one for one in yaml.safe_load_all(file.read_text()) if isinstance(one, dict)]
    except (OSError, yaml.YAMLError) as error:
        raise CompileError([SchemaMistake(str(file), 0, "", str(error))]) from error
    found: dict[str, str] = {}
    for document in documents:
        if document.get("kind") == "CustomResourceDefinition":
            for version in (document.get("spec") or {}).get("versions") or ():  # a patch of one has none
                if version.get("served"):
                    path, authored = _authored(document, version)
                    found[path] = _banner(file) + dump(authored)
    if not found:
        raise CompileError([SchemaMistake(str(file), 0, "", "has no CustomResourceDefinition that is served")])
    return found


def _banner(file: Path) -> str:
    return (
        f"# SPDX-License-Identifier: Apache-2.0\n# Imported from {file.name}; import a newer one in place of an edit.\n"
    )


def _authored(crd: Schema, version: Schema) -> tuple[str, Schema]:
    spec, kind = crd["spec"], crd["spec"]["names"]["kind"]
    hoist = _Hoist()
    root = hoist.fields(version["schema"]["openAPIV3Schema"], kind)
    root["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": "meta/v1/ObjectMeta"},
    }
    names = {word: spec["names"].get(word) for word in ("kind", "listKind", "plural", "singular")}
    authored: Schema = {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": {"name": crd["metadata"]["name"]},
        "foreign": True,
        "spec": {
            "group": spec["group"],
            "scope": spec["scope"],
            "names": {"listKind": f"{kind}List", "singular": kind.lower(), **{k: v for k, v in names.items() if v}},
            "versions": [
                {
                    "name": version["name"],
                    "served": True,
                    "storage": version["storage"],
                    "subresources": {"status": {}} if "status" in version.get("subresources", {}) else {},
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
        "definitions": dict(sorted(hoist.definitions.items())),
    }
    folder = re.sub(r"\W", "_", spec["group"].partition(".")[0])
    return f"{folder}/{version['name']}/{kind.lower()}.yaml", authored


class _Hoist:
    """Moves objects with fields out of those that hold them."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def fields(self, schema: Schema, name: str) -> Schema:
        """An object with fields, whose objects have names that begin with its own."""
        made = _words(schema) | {"type": "object"}
        properties = schema.get("properties") or {}
        made["properties"] = {one: self._child(child, name + _camel(one)) for one, child in properties.items()}
        if required := [one for one in schema.get("required", ()) if one in properties]:
            made["required"] = required
        else:
            made.pop("required", None)
        if not properties:
            return _open(made)
        made.pop("x-kubernetes-preserve-unknown-fields", None)
        return made

    def _child(self, schema: Schema, name: str) -> Schema:
        made = _words(schema)
        kind = schema.get("type")
        if schema.get("x-kubernetes-int-or-string"):
            made.pop("type", None)
        elif kind == "object" and schema.get("properties"):
            made = self._named(schema, name)
        elif kind == "array":
            made["items"] = self._child(schema.get("items") or {}, f"{name}Item")
        elif kind == "object" and isinstance(values := schema.get("additionalProperties"), dict) and values:
            made["additionalProperties"] = self._child(values, f"{name}Value")
        elif kind in ("object", None):
            made = _open(made)
        return made

    def _named(self, schema: Schema, name: str) -> Schema:
        while name in self.definitions:
            name += "_"
        self.definitions[name] = {}  # taken
        self.definitions[name] = self.fields(schema, name)
        beside: Schema = {
            word: schema[word] for word in ("description", "default", "x-kubernetes-map-type") if word in schema
        }
        return {"$ref": name, **_words(beside)}


def _open(made: Schema) -> Schema:
    """Any object."""
    text = {"description": made["description"]} if "description" in made else {}
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **text}


def _words(schema: Schema) -> Schema:
    made: Schema = {word: schema[word] for word in _KEPT if word in schema}
    if text := str(schema.get("description", "")).strip():
        made["description"] = text
    if "type" in schema:
        made["type"] = schema["type"]
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    return made


def _camel(name: str) -> str:
    parts: list[Any] = re.split(r"\W+", name)
    return "".join(part[:1].upper() + part[1:] for part in parts)
