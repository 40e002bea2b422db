# SPDX-License-Identifier: Apache-2.0
"""Reads the `fieldsV1` trees of metadata.managedFields, which say which manager owns which fields.

A tree also shows which lists have keys, and which values are atomic, for kinds with and without a model. `f:` begins a
field, `k:` an item of a keyed list, `v:` an item of a set; `.` stands for the value itself.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from trainwright.api.objects import Document

Entries: TypeAlias = Sequence[tuple[Document, Document]]
"""The owned items of a keyed list: for each its keys and its node."""


def members_of(owned: Document) -> str:
    """The kind of members of a node: `f` fields, `k` keyed items, `v` items of a set; empty for an atomic value."""
    return next((name[0] for name in owned if name != "."), "")


def keyed_entries(owned: Document) -> list[tuple[Document, Document]]:
    return [(json.loads(name[2:]), node) for name, node in owned.items() if name.startswith("k:")]


def owned_values(owned: Document) -> list[Any]:
    """The owned items of a set."""
    return [json.loads(name[2:]) for name in owned if name.startswith("v:")]


def has_keys(item: Any, keys: Document) -> bool:
    """Whether an item of a stored list is the one with these keys."""
    return isinstance(item, dict) and all(item.get(key) == value for key, value in keys.items())


def may_have_keys(item: Any, keys: Document) -> bool:
    """The same for an item to apply. The server fills in a key that the item lacks, so such a key matches any value."""
    return isinstance(item, dict) and all(item.get(key, value) == value for key, value in keys.items())


def extract(value: Any, owned: Document) -> Any:
    """The owned part of a value of a stored object. To apply it changes nothing, so a small change can start from it.

    It shares parts with the value; neither may be changed.

    `value` is an object, or any value in it; `owned` its node of fieldsV1.
    """
    members = members_of(owned)
    if members == "f" and isinstance(value, dict):
        names = [name for name in owned if name != "." and name[2:] in value]
        return {name[2:]: extract(value[name[2:]], owned[name]) for name in names}
    if members == "k" and isinstance(value, list):
        entries = keyed_entries(owned)
        found = ((item, _node_of(item, entries)) for item in value)
        # The server has filled in a key that is not owned, and will do so again.
        return [extract(item, node) for item, node in found if node is not None]
    if members == "v" and isinstance(value, list):
        ours = owned_values(owned)
        return [item for item in value if item in ours]
    return value


def without_emptied(value: Any, owned: Document) -> Any:
    """The value without the empty mappings and lists of which the manager owns members.

    Server-side apply keeps a field that a document names and removes the members that the document no longer names.
    When no member is left, the API server makes the field null instead of empty, and for most kinds refuses the null
    (structured-merge-diff, `typed/remove.go`). So a field that becomes empty has to be left out first.

    `value` is a document to apply, or any value in it; `owned` the node that the last apply of the manager has for it.

    Returns:
        The value itself if there is nothing to leave out, else a copy that shares parts with it.
    """
    if isinstance(value, dict):
        nodes = {name: owned.get(f"f:{name}") or {} for name in value}
        reduced = {name: without_emptied(item, nodes[name]) for name, item in value.items()}
        kept = {name: item for name, item in reduced.items() if not _is_emptied(item, nodes[name])}
        same = len(kept) == len(value) and all(item is value[name] for name, item in kept.items())
        return value if same else kept
    if isinstance(value, list) and members_of(owned) == "k":
        entries = keyed_entries(owned)
        items = [without_emptied(item, _node_to_apply(item, entries)) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _is_emptied(value: Any, owned: Document) -> bool:
    return isinstance(value, (dict, list)) and not value and bool(members_of(owned))


def _node_of(item: Any, entries: Entries) -> Document | None:
    return next((node for keys, node in entries if keys and has_keys(item, keys)), None)


def _node_to_apply(item: Any, entries: Entries) -> Document:
    return next((node for keys, node in entries if may_have_keys(item, keys)), {})
