# SPDX-License-Identifier: Apache-2.0
"""Decides whether applying a document would change the object, without asking the server.

In managedFields the server keeps the tree of fields that the last apply owned. The tree shows which lists are keyed,
their keys, and which values are atomic, for every kind. It is walked beside the document and the object, so no schema
is needed:

* a field that is owned and not in the document must be given up: different;
* a field in the document that is not owned must be taken: different;
* a leaf whose value is not the wanted one: different;
* a value that the server may have written in another form (a quantity, defaults inside an atomic value), or items of a
  keyed list in another order: unclear; only the server knows.

The server may store a value in another form (1000m as 1), or drop an unknown field. The comparison would then always
find a difference, so `ApplyMemory` remembers document and answer: if the same document was applied before, and the
object still looks like the answer, nothing has to be done.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from trainwright.api.objects import Document
from trainwright.api.ownership import Entries, has_keys, keyed_entries, may_have_keys, members_of, owned_values
from trainwright.api.quantity import Quantity

_ROOT_IGNORED = frozenset({"apiVersion", "kind"})
_METADATA_IGNORED = frozenset(
    {"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
)


class FieldComparison(Enum):
    SAME = "same"
    UNCLEAR = "unclear"
    DIFFERENT = "different"


class Difference(NamedTuple):
    """A place where document and object are not clearly the same."""

    path: str
    comparison: FieldComparison
    why: str


def differences(desired: Document, live: Document, owned: Document) -> Iterator[Difference]:
    """Differences in document order, computed lazily.

    `owned` is the fieldsV1 tree of the last apply.
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
            yield Difference(f".{name[2:]}", FieldComparison.DIFFERENT, "owned and no longer wanted")
    if "metadata" not in desired and owned.get("f:metadata"):
        yield Difference(".metadata", FieldComparison.DIFFERENT, "owned and no longer wanted")


def compare(desired: Document, live: Document, owned: Document) -> FieldComparison:
    """DIFFERENT if any difference is, else UNCLEAR if any is, else SAME."""
    result = FieldComparison.SAME
    for difference in differences(desired, live, owned):
        if difference.comparison is FieldComparison.DIFFERENT:
            return FieldComparison.DIFFERENT
        result = difference.comparison
    return result


def _field(name: str, value: Any, live: Mapping[str, Any], owned: Document, path: str) -> Iterator[Difference]:
    where = f"{path}.{name}"
    node = owned.get(f"f:{name}")
    if node is None:
        # Server-side apply records no owner for an empty list that is merged by items.
        if value != [] or live.get(name) != []:
            yield Difference(where, FieldComparison.DIFFERENT, "wanted and not owned yet")
    elif name not in live:
        empty = isinstance(value, (dict, list)) and not value
        yield Difference(where, FieldComparison.UNCLEAR if empty else FieldComparison.DIFFERENT, "missing")
    else:
        yield from _value(value, live[name], node, where)


def _value(value: Any, live: Any, owned: Document, path: str) -> Iterator[Difference]:
    kind = members_of(owned)
    if kind == "f" and isinstance(value, dict) and isinstance(live, dict):
        yield from _mapping({k: v for k, v in value.items() if v is not None}, live, owned, path)
    elif kind == "k" and isinstance(value, list) and isinstance(live, list):
        yield from _keyed(value, live, owned, path)
    elif kind == "v" and isinstance(value, list) and isinstance(live, list):
        yield from _set(value, live, owned, path)
    elif kind:
        yield Difference(path, FieldComparison.DIFFERENT, "has another type")
    else:
        yield from _leaf(value, live, path)


def _mapping(value: Document, live: Mapping[str, Any], owned: Document, path: str) -> Iterator[Difference]:
    for name, item in value.items():
        yield from _field(name, item, live, owned, path)
    for name in owned:
        if name != "." and value.get(name[2:]) is None:
            yield Difference(f"{path}.{name[2:]}", FieldComparison.DIFFERENT, "owned and no longer wanted")


def _keyed(value: list[Any], live: list[Any], owned: Document, path: str) -> Iterator[Difference]:
    entries = keyed_entries(owned)
    taken: set[int] = set()
    last = -1
    for item in value:
        found = _entry_for(item, entries, taken)
        if found is None:
            label = item.get("name", "new") if isinstance(item, dict) else item
            yield Difference(f"{path}[{label}]", FieldComparison.DIFFERENT, "wanted and not owned yet")
            continue
        taken.add(found)
        keys, node = entries[found]
        where = f"{path}[{','.join(str(v) for v in keys.values())}]"
        position = next((index for index, one in enumerate(live) if has_keys(one, keys)), None)
        if position is None:
            yield Difference(where, FieldComparison.DIFFERENT, "missing")
            continue
        if position < last:
            yield Difference(where, FieldComparison.UNCLEAR, "has another position")
        last = max(position, last)
        current = live[position]
        if members_of(node) or not node:
            inner = {k: v for k, v in item.items() if v is not None}
            if not node:
                yield from _leaf(inner, current, where)
            else:  # the server set a key that the item lacks, whether or not it counts as owned
                filled = {f"f:{k}" for k in keys if k not in inner}
                yield from _mapping(inner, current, {n: c for n, c in node.items() if n not in filled}, where)
    for index, (keys, _) in enumerate(entries):
        if index not in taken:
            where = f"{path}[{','.join(str(v) for v in keys.values())}]"
            yield Difference(where, FieldComparison.DIFFERENT, "owned and no longer wanted")


def _entry_for(item: Any, entries: Entries, taken: set[int]) -> int | None:
    """The owned entry that has the item's keys."""
    free = ((index, keys) for index, (keys, _) in enumerate(entries) if index not in taken)
    return next((index for index, keys in free if may_have_keys(item, keys)), None)


def _set(value: list[Any], live: list[Any], owned: Document, path: str) -> Iterator[Difference]:
    ours = owned_values(owned)
    for item in value:
        if item not in ours:
            yield Difference(f"{path}[{item}]", FieldComparison.DIFFERENT, "wanted and not owned yet")
        elif item not in live:
            yield Difference(f"{path}[{item}]", FieldComparison.DIFFERENT, "missing")
    for item in ours:
        if item not in value:
            yield Difference(f"{path}[{item}]", FieldComparison.DIFFERENT, "owned and no longer wanted")


def _leaf(value: Any, live: Any, path: str) -> Iterator[Difference]:
    """Compare a scalar, or a value that is owned as a whole."""
    if value == live and isinstance(value, bool) == isinstance(live, bool):
        return
    if isinstance(value, dict) and isinstance(live, dict):
        for name, item in value.items():
            if item is None:
                continue
            if name not in live:
                yield Difference(f"{path}.{name}", FieldComparison.DIFFERENT, "missing")
            else:
                yield from _leaf(item, live[name], f"{path}.{name}")
        for name in live:
            if value.get(name) is None:
                yield Difference(
                    f"{path}.{name}", FieldComparison.UNCLEAR, "present and not wanted, unless the server sets it"
                )
    elif isinstance(value, list) and isinstance(live, list) and len(value) == len(live):
        for index, (item, current) in enumerate(zip(value, live, strict=True)):
            yield from _leaf(item, current, f"{path}[{index}]")
    elif _same_quantity(value, live):
        yield Difference(path, FieldComparison.UNCLEAR, f"{value!r} is wanted, {live!r} may be the same amount")
    else:
        yield Difference(path, FieldComparison.DIFFERENT, f"{_short(value)} is wanted, the object has {_short(live)}")


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


LIMIT = 50_000
_ENCODER = msgspec.json.Encoder(order="deterministic")


def document_digest(document: Any) -> bytes:
    """A 16-byte digest of a document, independent of the order of its fields."""
    return hashlib.blake2b(_ENCODER.encode(document), digest_size=16).digest()


def covered(live: Document) -> Document:
    """The compared part of an object: all but the metadata that changes by itself."""
    metadata = live.get("metadata") or {}
    kept = {
        name: metadata[name] for name in ("labels", "annotations", "finalizers", "ownerReferences") if name in metadata
    }
    return {**live, "metadata": kept}


class ApplyMemory:
    """Digests of document and answer, by object and subresource.

    An answer counts with the fields that it says we own: a value that others have changed and changed back is theirs.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()

    def remember(
        self, uid: str, subresource: str, document: Document, answer: Document, owned: Document | None
    ) -> None:
        """The server answered `document` with `answer`, of which we own `owned`."""
        self._seen[uid, subresource] = (document_digest(document), _digest(answer, subresource, owned))
        self._seen.move_to_end((uid, subresource))
        while len(self._seen) > LIMIT:
            self._seen.popitem(last=False)

    def answered(self, uid: str, subresource: str, document: Document, live: Document, owned: Document | None) -> bool:
        """Whether this document was applied last and the object still looks like the answer."""
        seen = self._seen.get((uid, subresource))
        return seen is not None and seen == (document_digest(document), _digest(live, subresource, owned))

    def forget(self, uid: str) -> None:
        """The object is deleted."""
        self._seen.pop((uid, ""), None)
        self._seen.pop((uid, "status"), None)

    def __len__(self) -> int:
        return len(self._seen)


def _digest(live: Document, subresource: str, owned: Document | None) -> bytes:
    content = covered(live)
    if subresource == "status":
        part = {"status": content.get("status")}
    else:
        part = {name: value for name, value in content.items() if name != "status"}
    return document_digest({"content": part, "owned": owned})
