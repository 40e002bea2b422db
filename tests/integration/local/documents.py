# SPDX-License-Identifier: Apache-2.0
"""Random schemas, documents that fit them mostly, and changes of documents.

Few names and values, so that managers meet in the same fields.
"""

from random import Random
from typing import Any

from trainwright.controller.local.types.model import META, OBJECT_META, published_models

Schema = dict[str, Any]
Document = dict[str, Any]

GROUP = "test.example"
KIND = "Thing"
NAMES = ("a", "b", "c", "d<e")
_TEXTS = ("x", "y", "z", "ü", 'q"<>&', "")
_NUMBERS = (0, 1, 2, 80, 443, 100_000, 12_345_678, -3, 1.5, 2.0)
_PROTOCOLS = ("TCP", "UDP")
_REFERENCE = "#/components/schemas/"


def version(number: int) -> str:
    """An apiVersion of the kind."""
    return f"{GROUP}/v{number}"


def custom_resource_models(spec: Document) -> dict[str, Schema]:
    """The types of a custom resource in all its versions, as OpenAPI models by name, for Kubernetes' own library."""
    names = (OBJECT_META, *(f"{META}.{name}" for name in ("FieldsV1", "ManagedFieldsEntry", "OwnerReference", "Time")))
    models: dict[str, Schema] = {name: dict(published_models()[name]) for name in names}
    text = {"type": "string"}
    metadata = {"allOf": [{"$ref": _REFERENCE + OBJECT_META}], "default": {}}
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        gvk = {"group": spec["group"], "version": version["name"], "kind": spec["names"]["kind"]}
        properties = {**schema["properties"], "apiVersion": text, "kind": text, "metadata": metadata}
        prefix = ".".join(reversed(spec["group"].split(".")))
        name = f"{prefix}.{version['name']}.{gvk['kind']}"
        models[name] = {**schema, "properties": properties, "x-kubernetes-group-version-kind": [gvk]}
    return models


class Schemas:
    """Makes models of a kind with two versions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._shared = {name: self._object(2) for name in ("shared.One", "shared.Two")}
        self._shared["shared.Self"] = {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"$ref": _REFERENCE + "shared.Self"}},
        }
        self._shared["shared.Any"] = {}

    def models(self) -> dict[str, Schema]:
        """A CRD's models, of which the two versions differ now and then."""
        spec = self._root()
        other = spec if self._random.random() < 0.7 else self._root()
        versions = [
            {"name": f"v{number}", "schema": {"openAPIV3Schema": schema}} for number, schema in ((1, spec), (2, other))
        ]
        definition = {"group": GROUP, "names": {"kind": KIND}, "versions": versions}
        return {**custom_resource_models(definition), **self._shared}

    def _root(self) -> Schema:
        root: Schema = {
            "type": "object",
            "properties": {"spec": self._object(3), "status": self._object(2)},
        }
        if self._random.random() < 0.1:
            root["x-kubernetes-preserve-unknown-fields"] = True
        return root

    def _any(self, depth: int) -> Schema:
        makers = [self._scalar, self._scalar, self._scalar, self._odd]
        if depth > 0:
            makers += [self._object, self._map, self._set, self._map_list, self._map_list, self._list, self._reference]
        return self._random.choice(makers)(depth - 1)

    def _scalar(self, _: int) -> Schema:
        return self._random.choice(
            [
                {"type": "string"},
                {"type": "string"},
                {"type": "integer"},
                {"type": "number"},
                {"type": "boolean"},
                {"type": "string", "format": "date-time"},
                {"type": "string", "format": "byte"},
            ]
        )

    def _odd(self, depth: int) -> Schema:
        return self._random.choice(
            [
                {"x-kubernetes-int-or-string": True},
                {"type": "object", "additionalProperties": {"$ref": _REFERENCE + "shared.Any"}},
                {"x-kubernetes-preserve-unknown-fields": True},
                {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                {"type": "object"},
                {**self._object(max(depth, 0)), "x-kubernetes-preserve-unknown-fields": True},
                {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
                {"allOf": [{"$ref": _REFERENCE + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
            ]
        )

    def _object(self, depth: int) -> Schema:
        chosen = self._random.sample(NAMES, self._random.randint(1, len(NAMES)))
        made: Schema = {"type": "object", "properties": {name: self._any(depth) for name in chosen}}
        return self._with_map_type(made)

    def _map(self, depth: int) -> Schema:
        values: Any = self._any(depth) if self._random.random() < 0.8 else True
        return self._with_map_type({"type": "object", "additionalProperties": values})

    def _with_map_type(self, made: Schema) -> Schema:
        if self._random.random() < 0.2:
            made["x-kubernetes-map-type"] = self._random.choice(["atomic", "granular"])
        return made

    def _list(self, depth: int) -> Schema:
        made: Schema = {"type": "array", "items": self._any(depth)}
        if self._random.random() < 0.5:
            made["x-kubernetes-list-type"] = "atomic"
        return made

    def _set(self, _: int) -> Schema:
        items = self._random.choice([{"type": "string"}, {"type": "integer"}, {"type": "number"}])
        if self._random.random() < 0.2:
            return {"type": "array", "items": items, "x-kubernetes-patch-strategy": "merge"}
        return {"type": "array", "items": items, "x-kubernetes-list-type": "set"}

    def _map_list(self, depth: int) -> Schema:
        items = self._object(depth)
        keys = self._random.choice([["name"], ["name"], ["port", "protocol"], ["name", "on"]])
        keyed: dict[str, Schema] = {
            "name": {"type": "string"},
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "on": {"type": "boolean"},
        }
        items["properties"].update({key: keyed[key] for key in keys})
        made = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
        if self._random.random() < 0.1:
            del made["x-kubernetes-list-type"]
            made |= {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": keys[0]}
        return made

    def _reference(self, _: int) -> Schema:
        name = self._random.choice(["shared.One", "shared.Two", "shared.Self"])
        made: Schema = {"$ref": _REFERENCE + name}
        if self._random.random() < 0.3:
            made = {"allOf": [made], "default": {}}
        if self._random.random() < 0.2:
            made["x-kubernetes-map-type"] = self._random.choice(["atomic", "granular"])
        return made


class Documents:
    """Makes documents of models."""

    def __init__(self, random: Random, models: dict[str, Schema]) -> None:
        self._random = random
        self.models = models
        self._repeats = random.choice([0.1, 0.1, 0.6])
        self.mistakes = 0
        """How many may yet be made in this document."""

    def document(self, number: int, *, mistakes: int = 0, share: float = 0.6) -> Document:
        """One of the kind in a version.

        Args:
            number: of the version.
            mistakes: how many wrong types, undeclared fields and repeated items there may be.
            share: of the fields that it has.
        """
        self.mistakes = mistakes
        model = self.models[f"example.test.v{number}.{KIND}"]
        made: Document = {"apiVersion": version(number), "kind": KIND, "metadata": self._metadata()}
        for name, schema in model["properties"].items():
            if name not in made and self._random.random() < 0.9:
                made[name] = self._value(schema, share, 6)
        return made

    def edit(self, document: Document, number: int) -> Document:
        """A changed copy, as an update would bring it, possibly with repeated items."""
        changed: Document = self._edited(document)
        fresh = self.document(number)
        for name in ("spec", "status"):
            if name in fresh and self._random.random() < 0.3:
                changed[name] = fresh[name]
        changed.setdefault("spec", {})
        changed["apiVersion"], changed["kind"] = version(number), KIND
        changed["metadata"] = {**document["metadata"], **self._metadata()}
        return changed

    def _edited(self, value: Any) -> Any:
        chance = self._random.random
        if isinstance(value, dict):
            return {name: self._edited(inner) for name, inner in value.items() if chance() > 0.1}
        if isinstance(value, list):
            kept = [self._edited(inner) for inner in value if chance() > 0.15]
            if kept and chance() < self._repeats:
                kept.insert(self._random.randint(0, len(kept)), self._edited(self._random.choice(kept)))
            if chance() < 0.3:
                self._random.shuffle(kept)
            return kept
        if chance() < 0.2:
            if type(value) is str:
                return self._random.choice(_TEXTS)
            if type(value) is bool:
                return chance() < 0.5 if chance() < 0.9 else int(value)
            if value is not None:
                return self._random.choice(_NUMBERS)
        return value

    def _metadata(self) -> Document:
        made: Document = {"name": "it"}
        chance = self._random.random
        if chance() < 0.5:
            made["namespace"] = "here"
        if chance() < 0.5:
            made["labels"] = {name: self._random.choice(_TEXTS) for name in NAMES if chance() < 0.3}
        if chance() < 0.2:
            made["finalizers"] = self._random.sample(["one/f", "two/f", "three/f"], self._random.randint(0, 3))
        if chance() < 0.2:
            uids = self._random.sample(["1", "2", "3"], self._random.randint(0, 2))
            made["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Pod", "name": self._random.choice("pq"), "uid": uid} for uid in uids
            ]
        return made

    def _mistake(self, chance: float) -> bool:
        if self.mistakes and self._random.random() < chance:
            self.mistakes -= 1
            return True
        return False

    def _value(self, schema: Schema, share: float, depth: int) -> Any:
        if self._random.random() < 0.04:
            return None
        if self._mistake(0.05):
            return self._random.choice(["wrong", 7, 2.5, True, [1, "a"], {"q": {"r": None}}, {}, []])
        if reference := self._reference(schema):
            return self._value(self.models[reference], share, depth - 1)
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, share, depth)
        if kind == "array":
            return self._list(schema, share, depth)
        return self._anything(share, depth) if kind is None else self._scalar(kind)

    def _reference(self, schema: Schema) -> str | None:
        reference = schema.get("$ref") or next((one.get("$ref") for one in schema.get("allOf", [])), None)
        return None if reference is None else reference.rpartition("/")[2]

    def _scalar(self, kind: str) -> Any:
        if kind == "string":
            return self._random.choice(_TEXTS)
        if kind == "boolean":
            return self._random.random() < 0.5
        numbers = _NUMBERS if kind == "number" else [one for one in _NUMBERS if type(one) is int]
        return self._random.choice(numbers)

    def _anything(self, share: float, depth: int) -> Any:
        chance = self._random.random()
        if depth <= 0 or chance < 0.6:
            return self._scalar(self._random.choice(["string", "boolean", "number"]))
        if chance < 0.7:
            return [self._anything(share, depth - 2) for _ in range(self._random.randint(0, 3))]
        return {name: self._anything(share, depth - 2) for name in NAMES if self._random.random() < share}

    def _object(self, schema: Schema, share: float, depth: int) -> Document:
        made: Document = {}
        if depth <= 0:
            return made
        for name, inner in (schema.get("properties") or {}).items():
            if self._random.random() < share:
                made[name] = self._value(inner, share, depth - 1)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            made |= {name: self._value(others, share, depth - 1) for name in NAMES if self._random.random() < share}
        elif others or schema.get("x-kubernetes-preserve-unknown-fields") or not schema.get("properties"):
            made |= {
                name: self._anything(share, depth - 1)
                for name in NAMES
                if name not in (schema.get("properties") or {}) and self._random.random() < 0.3
            }
        if self._mistake(0.05):
            made["undeclared"] = 1
        return made

    def _list(self, schema: Schema, share: float, depth: int) -> list[Any]:
        if depth <= 0:
            return []
        items = [self._value(schema["items"], share, depth - 1) for _ in range(self._random.randint(0, 4))]
        kind = schema.get("x-kubernetes-list-type") or schema.get("x-kubernetes-patch-strategy")
        if kind in (None, "atomic"):
            return items
        keys: list[str] = schema.get("x-kubernetes-list-map-keys") or [schema.get("x-kubernetes-patch-merge-key", "")]
        if kind == "set" or keys == [""]:
            return self._distinct([item for item in items if item is not None], self._plain)
        kept = [self._keyed(item, keys) for item in items if isinstance(item, dict)]
        return self._distinct(kept, lambda item: tuple(self._key(item, key) for key in keys))

    @staticmethod
    def _key(item: Document, key: str) -> Any:
        value = item.get(key, "TCP" if key == "protocol" else None)
        return Documents._plain(value)

    @staticmethod
    def _plain(value: Any) -> Any:
        """1 and 1.0 are the same item, true is another."""
        return float(value) if type(value) is int else value

    def _keyed(self, item: Document, keys: list[str]) -> Document:
        item = dict(item)
        for key in keys:
            item.pop(key, None)
        values = {
            "name": self._random.choice(_TEXTS[:5]),
            "port": self._random.choice([80, 443, 100_000, 65_535]),
            "protocol": self._random.choice(_PROTOCOLS),
            "on": self._random.random() < 0.5,
            "uid": self._random.choice("123"),
        }
        for index, key in enumerate(keys):
            if index == 0 or self._random.random() < 0.6:
                item[key] = values[key]
        return {} if self._mistake(0.02) else item

    def _distinct(self, items: list[Any], key: Any) -> list[Any]:
        if self._mistake(0.1):
            return items
        kept: dict[str, Any] = {}
        for item in items:
            kept.setdefault(repr(key(item)), item)
        return list(kept.values())
