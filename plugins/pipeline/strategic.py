# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches, as Kubernetes applies them to a typed object.

The models say which lists are merged, and by which key. A patch cannot delete anything: absent and empty values have no
effect, and directives such as `$patch: delete` do not exist here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.api import merge as metadata
from trainwright.api.base import Struct, copy_open
from trainwright.api.kubernetes.core.v1 import EnvVar, EnvVarSource, Volume
from trainwright.api.objects import Document
from trainwright.plugins.contract import Ledger

_RIVALS: Mapping[type[Struct], frozenset[str]] = {
    model: frozenset(metadata.fields(model)) - {"name"} for model in (EnvVar, EnvVarSource, Volume)
}
"""Structs in which only one field beside the name may be set: the field of a patch replaces the one that is set."""


@dataclass(frozen=True, slots=True)
class Scribe:
    """Notes in the ledger what a patch sets."""

    ledger: Ledger
    manager: str
    path: str = "spec"

    def at(self, step: str) -> "Scribe":
        return Scribe(self.ledger, self.manager, f"{self.path}.{step}")

    def item(self, key: Any) -> "Scribe":
        return Scribe(self.ledger, self.manager, f"{self.path}[{key}]")

    def note(self, value: Any, before: Any) -> None:
        """Note that the patch set the value."""
        self.ledger.patched(self.path, value, before=before, manager=self.manager)


def merge(model: type[Struct], base: Document, patch: Mapping[str, Any], scribe: Scribe) -> Document:
    """The base with the patch applied, both in wire form. Neither is changed."""
    fields = metadata.fields(model)
    said = {name: value for name, value in patch.items() if name in fields}
    merged = _without_rivals(model, base, said)
    for name, value in said.items():
        merged[name] = _merged(fields[name], merged.get(name), value, scribe.at(name))
    return merged


def _merged(field: metadata.Field, base: Any, value: Any, scribe: Scribe) -> Any:
    replaced = "replace" in field.merge.patch
    if field.shape == "struct" and field.struct is not None and not replaced:
        return merge(field.struct, base or {}, value, scribe)
    if field.shape == "list" and "merge" in field.merge.patch:
        if field.struct is not None and field.merge.patch_key:
            return _merged_items(field.struct, field.merge.patch_key, base or [], value, scribe)
        plain, added = list(base or []), list(dict.fromkeys(value))
        return in_merge_order(plain, [item for item in plain if item not in added], added)
    if field.shape in ("map", "open") and isinstance(value, dict) and isinstance(base or {}, dict) and not replaced:
        before = base or {}
        for key, item in value.items():
            scribe.item(key).note(item, before.get(key))
        return {**before, **copy_open(value)}
    scribe.note(value, base)
    return copy_open(value)


def _merged_items(
    model: type[Struct], key: str, base: Sequence[Document], patch: Sequence[Document], scribe: Scribe
) -> list[Document]:
    """Merge items with the same key and add the others; `in_merge_order` describes the order."""
    before = {item.get(key): item for item in base}
    changed: dict[Any, Document] = {}
    for item in patch:
        name = item.get(key)
        start = changed.get(name, before.get(name, {}))
        changed[name] = merge(model, start, item, scribe.item(name))
    untouched = [name for name in before if name not in changed]
    order = in_merge_order(list(before), untouched, list(changed))
    return [changed[name] if name in changed else before[name] for name in order]


def in_merge_order(base: Sequence[Any], untouched: Sequence[Any], patched: Sequence[Any]) -> list[Any]:
    """The order of the keys of a merged list.

    It merges two queues: the untouched items in the order of the base, and the items of the patch in the patch's order.
    The head of the first queue goes next only if the head of the second one is in the base too, and behind it there. So
    new items come before the rest of the base, and a patch can change the order of items.
    """
    place = {name: index for index, name in enumerate(base)}
    left, right = list(untouched), list(patched)
    result = []
    while left and right:
        first = right[0] in place and place[left[0]] < place[right[0]]
        result.append((left if first else right).pop(0))
    return [*result, *left, *right]


def _without_rivals(model: type[Struct], base: Document, patch: Mapping[str, Any]) -> Document:
    """The base without fields that exclude those of the patch: a volume has one source, a variable one value."""
    rivals = _RIVALS.get(model)
    if rivals is None or rivals.isdisjoint(patch):
        return dict(base)
    return {name: value for name, value in base.items() if name not in rivals or name in patch}
