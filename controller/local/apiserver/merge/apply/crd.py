# SPDX-License-Identifier: Apache-2.0
"""Custom resources: their types, and the field managers of their endpoints.

The types are what the definition says, completed with what every object has.

`metadata` is Kubernetes' own, in embedded resources too, whatever the definition says of it.
"""

from collections.abc import Mapping
from typing import Any

from trainwright.controller.local.apiserver.merge.apply import fieldset
from trainwright.controller.local.apiserver.merge.apply.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.merge.apply.openapi import Schema, Types
from trainwright.controller.local.apiserver.merge.apply.versions import same_schema

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer", "format": "int64"}
_FLAG: Schema = {"type": "boolean"}
_REQUIRED_TEXT: Schema = {"type": "string", "default": ""}
_TEXTS: Schema = {"type": "object", "additionalProperties": _REQUIRED_TEXT}
_METADATA: Schema = {"allOf": [{"$ref": f"#/components/schemas/{_META}ObjectMeta"}], "default": {}}
_TIME: Schema = {"allOf": [{"$ref": f"#/components/schemas/{_META}Time"}]}
_STATUS = fieldset.of(("f:status",))
_ALL_BUT_STATUS = fieldset.of(("f:metadata",), ("f:spec",))

OBJECT_META: Mapping[str, Schema] = {
    f"{_META}ObjectMeta": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"), _TEXT),
            **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), _INTEGER),
            **dict.fromkeys(("annotations", "labels"), _TEXTS),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
            "finalizers": {
                "type": "array",
                "items": _REQUIRED_TEXT,
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "managedFields": {
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{_META}ManagedFieldsEntry"}], "default": {}},
                "x-kubernetes-list-type": "atomic",
            },
            "ownerReferences": {
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{_META}OwnerReference"}], "default": {}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-merge-key": "uid",
                "x-kubernetes-patch-strategy": "merge",
            },
        },
    },
    f"{_META}ManagedFieldsEntry": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("apiVersion", "fieldsType", "manager", "operation", "subresource"), _TEXT),
            "fieldsV1": {"allOf": [{"$ref": f"#/components/schemas/{_META}FieldsV1"}]},
            "time": _TIME,
        },
    },
    f"{_META}OwnerReference": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _REQUIRED_TEXT),
            **dict.fromkeys(("blockOwnerDeletion", "controller"), _FLAG),
        },
        "required": ["apiVersion", "kind", "name", "uid"],
        "x-kubernetes-map-type": "atomic",
    },
    f"{_META}FieldsV1": {"type": "object"},
    f"{_META}Time": {"type": "string", "format": "date-time"},
}
"""The metadata of objects, as Kubernetes 1.36 publishes it, without prose."""


def custom_resource_managers(spec: Mapping[str, Any]) -> dict[tuple[str, str], FieldManager]:
    """The field managers of a custom resource, by apiVersion and subresource: `` and `status`.

    Args:
        spec: of the CustomResourceDefinition, accepted: the schemas are structural and the conversion is None.

    Raises:
        SchemaError: a schema cannot be compiled.
    """
    types = Types(custom_resource_models(spec), preserve=spec.get("preserveUnknownFields") is True)
    kind = spec["names"]["kind"]
    versions = {f"{spec['group']}/{version['name']}": version for version in spec["versions"]}
    with_status = [name for name, version in versions.items() if "status" in (version.get("subresources") or {})]
    managers: dict[tuple[str, str], FieldManager] = {}
    for name in versions:
        # A main endpoint spares the status in its own version only: an update through it takes the status from those
        # who own it in another version. The status endpoints spare the rest in all versions.
        reset = {name: _STATUS} if name in with_status else {}
        managers[name, ""] = FieldManager(types, name, kind, reset=reset, convert=same_schema(*versions))
        types.of_kind(name, kind)
    for name in with_status:
        others = dict.fromkeys(with_status, _ALL_BUT_STATUS)
        managers[name, "status"] = FieldManager(
            types, name, kind, subresource="status", reset=others, convert=same_schema(*versions)
        )
    return managers


def custom_resource_models(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The types of a custom resource in all its versions, as OpenAPI models by name."""
    kind = spec["names"]["kind"]
    models: dict[str, Any] = dict(OBJECT_META)
    for version in spec["versions"]:
        prefix = ".".join(reversed(spec["group"].split(".")))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        model = {"type": "object"} if schema is None else _as_object(_with_embedded(schema))
        gvk = {"group": spec["group"], "version": version["name"], "kind": kind}
        models[f"{prefix}.{version['name']}.{kind}"] = {**model, "x-kubernetes-group-version-kind": [gvk]}
    return models


def _as_object(schema: Schema) -> Schema:
    properties = {**(schema.get("properties") or {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}
    return {**schema, "properties": properties}


def _with_embedded(schema: Schema) -> Schema:
    """The schema with every embedded resource in it completed."""
    made = dict(schema)
    if properties := schema.get("properties"):
        made["properties"] = {name: _with_embedded(inner) for name, inner in properties.items()}
    for word in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(word), Mapping):
            made[word] = _with_embedded(inner)
    return _as_object(made) if schema.get("x-kubernetes-embedded-resource") is True else made
