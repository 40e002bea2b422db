# SPDX-License-Identifier: Apache-2.0
"""Reads the types of Kubernetes from its published schemas.

They come with kubernetes-validate, a dependency at build time, with list types and merge keys. There every optional
field is nullable, scalars with a format are unions, and most defaults are missing. This module reverts that, adds what
api/kubernetes/kinds.yaml supplies, and drops the descriptions.
"""

import copy
import json
import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from trainwright.codegen.definition import Definition, Package, Schema

_PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis.")
_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_EITHER = [{"type": "integer"}, {"type": "string"}]

SCALARS: dict[str, Schema] = {
    "meta/v1/Quantity": {"anyOf": _EITHER, "pattern": _QUANTITY_PATTERN, "x-kubernetes-int-or-string": True},
    "meta/v1/IntOrString": {"anyOf": _EITHER, "x-kubernetes-int-or-string": True},
    "meta/v1/Time": {"type": "string", "format": "date-time"},
    "meta/v1/MicroTime": {"type": "string", "format": "date-time"},
    "meta/v1/RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "meta/v1/FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
"""Types that are plain values on the wire; references to them are replaced by these schemas."""

_SCALAR_NAMES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "meta/v1/Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "meta/v1/IntOrString",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "meta/v1/RawExtension",
}

_KEPT = (
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
)


class KubernetesTypes:
    """The published types of one version of Kubernetes, by their names in references."""

    def __init__(self, version: str, overlay: dict[str, Schema], additional: dict[str, Schema]) -> None:
        self._raw = _published(version)
        self._names = {_reference(name): name for name in self._raw}
        self._overlay = overlay
        self._additional = additional

    def known(self, key: str) -> bool:
        """Whether a reference names one of Kubernetes' types."""
        return key in self._names or key in self._additional or key in SCALARS

    def definition(self, key: str) -> Definition:
        """One type, as in a CustomResourceDefinition, with full references."""
        package_key, _, name = key.rpartition("/")
        added = self._additional.get(key)
        schema = _clean(self._raw[self._names[key]]) if added is None else copy.deepcopy(added)
        extra = self._overlay.get(key, {})
        schema.update({word: value for word, value in extra.items() if word != "properties"})
        for field, words in extra.get("properties", {}).items():
            schema["properties"][field].update(words)
        return Definition(self.package(package_key), name, schema)

    def unknown_overlays(self) -> list[tuple[str, str]]:
        """Types and fields of the overlay that Kubernetes does not have."""
        wrong: list[tuple[str, str]] = []
        for key, extra in self._overlay.items():
            published = self._raw.get(self._names.get(key, ""), {}).get("properties", {})
            wrong.extend((key, field) for field in extra.get("properties", {}) if field not in published)
        return wrong

    def package(self, key: str) -> Package:
        """The package behind the first two parts of a reference."""
        short, version = key.split("/")
        group = "" if short in ("core", "meta") else self._group(short, version)
        return Package(key, f"kubernetes/{key}", group, version, foreign=True)

    @cache  # noqa: B019  one instance lives as long as the run
    def _group(self, short: str, version: str) -> str:
        for name, schema in self._raw.items():
            if _reference(name).startswith(f"{short}/{version}/"):
                for kind in schema.get("x-kubernetes-group-version-kind", []):
                    if kind["version"] == version and kind["kind"] == name.rpartition(".")[2]:
                        return str(kind["group"])
        return short


def published_versions() -> list[str]:
    """The versions of Kubernetes whose schemas are installed, oldest first."""
    found = [re.fullmatch(r"v(\d+\.\d+)\.0-local", folder.name) for folder in _folder().iterdir()]
    return sorted(
        (match[1] for match in found if match), key=lambda version: [int(part) for part in version.split(".")]
    )


def _folder() -> Traversable:
    return resources.files("kubernetes_validate") / "kubernetes-json-schema"


@cache
def _published(version: str) -> dict[str, Schema]:
    text = (_folder() / f"v{version}.0-local" / "_definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Schema] = json.loads(text)["$defs"]
    return definitions


def _reference(name: str) -> str:
    if name in _SCALAR_NAMES:
        return _SCALAR_NAMES[name]
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix).replace(".", "/")


def _clean(raw: Schema) -> Schema:
    if "$ref" in raw:
        return _cleaned_reference(raw)
    clean: Schema = {word: raw[word] for word in _KEPT if word in raw}
    kind: Any = clean.get("type")
    if isinstance(kind, list):
        clean["type"] = next(word for word in kind if word != "null")
    if "properties" in raw:
        clean["properties"] = {name: _clean(child) for name, child in raw["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(raw.get(word), dict):
            clean[word] = _clean(raw[word])
    if clean.get("type") == "object" and not clean.keys() & {"properties", "additionalProperties"}:
        clean["x-kubernetes-preserve-unknown-fields"] = True
    return clean


def _cleaned_reference(raw: Schema) -> Schema:
    key = _reference(raw["$ref"].rpartition("/")[2])
    if key in SCALARS:
        return copy.deepcopy(SCALARS[key])
    strategy = {word: raw[word] for word in raw if word.startswith("x-kubernetes-patch-")}
    return {"$ref": key, **strategy}
