# SPDX-License-Identifier: Apache-2.0
"""Would applying this document change the object? Decided here, without asking the server.

The server keeps, in managedFields, the tree of fields that our last apply owned. That tree knows which lists are keyed
and by what, and which values are atomic, for every kind including those without a model; so it is walked beside the
document and the object, and no schema is needed:

* a field that we own and the document lacks must be given up: different;
* a field that the document has and we do not own must be taken: different;
* a leaf whose value in the object is not the wanted one: different;
* a value that the server may have written in another form (a quantity, defaults inside an atomic value), or items of a
  keyed list in another order: unclear, and only the server can say.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from trainwright.api.quantity import Quantity
from trainwright.controller.runtime.objects import Document

_ROOT_IGNORED = frozenset({"apiVersion", "kind"})
_METADATA_IGNORED = frozenset(
    {"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
)


class Verdict(Enum):
    """What a comparison found."""

    SAME = "same"
    UNCLEAR = "unclear"
    DIFFERENT = "different"


class Finding(NamedTuple):
    """One place where document and object are not plainly the same."""

    path: str
    verdict: Verdict
    why: str


def findings(desired: Document, live: Document, owned: Document) -> Iterator[Finding]:
    """Differences in document order, lazily: whoever only needs a verdict stops early.

    `owned` is the fieldsV1 of our last apply.
    """
    for name, value in desired.items():
        if name in _ROOT_IGNORED or value is None:
            continue
        if name == "metadata":
            inner = {key: item for key, item in value.items() if key not in _METADATA_IGNORED and item is not None}
            if inner or owned.get("f:metadata"):
                yield from _mapping(inner, live.get("metadata") or {}, owned.get("f:metadata") or {}, ".metadata")
        else:
            yield from _field(name, value, live, owned, "")
    for name in owned:
        if name.startswith("f:") and name != "f:metadata" and desired.get(name[2:]) is None:
            yield Finding(f".{name[2:]}", Verdict.DIFFERENT, "owned by us and no longer wanted")
    if "metadata" not in desired and owned.get("f:metadata"):
        yield Finding(".metadata", Verdict.DIFFERENT, "owned by us and no longer wanted")


def verdict(desired: Document, live: Document, owned: Document) -> Verdict:
    """DIFFERENT if anything is, else UNCLEAR if anything is, else SAME."""
    result = Verdict.SAME
    for finding in findings(desired, live, owned):
        if finding.verdict is Verdict.DIFFERENT:
            return Verdict.DIFFERENT
        result = finding.verdict
    return result


def _field(name: str, value: Any, live: Mapping[str, Any], owned: Document, path: str) -> Iterator[Finding]:
    where = f"{path}.{name}"
    node = owned.get(f"f:{name}")
    if node is None:
        yield Finding(where, Verdict.DIFFERENT, "wanted and not owned by us yet")
    elif name not in live:
        empty = isinstance(value, (dict, list)) and not value
        yield Finding(where, Verdict.UNCLEAR if empty else Verdict.DIFFERENT, "missing")
    else:
        yield from _value(value, live[name], node, where)


def _value(value: Any, live: Any, owned: Document, path: str) -> Iterator[Finding]:
    kind = _children(owned)
    if kind == "f" and isinstance(value, dict) and isinstance(live, dict):
        yield from _mapping({k: v for k, v in value.items() if v is not None}, live, owned, path)
    elif kind == "k" and isinstance(value, list) and isinstance(live, list):
        yield from _keyed(value, live, owned, path)
    elif kind == "v" and isinstance(value, list) and isinstance(live, list):
        yield from _set(value, live, owned, path)
    elif kind:
        yield Finding(path, Verdict.DIFFERENT, "of another shape")
    else:
        yield from _leaf(value, live, path)


def _children(owned: Document) -> str:
    for name in owned:
        if name != ".":
            return name[0]
    return ""


def _mapping(value: Document, live: Mapping[str, Any], owned: Document, path: str) -> Iterator[Finding]:
    for name, item in value.items():
        yield from _field(name, item, live, owned, path)
    for name in owned:
        if name != "." and value.get(name[2:]) is None:
            yield Finding(f"{path}.{name[2:]}", Verdict.DIFFERENT, "owned by us and no longer wanted")


def _keyed(value: list[Any], live: list[Any], owned: Document, path: str) -> Iterator[Finding]:
    entries = [(json.loads(name[2:]), node) for name, node in owned.items() if name.startswith("k:")]
    taken: set[int] = set()
    last = -1
    for item in value:
        found = _entry_for(item, entries, taken)
        if found is None:
            yield Finding(f"{path}[{_label(item)}]", Verdict.DIFFERENT, "wanted and not owned by us yet")
            continue
        taken.add(found)
        keys, node = entries[found]
        where = f"{path}[{','.join(str(v) for v in keys.values())}]"
        position = _position(keys, live)
        if position is None:
            yield Finding(where, Verdict.DIFFERENT, "missing")
            continue
        if position < last:
            yield Finding(where, Verdict.UNCLEAR, "in another order")
        last = max(position, last)
        current = live[position]
        if _children(node) or not node:
            inner = {k: v for k, v in item.items() if v is not None}
            if not node:
                yield from _leaf(inner, current, where)
            else:  # a key that the item lacks was filled in by the server, whether or not it counts as ours
                filled = {f"f:{k}" for k in keys if k not in inner}
                yield from _mapping(inner, current, {n: c for n, c in node.items() if n not in filled}, where)
    for index, (keys, _) in enumerate(entries):
        if index not in taken:
            where = f"{path}[{','.join(str(v) for v in keys.values())}]"
            yield Finding(where, Verdict.DIFFERENT, "owned by us and no longer wanted")


def _position(keys: Document, live: list[Any]) -> int | None:
    """Where the item of these keys is."""
    for index, item in enumerate(live):
        if isinstance(item, dict) and all(item.get(key) == value for key, value in keys.items()):
            return index
    return None


def _entry_for(item: Any, entries: list[tuple[Document, Document]], taken: set[int]) -> int | None:
    """The owned entry that has the item's keys; a key that the item lacks was defaulted and matches anything."""
    if not isinstance(item, dict):
        return None
    for index, (keys, _) in enumerate(entries):
        if index not in taken and all(item.get(k, v) == v for k, v in keys.items()):
            return index
    return None


def _label(item: Any) -> str:
    return str(item.get("name", "new")) if isinstance(item, dict) else str(item)


def _set(value: list[Any], live: list[Any], owned: Document, path: str) -> Iterator[Finding]:
    ours = [json.loads(name[2:]) for name in owned if name.startswith("v:")]
    for item in value:
        if item not in ours:
            yield Finding(f"{path}[{item}]", Verdict.DIFFERENT, "wanted and not owned by us yet")
        elif item not in live:
            yield Finding(f"{path}[{item}]", Verdict.DIFFERENT, "missing")
    for item in ours:
        if item not in value:
            yield Finding(f"{path}[{item}]", Verdict.DIFFERENT, "owned by us and no longer wanted")


def _leaf(value: Any, live: Any, path: str) -> Iterator[Finding]:
    """A scalar, or a value that is owned as a whole."""
    if value == live and isinstance(value, bool) == isinstance(live, bool):
        return
    if isinstance(value, dict) and isinstance(live, dict):
        for name, item in value.items():
            if item is None:
                continue
            if name not in live:
                yield Finding(f"{path}.{name}", Verdict.DIFFERENT, "missing")
            else:
                yield from _leaf(item, live[name], f"{path}.{name}")
        for name in live:
            if value.get(name) is None:
                yield Finding(f"{path}.{name}", Verdict.UNCLEAR, "there and not wanted, unless the server fills it in")
    elif isinstance(value, list) and isinstance(live, list) and len(value) == len(live):
        for index, (item, current) in enumerate(zip(value, live, strict=True)):
            yield from _leaf(item, current, f"{path}[{index}]")
    elif _same_quantity(value, live):
        yield Finding(path, Verdict.UNCLEAR, f"{value!r} is wanted, {live!r} may be the same in other words")
    else:
        yield Finding(path, Verdict.DIFFERENT, f"{_short(value)} is wanted, {_short(live)} is there")


def _amount(value: Any) -> Quantity | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return Quantity.parse(value)
    except ValueError:
        return None


def _same_quantity(value: Any, live: Any) -> bool:
    amount = _amount(value)
    return amount is not None and amount == _amount(live)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
