# SPDX-License-Identifier: Apache-2.0
"""Dropping what a schema does not know, and nulls where it allows none: what decoding into a Go type does by itself.

Source: `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting}`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from trainwright.controller.local.apiserver.schema.problems import Step

Schema = Mapping[str, Any]
Way = list[Step]
"""The way to a dropped field, backwards."""
Prune = Callable[[Any], list[Way] | None]
"""Takes an object or list in place and tells what it dropped, except nulls."""

META = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, which are kept in objects within objects too."""


def compile_prune(schema: Schema, *, root: bool = False) -> Prune:
    """The pruning of values of a schema; `root` where it is the schema of a whole object."""
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    in_object = _object_prune(schema, preserve, root or bool(schema.get("x-kubernetes-embedded-resource")))
    in_list = _list_prune(_later(lambda: _compile_items(schema.get("items"), skip=preserve)))
    return _by_type(in_object, in_list)


def _compile_items(items: Schema | None, *, skip: bool) -> Prune:
    """Items of a list that keeps unknown fields keep theirs, whatever their own schema says."""
    if not skip:
        return _drop_all if items is None else compile_prune(items)
    return _keep_all if items is None else compile_prune({**items, "x-kubernetes-preserve-unknown-fields": True})


def _later(compile_it: Callable[[], Prune]) -> Prune:
    """Compile when it is first used: a pod template declares more than a thousand fields, and has some ten."""
    made: Prune | None = None

    def prune(value: Any) -> list[Way] | None:
        nonlocal made
        if made is None:
            made = compile_it()
        return made(value)

    return prune


def _compile_later(schema: Schema) -> Prune:
    return _later(lambda: compile_prune(schema))


def _by_type(in_object: Prune, in_list: Prune) -> Prune:
    def prune(value: Any) -> list[Way] | None:
        return in_object(value) if type(value) is dict else in_list(value)

    return prune


def _keep_all(value: Any) -> list[Way] | None:  # noqa: ARG001  as all of its kind
    return None


def _drop_all(value: Any) -> list[Way] | None:
    """Without a schema an object has no fields; lists keep their items."""
    if type(value) is dict:
        found: list[Way] = [[name] for name in value]
        value.clear()
        return found
    return _drop_in_list(value)


def _list_prune(prune: Prune) -> Prune:
    def prune_list(value: list[Any]) -> list[Way] | None:
        found: list[Way] | None = None
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                dropped = prune(item)
                if dropped:
                    for way in dropped:
                        way.append(index)
                    found = dropped if found is None else found + dropped
        return found

    return prune_list


_drop_in_list = _list_prune(_drop_all)


def _rejects_null(schema: Schema) -> bool:
    """Whether null is dropped; where there is a default it becomes that instead."""
    return not schema.get("nullable") and schema.get("default") is None


def _object_prune(schema: Schema, preserve: bool, embedded: bool) -> Prune:
    declared, nulls = _declared(schema.get("properties", {}), embedded)
    other, other_null = _others(schema.get("additionalProperties"), preserve)

    def prune(value: dict[str, Any]) -> list[Way] | None:
        found: list[Way] | None = None
        gone: list[str] | None = None
        for name, inner in value.items():
            part = declared.get(name, other)
            if part is None:
                found = [*(found or ()), [name]]
                gone = [*(gone or ()), name]
            elif inner is None:
                if nulls.get(name, other_null):
                    gone = [*(gone or ()), name]
            elif type(inner) is dict or type(inner) is list:
                dropped = part(inner)
                if dropped:
                    for way in dropped:
                        way.append(name)
                    found = dropped if found is None else found + dropped
        for name in gone or ():
            del value[name]
        return found

    return prune


def _declared(properties: Mapping[str, Schema], embedded: bool) -> tuple[dict[str, Prune], dict[str, bool]]:
    """How declared fields are pruned, and whether their nulls are dropped."""
    declared = {name: _compile_later(inner) for name, inner in properties.items()}
    if embedded:
        declared |= dict.fromkeys(META, _keep_all)
    return declared, {name: _rejects_null(inner) for name, inner in properties.items()}


def _others(others: Any, preserve: bool) -> tuple[Prune | None, bool]:
    """How undeclared fields are pruned, and whether their nulls are dropped."""
    if others is None:
        return (_keep_all if preserve else None), False
    if isinstance(others, Mapping):
        return compile_prune(others), _rejects_null(others)
    # The fields stay whether they are allowed or not; what they hold has no schema.
    return _drop_all, False
