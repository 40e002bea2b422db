# SPDX-License-Identifier: Apache-2.0
"""What OpenAPI v3 models say of merging: the strategy and the merge key of each field.

`x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` are described at
https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import quoted
from trainwright.controller.local.apiserver.merge.patch.errors import BrokenPatchError

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergeShape:
    """The schema of a value, with what its field says of merging.

    Attributes:
        models: schemas by name, which references lead to.
        name: of the model; empty for a schema that is not one.
        schema: the schema, no reference.
        strategy: `merge`, `replace` or nothing; `retainKeys` is told by the patch.
        merge_key: the field that tells items apart; empty where there is none.
    """

    models: Mapping[str, Schema]
    name: str
    schema: Schema
    strategy: str = ""
    merge_key: str = ""

    def field(self, key: str) -> "MergeShape":
        """The shape of a field that holds an object.

        Raises:
            BrokenPatchError: the model has no such field.
        """
        properties: Mapping[str, Schema] = self.schema.get("properties") or {}
        if key in properties:
            return _shape(self.models, properties[key])
        if self.schema.get("additionalProperties"):
            raise BrokenPatchError("merging an object in json but data type is not struct, instead is: map")
        name = self.name.rpartition(".")[2]
        raise BrokenPatchError(f"unable to find api field in struct {name} for the json field {quoted(key)}")

    def items(self, key: str) -> "MergeShape":
        """The shape of the items of a field that holds a list, with the strategy and merge key of the list.

        Raises:
            BrokenPatchError: the model has no such list.
        """
        found = self.field(key)
        items = found.schema.get("items")
        if items is None:
            raise BrokenPatchError("expected slice or array type, but got: struct")
        item = _shape(self.models, items)
        return MergeShape(self.models, item.name, item.schema, found.strategy, found.merge_key)


def shape_of(models: Mapping[str, Schema], name: str) -> MergeShape:
    """The shape of a model. Raises KeyError if there is none of that name."""
    return MergeShape(models, name, models[name])


def _shape(models: Mapping[str, Schema], schema: Schema) -> MergeShape:
    strategies = str(schema.get("x-kubernetes-patch-strategy") or "").split(",")
    strategy = next((one for one in strategies if one not in ("", "retainKeys")), "")
    merge_key = str(schema.get("x-kubernetes-patch-merge-key") or "")
    alternatives: Sequence[Schema] = schema.get("allOf") or ({},)
    name = str(schema.get("$ref") or alternatives[0].get("$ref") or "").rpartition("/")[2]
    return MergeShape(models, name, models[name] if name else schema, strategy, merge_key)
