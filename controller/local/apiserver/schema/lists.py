# SPDX-License-Identifier: Apache-2.0
"""Items that are in a set or map list twice.

Source: `apiextensions-apiserver/pkg/apiserver/schema/listtype`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.merge.apply.values import json_text
from trainwright.controller.local.apiserver.schema.errors import duplicate, invalid
from trainwright.controller.local.apiserver.schema.problems import Step

Schema = Mapping[str, Any]
Found = tuple[list[Step], Callable[[str], DocumentError]]
"""The way to an item, backwards, and what makes the error of its path."""
_MISSING = object()
ListCheck = Callable[[Any], list[Found]]


def compile_list_check(schema: Schema) -> ListCheck | None:
    """The check of the lists in values of a schema; None if none of them has a type."""
    declared = _checks(schema.get("properties", {}))
    others, items = schema.get("additionalProperties"), schema.get("items")
    other = compile_list_check(others) if isinstance(others, Mapping) else None
    item = compile_list_check(items) if isinstance(items, Mapping) else None
    repeated = _repeated(schema)
    if not declared and other is None and item is None and repeated is None:
        return None

    def check(value: Any) -> list[Found]:
        found: list[Found] = []
        if type(value) is dict:
            for name, inner in value.items():
                # A field of an object is looked at twice where its name is declared beside others.
                for part in (other, declared.get(name)):
                    if part is not None and (type(inner) is dict or type(inner) is list):
                        found += _at(name, part(inner))
        elif type(value) is list:
            if repeated is not None:
                found += repeated(value)
            if item is not None:
                for index, inner in enumerate(value):
                    if type(inner) is dict or type(inner) is list:
                        found += _at(index, item(inner))
        return found

    return check


def _checks(properties: Mapping[str, Schema]) -> dict[str, ListCheck]:
    return {name: check for name, inner in properties.items() if (check := compile_list_check(inner)) is not None}


def _at(step: Step, found: list[Found]) -> list[Found]:
    for steps, _ in found:
        steps.append(step)
    return found


def _repeated(schema: Schema) -> ListCheck | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return lambda value: [_duplicate(index, value[index]) for index in _repetitions(value)]
    if kind == "map":
        return _map_check(tuple(schema.get("x-kubernetes-list-map-keys", ())))
    return None


def _duplicate(index: int, shown: Any) -> Found:
    return [index], lambda field: duplicate(field, shown)


def _map_check(keys: tuple[str, ...]) -> ListCheck:
    def check(value: list[Any]) -> list[Found]:
        for index, item in enumerate(value):
            if item is not None and type(item) is not dict:
                return [_not_an_object(index, item)]
        if len(value) < 2:
            return []
        shown = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
        # One key is compared as a value, several are as their JSON: there 1 and 1.0 are the same.
        identities = shown if len(keys) != 1 else [item.get(keys[0], _MISSING) for item in shown]
        return [_duplicate(index, shown[index]) for index in _repetitions(identities)]

    return check


def _not_an_object(index: int, item: Any) -> Found:
    return [index], lambda field: invalid(field, item, "must be an object for an array of list-type map")


def _repetitions(values: Sequence[Any]) -> list[int]:
    """The index of the second appearance of each value; of third ones nothing is said."""
    if len(values) < 2:
        return []
    times: dict[Any, int] = {}
    repeated: list[int] = []
    for index, value in enumerate(values):
        identity = _identity(value)
        times[identity] = times.get(identity, 0) + 1
        if times[identity] == 2:
            repeated.append(index)
    return repeated


def _identity(value: Any) -> Any:
    """Equal for equal values: of scalars by type, of objects and lists by their JSON."""
    return json_text(value) if type(value) in (dict, list) else (type(value), value)
