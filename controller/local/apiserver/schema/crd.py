# SPDX-License-Identifier: Apache-2.0
"""One version of a CRD, compiled: what the server does to a document of this kind before it is stored.

Source: `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,listtype}`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.schema.checks import compile_checks, problems_of
from trainwright.controller.local.apiserver.schema.errors import BLOCKING, NOWHERE, SchemaProblem, duplicate, invalid
from trainwright.controller.local.apiserver.schema.metadata import coerce, compile_walk, decode_metadata
from trainwright.controller.local.apiserver.schema.metadata import validate as validate_embedded
from trainwright.controller.local.apiserver.schema.rules import UNCHECKED, Correlation, compile_rules, is_excused
from trainwright.controller.local.values import Step, copied, json_text, path_text

Way = list[Step]
"""The way to a dropped field, backwards."""
Prune = Callable[[Any], list[Way] | None]
"""Takes an object or list in place and tells what it dropped, except nulls."""

META = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, which are kept in objects within objects too."""


def compile_prune(schema: Mapping[str, Any], *, root: bool = False) -> Prune:
    """The pruning of values of a schema; `root` where it is the schema of a whole object."""
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    in_object = _object_prune(schema, preserve, root or bool(schema.get("x-kubernetes-embedded-resource")))
    in_list = _list_prune(_later(lambda: _compile_items(schema.get("items"), skip=preserve)))
    return _by_type(in_object, in_list)


def _compile_items(items: Mapping[str, Any] | None, *, skip: bool) -> Prune:
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


def _compile_later(schema: Mapping[str, Any]) -> Prune:
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


def _rejects_null(schema: Mapping[str, Any]) -> bool:
    """Whether null is dropped; where there is a default it becomes that instead."""
    return not schema.get("nullable") and schema.get("default") is None


def _object_prune(schema: Mapping[str, Any], preserve: bool, embedded: bool) -> Prune:
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


def _declared(properties: Mapping[str, Mapping[str, Any]], embedded: bool) -> tuple[dict[str, Prune], dict[str, bool]]:
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


Default = Callable[[Any], None]
"""Fills in the defaults inside an object or list, in place."""
_SCALARS = (str, int, float, bool)


def compile_default(schema: Mapping[str, Any]) -> Default | None:
    """The defaulting inside values of a schema; None if there is nothing to fill in."""
    in_object, in_list = _object_default(schema), _list_default(schema.get("items"))
    if in_object is None and in_list is None:
        return None

    def fill(value: Any) -> None:
        if type(value) is dict:
            if in_object is not None:
                in_object(value)
        elif type(value) is list and in_list is not None:
            in_list(value)

    return fill


def _maker(schema: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Makes the default of a schema, if there is one."""
    default = schema.get("default")
    if default is None:
        return None
    return (lambda: default) if type(default) in _SCALARS else (lambda: copied(default))


def _object_default(schema: Mapping[str, Any]) -> Default | None:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    made = [
        (name, maker, bool(inner.get("nullable")))
        for name, inner in properties.items()
        if (maker := _maker(inner)) is not None
    ]
    inside = {name: fill for name, inner in properties.items() if (fill := compile_default(inner)) is not None}
    others = schema.get("additionalProperties")
    other, other_made, strict = None, None, False
    if isinstance(others, Mapping):
        other, other_made, strict = compile_default(others), _maker(others), not others.get("nullable")
    if not made and not inside and other is None and other_made is None:
        return None

    def default(value: dict[str, Any]) -> None:
        for name, make, nullable in made:
            if name not in value or (value[name] is None and not nullable):
                value[name] = make()
        for name, fill in inside.items():
            if name in value:
                fill(value[name])
        if other is not None or other_made is not None:
            for name in value.keys() - properties.keys():
                if value[name] is None and strict and other_made is not None:
                    value[name] = other_made()
                if other is not None:
                    other(value[name])

    return default


def _list_default(items: Mapping[str, Any] | None) -> Default | None:
    if items is None:
        return None
    inside, made, strict = compile_default(items), _maker(items), not items.get("nullable")
    if inside is None and made is None:
        return None

    def default(value: list[Any]) -> None:
        for index, item in enumerate(value):
            if item is None and strict and made is not None:
                value[index] = made()
            if inside is not None:
                inside(value[index])

    return default


Found = tuple[list[Step], Callable[[str], DocumentError]]
"""The way to an item, backwards, and what makes the error of its path."""
_MISSING = object()
ListCheck = Callable[[Any], list[Found]]


def compile_list_check(schema: Mapping[str, Any]) -> ListCheck | None:
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


def _checks(properties: Mapping[str, Mapping[str, Any]]) -> dict[str, ListCheck]:
    return {name: check for name, inner in properties.items() if (check := compile_list_check(inner)) is not None}


def _at(step: Step, found: list[Found]) -> list[Found]:
    for steps, _ in found:
        steps.append(step)
    return found


def _repeated(schema: Mapping[str, Any]) -> ListCheck | None:
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


Document = dict[str, Any]


class Schema:
    """The compiled schema of one version of a CRD.

    A write goes through `prune`, `default` and, after admission, `validate`. Documents hold what a JSON decoder makes.

    Args:
        schema: `openAPIV3Schema` of a version; structural, as the validation of the CRD has made sure.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self._prune = compile_prune(schema, root=True)
        self._default = compile_default(schema)
        self._lists = compile_list_check(schema)
        self._embedded = compile_walk(schema)
        self._rules = compile_rules(schema)

    @cached_property
    def _checks(self) -> Any:
        return compile_checks(self.schema)

    @cached_property
    def _status_checks(self) -> Any:
        return compile_checks(self.schema.get("properties", {}).get("status", {}))

    def decode(self, document: Document) -> list[str]:
        """What the server does to the body of a request: metadata, `prune` and `default`, in place.

        Returns:
            The paths of unknown fields, in the order of the server's warnings.

        Raises:
            DecodeError: metadata, or kind or version of an embedded object, are of the wrong type.
        """
        dropped: list[str] = []
        if "metadata" in document:
            document["metadata"], unknown = decode_metadata(document["metadata"])
            dropped += [f"metadata.{path}" for path in unknown]
        dropped += self.prune(document)
        self.default(document)
        return dropped

    def prune(self, document: Document) -> list[str]:
        """Drop unknown fields, and nulls of fields that have no default and are not nullable; in place.

        Returns:
            The paths of the unknown fields. `unknown_field` makes the texts of warnings and strict errors.

        Raises:
            DecodeError: an embedded object has kind, version or metadata of the wrong type.
        """
        dropped = sorted(path_text(reversed(way)) for way in self._prune(document) or ())
        if self._embedded is not None:
            dropped += coerce(self._embedded, document)
        return dropped

    def default(self, document: Document) -> None:
        """Fill in the defaults, in place."""
        if self._default is not None:
            self._default(document)

    def validate(
        self,
        new: Document,
        old: Document | None = None,
        *,
        known: Sequence[DocumentError] = (),
        excused: list[DocumentError] | None = None,
    ) -> list[DocumentError]:
        """The errors of a create or, with the stored object, of an update. Unchanged values are excused.

        Args:
            new: the object as it would be stored.
            old: the stored object.
            known: errors of its metadata; they come first, and after some of them no rule is evaluated.
            excused: gets the errors of rules that are forgiven, because the value has not changed.
        """
        root = Correlation(self.schema, new, old) if old is not None else None
        found = [*known, *(one.located() for one in _unexcused(problems_of(self._checks, new), root))]
        if self._embedded is not None:
            found += validate_embedded(self._embedded, new)
        found += self._list_errors(new, old)
        return found + self._rule_errors(new, old, found, root, excused)

    def validate_status(
        self,
        new: Document,
        old: Document,
        *,
        known: Sequence[DocumentError] = (),
        excused: list[DocumentError] | None = None,
    ) -> list[DocumentError]:
        """The errors of a write to the endpoint `status`; both are whole objects."""
        found = list(known)
        root = Correlation(self.schema, new, old)
        if "status" in new:
            problems = _unexcused(problems_of(self._status_checks, new["status"]), root.at("status"))
            found += [problem.located("status") for problem in problems]
        found += self._list_errors(new, old)
        return found + self._rule_errors(new, old, found, root, excused)

    def _list_errors(self, new: Document, old: Document | None) -> list[DocumentError]:
        if self._lists is None:
            return []
        errors = [_placed(one) for one in self._lists(new)]
        # An object that had such errors before may have others now.
        return [] if errors and old is not None and self._lists(old) else errors

    def _rule_errors(
        self,
        new: Document,
        old: Document | None,
        found: list[DocumentError],
        root: Correlation | None,
        excused: list[DocumentError] | None,
    ) -> list[DocumentError]:
        if self._rules is None:
            return []
        if any(one.reason in BLOCKING for one in found):
            return [UNCHECKED]
        return self._rules.errors(new, old, "", root, None, excused)


def _unexcused(problems: list[SchemaProblem], root: Correlation | None) -> list[SchemaProblem]:
    if root is None or not problems:
        return problems
    return [one for one in problems if not is_excused(root, reversed(one.steps[one.fixed :]))]


def _placed(found: Found) -> DocumentError:
    steps, make = found
    return make(path_text(reversed(steps)) or NOWHERE)


def unknown_field(path: str) -> str:
    """The text of a warning about a dropped field, and of one part of a strict decoding error."""
    return f'unknown field "{path}"'


def compile_schema(schema: Mapping[str, Any]) -> Schema:
    """Compile a structural schema."""
    return Schema(schema)
