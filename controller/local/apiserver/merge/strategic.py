# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patch, Kubernetes' own: lists are merged by the keys of their items, and directives say more.

https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
The order of merged lists: https://git.k8s.io/design-proposals-archive/cli/preserve-order-in-strategic-merge-patch.md
"""

from typing import Any

from trainwright.controller.local.apiserver.errors import StatusError, bad_request, plain_internal
from trainwright.controller.local.apiserver.merge.patch import Document, UnappliedPatchError, without_nulls
from trainwright.controller.local.types.model import Field, Type
from trainwright.controller.local.values import copied, json_text, quoted

Items = list[Any]
Identity = tuple[type, Any]


def identity(value: Any) -> Identity:
    """What tells a scalar from others: 1, 1.0 and true are three values. Raises StatusError for an object or a list."""
    if type(value) in (dict, list):
        raise plain_internal(f"cannot compare {json_text(value)}")
    return type(value), value


def item_identity(item: Any, merge_key: str) -> Identity:
    """The identity of an item: of its merge key, or of the scalar where there is none. Raises StatusError."""
    if not merge_key:
        return identity(item)
    if type(item) is not dict:
        raise plain_internal(f"expected an object, but received {json_text(item)}")
    if merge_key not in item:
        raise plain_internal(f"map: {json_text(item)} does not contain declared merge key: {merge_key}")
    return identity(item[merge_key])


def ordered(merged: Items, named: Items, live: Items, merge_key: str) -> Items:
    """The merged items in their order: an item of the object stands before those of the patch that followed it.

    `named` is the order that the patch gives, `live` the one that was. Raises StatusError for an item without a merge
    key.
    """
    named_places, live_places = _places(named, merge_key), _places(live, merge_key)
    keyed = [(item_identity(item, merge_key), item) for item in merged]
    others = sorted((one for one in keyed if one[0] not in named_places), key=lambda one: live_places.get(one[0], -1))
    made: Items = []
    start = 0
    for key, item in sorted((one for one in keyed if one[0] in named_places), key=lambda one: named_places[one[0]]):
        place = live_places.get(key)
        while place is not None and start < len(others) and live_places.get(others[start][0], place) < place:
            made.append(others[start][1])
            start += 1
        made.append(item)
    return made + [item for _, item in others[start:]]


def _places(items: Items, merge_key: str) -> dict[Identity, int]:
    places: dict[Identity, int] = {}
    for index, item in enumerate(items):
        places.setdefault(item_identity(item, merge_key), index)
    return places


_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"


def strategic_merge_patch(document: Document, patch: Document, kind: Type) -> Document:
    """The document after a strategic merge patch; neither is changed.

    Raises StatusError where a directive is malformed (400), a list of lists would have to be merged (422), or the patch
    does not fit the object, which Kubernetes answers with 500.
    """
    return _merge(copied(document), copied(patch), kind)


def _field(kind: Type, name: str, *, of_list: bool = False) -> Field:
    found = kind.fields.get(name)
    if found is None:
        what = "is a map, whose objects are not merged" if kind.sort == "map" else f"has no field {quoted(name)}"
        raise plain_internal(f"{kind.name.rpartition('.')[2]} {what}")
    if of_list and found.type.kind != "array":
        raise plain_internal(f"{name} is not a list")
    return found


def _merge(into: Document, patch: Document, kind: Type) -> Document:
    if _DIRECTIVE in patch:
        return _replaced_or_deleted(patch)
    _retain_keys(into, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_in_order(into, patch, key, kind)
    for key, value in patch.items():
        deletes = key.startswith(_DELETE_FROM)
        name = _directed_field(key, _DELETE_FROM) if deletes else key
        if value is None:
            into.pop(name, None)
        elif name in into and type(into[name]) is type(value):
            _merge_field(into, name, value, kind, deletes=deletes)
        elif not deletes:
            _put(into, name, without_nulls(value))
    return into


def _merge_field(into: Document, name: str, value: Any, kind: Type, *, deletes: bool) -> None:
    if type(value) is dict:
        inner = _field(kind, name)
        into[name] = value if inner.strategy == "replace" else _merge(into[name], value, inner.type)
    elif type(value) is list:
        items = _field(kind, name, of_list=True)
        if deletes or items.strategy == "merge":
            into[name] = _merge_lists(into[name], value, items, deletes=deletes)
        else:
            into[name] = value
    else:
        into[name] = value


def _replaced_or_deleted(patch: Document) -> Document:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: Document) -> StatusError:
    return plain_internal(f"unknown patch type: {json_text(patch[_DIRECTIVE])} in map: {json_text(patch)}")


def _directed_field(key: str, directive: str) -> str:
    found, slash, name = key.partition("/")
    if slash and found == directive:
        return name
    kinds = {_DELETE_FROM: "primitive list", _ORDER: "setElementOrder list"}
    raise bad_request(f"invalid patch format of {kinds[directive]}")


def _retain_keys(into: Document, patch: Document) -> None:
    if _RETAIN not in patch:
        return
    retained = patch.pop(_RETAIN)
    if type(retained) is not list:
        raise bad_request("invalid patch format of retainKeys")
    kept = {identity(key) for key in retained}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and (str, key) not in kept:
            raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in into if (str, key) not in kept]:
        del into[key]


def _merge_in_order(into: Document, patch: Document, directive: str, kind: Type) -> None:
    """Merge the list that `$setElementOrder` is for, and put it in that order. Its patch is done with afterwards."""
    order = _list(patch.pop(directive))
    name = _directed_field(directive, _ORDER)
    live = _list(into[name]) if name in into else None
    change = _list(patch[name]) if name in patch else None
    items = _field(kind, name, of_list=True)
    if live is None and change is None:
        return
    before = list(live or [])
    if change is None:
        merged = before
    elif live is None:
        merged = _without_directives(change)
    elif items.strategy == "merge":
        merged = _merge_lists(live, change, items, deletes=False)
    else:
        merged = change
    into[name] = ordered(merged, order, before, items.merge_key)
    patch.pop(name, None)


def _list(value: Any) -> Items:
    if type(value) is not list:
        raise plain_internal(f"expected a list, but received {json_text(value)}")
    return value


def _merge_lists(live: Items, change: Items, items: Field, *, deletes: bool) -> Items:
    if not live and not change:
        return live
    kind = type((change or live)[0])
    if kind is list:
        raise UnappliedPatchError("lists of lists are not supported")
    if kind is not dict:
        if deletes:
            gone = {identity(item) for item in change}
            return [item for item in live if identity(item) not in gone]
        merged, merge_key = _distinct([*live, *change]), items.merge_key
    else:
        merge_key = items.merge_key
        if not merge_key:
            raise plain_internal("cannot merge lists without merge key for struct")
        live, change = _apply_item_directives(live, change, merge_key)
        merged = _merge_items(live, change, items)
    return ordered(merged, change, live, merge_key)


def _distinct(items: Items) -> Items:
    return list({identity(item): item for item in items}.values())


def _apply_item_directives(live: Items, change: Items, merge_key: str) -> tuple[Items, Items]:
    """Delete the items that the patch deletes, or all if it replaces. Returns what is left of both lists."""
    rest, replaces = [], False
    for item in change:
        directive = item.get(_DIRECTIVE)
        if _DIRECTIVE not in item:
            rest.append(item)
        elif directive == "delete":
            gone = item_identity(item, merge_key)
            live = [one for one in live if one.get(merge_key) is None or identity(one[merge_key]) != gone]
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise plain_internal("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item)
    return (rest, []) if replaces else (live, rest)


def _merge_items(live: Items, change: Items, items: Field) -> Items:
    merge_key = items.merge_key
    merged = list(live)
    places: dict[Any, int] = {}
    for index, item in enumerate(live):
        if merge_key in item:
            places.setdefault(identity(item[merge_key]), index)
    for item in change:
        key = item_identity(item, merge_key)
        if key in places:
            merged[places[key]] = _merge(merged[places[key]], item, items.type.item)
        else:
            places[key] = len(merged)
            merged.append(item)
    return merged


def _put(into: Document, name: str, value: Any) -> None:
    """Set a field that the object has not, or has with another type. A directive in it has nothing to act on."""
    if type(value) is dict and _DIRECTIVE in value:
        into.pop(name, None)
    else:
        into[name] = _without_directives(value)


def _without_directives(value: Any) -> Any:
    """The value without the objects inside it that carry `$patch`."""
    if type(value) is dict:
        return {key: _without_directives(inner) for key, inner in value.items() if not _is_directive(inner)}
    if type(value) is list:
        return [_without_directives(inner) for inner in value if not _is_directive(inner)]
    return value


def _is_directive(value: Any) -> bool:
    return type(value) is dict and _DIRECTIVE in value
