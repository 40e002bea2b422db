# SPDX-License-Identifier: Apache-2.0
"""Custom resources: what the server does to a document of this kind before it is stored, by the schema of its version.

`prune`, `fill_defaults`, `embedded_errors` and `list_errors` walk a document with its type. The checks of values and
the rules are compiled, in `schema/checks.py` and `schema/rules.py`.

Source: `apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,listtype,objectmeta}`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from trainwright.api import names
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.metadata import set_or_drop
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.kinds.validation import validate_metadata
from trainwright.controller.local.apiserver.schema.checks import compile_checks, problems_of
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata
from trainwright.controller.local.apiserver.schema.rules import UNCHECKED, rule_errors
from trainwright.controller.local.types.errors import BLOCKING, NOWHERE, DocumentError, duplicate, invalid, required
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.types.model import ATOMIC, OF_OBJECTS, Mark, Type, custom_type
from trainwright.controller.local.values import SCALARS, Step, copied, equal, json_text, path_text, quoted

_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_EXACT = 2.0**53
"""Below this, a float with no fraction is exactly one integer."""
Way = list[Step]
"""The way to a dropped field, backwards."""
Visit = Callable[[Type, Any, tuple[Step, ...]], None]
_MISSING = object()


class Schema:
    """The compiled schema of one version of an accepted CRD.

    A write goes through `prune`, `default` and, after admission, `validate`. Documents hold what a JSON decoder makes.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.type = custom_type(schema)

    @cached_property
    def _checks(self) -> Any:
        return compile_checks(self.type)

    @cached_property
    def _status_checks(self) -> Any:
        return compile_checks(self.type.declared.get("status", ATOMIC))

    def prune(self, document: Document) -> list[str]:
        """Drop unknown fields, and nulls of fields that have no default and are not nullable; in place.

        Returns the paths of the unknown fields, of which `unknown_field` makes texts. Raises DocumentDecodeError.
        """
        dropped = sorted(path_text(reversed(way)) for way in prune(self.type, document))
        return dropped + decode_embedded(self.type, document)

    def default(self, document: Document) -> None:
        """Fill in the defaults, in place."""
        fill_defaults(self.type, document)

    def validate(
        self,
        new: Document,
        old: Document | None = None,
        *,
        status: bool = False,
        known: Sequence[DocumentError] = (),
    ) -> list[DocumentError]:
        """The errors of a create or, with the stored object, of an update. Unchanged values are excused.

        Args:
            new: the whole object as it would be stored.
            old: the stored object.
            status: it is an update through the endpoint `status`, so the values of nothing else are checked.
            known: errors of its metadata; they come first, and after some of them no rule is evaluated.
        """

        def is_old(path: str) -> bool:
            return old is not None and _is_unchanged(new, old, path)

        found = list(known)
        if not status:
            found += [one for each in problems_of(self._checks, new) if not is_old((one := each.located()).field)]
            found += embedded_errors(self.type, new)
        elif "status" in new:
            problems = (each.located("status") for each in problems_of(self._status_checks, new["status"]))
            found += [one for one in problems if not is_old(one.field)]
        wrong_lists = list_errors(self.type, new)
        # An object that had such errors before may have others now.
        found += [] if wrong_lists and old is not None and list_errors(self.type, old) else wrong_lists
        if "rule" not in self.type.marks:
            return found
        if any(one.reason in BLOCKING for one in found):
            return [*found, UNCHECKED]
        return [*found, *rule_errors(self.type, new, old, is_old=is_old)]


_FIELD = re.compile(r"[^.\[\]]+")


def _is_unchanged(new: Any, old: Any, path: str) -> bool:
    """Whether the field at a path is as it was, or an object around it; of lists, all of it (KEP-4008)."""
    for name in _FIELD.findall(path.partition("[")[0]) if path != NOWHERE else ():
        if type(new) is not dict or type(old) is not dict or name not in new or name not in old:
            return False
        new, old = new[name], old[name]
        if equal(new, old):
            return True
    return False


def unknown_field(path: str) -> str:
    """The text of a warning about a dropped field, and of one part of a strict decoding error."""
    return f'unknown field "{path}"'


def prune(kind: Type, value: Any, *, keeps: bool = False) -> list[Way]:
    """Drop what a type does not know, and nulls where it allows none, in place. Returns the ways to the unknown.

    With `keeps`, unknown fields stay, as in items of a list that keeps them.
    """
    keeps = keeps or kind.keeps
    if type(value) is list:
        return _prune_items(kind, value, keeps=keeps)
    found: list[Way] = []
    gone: list[str] = []
    parts, values = kind.parts, kind.values
    for name, inner in value.items():
        part = parts.get(name, values)
        is_deep = type(inner) is dict or type(inner) is list
        if part is not None and inner is not None and not is_deep:
            continue
        if kind.embedded and name in OF_OBJECTS:
            continue
        if part is None:
            if "additionalProperties" in kind.schema:
                # The field stays whether it is allowed or not; what it holds has no schema.
                found += _behind(name, _clear(inner)) if is_deep else ()
            elif not keeps:
                found.append([name])
                gone.append(name)
        elif is_deep:
            if dropped := prune(part, inner):
                found += _behind(name, dropped)
        elif not part.nullable and part.default is None:
            gone.append(name)
    for name in gone:
        del value[name]
    return found


def _prune_items(kind: Type, value: list[Any], *, keeps: bool) -> list[Way]:
    found: list[Way] = []
    has_items = "items" in kind.schema
    for index, inner in enumerate(value):
        if type(inner) is not dict and type(inner) is not list:
            continue
        if has_items:
            if dropped := prune(kind.item, inner, keeps=keeps):
                found += _behind(index, dropped)
        elif not keeps:
            found += _behind(index, _clear(inner))
    return found


def _behind(step: Step, ways: list[Way]) -> list[Way]:
    for way in ways:
        way.append(step)
    return ways


def _clear(value: Any) -> list[Way]:
    """Without a schema an object has no fields; lists keep their items."""
    if type(value) is dict:
        found: list[Way] = [[name] for name in value]
        value.clear()
        return found
    deep = ((index, inner) for index, inner in enumerate(value) if type(inner) is dict or type(inner) is list)
    return [way for index, inner in deep for way in _behind(index, _clear(inner))]


def fill_defaults(kind: Type, value: Any) -> None:
    """Fill in the defaults inside an object or list, in place: where a field is absent, or null without being nullable.

    Absent objects are not made to hold defaults of their fields.
    """
    if type(value) is list:
        for index, inner in enumerate(value if "default" in kind.item.marks else ()):
            _fill(value, index, inner, kind.item)
        return
    for name, default in kind.defaults:
        if name not in value:
            value[name] = default if type(default) in SCALARS else copied(default)
    parts, values = kind.parts, kind.values
    for name, inner in value.items():
        if inner is None or type(inner) is dict or type(inner) is list:
            part = parts.get(name, values)
            if part is not None and "default" in part.marks and not (kind.embedded and name in OF_OBJECTS):
                _fill(value, name, inner, part)


def _fill(around: Any, step: Any, value: Any, kind: Type) -> None:
    if value is None and not kind.nullable and kind.default is not None:
        around[step] = value = copied(kind.default)
    if type(value) is dict or type(value) is list:
        fill_defaults(kind, value)


def _visit(kind: Type, value: Any, way: tuple[Step, ...], mark: Mark, visit: Visit) -> None:
    """Visit the embedded objects, or the lists with keys, in a value, and itself if it is one."""
    if type(value) is dict:
        if kind.embedded and mark == "embedded":
            visit(kind, value, way)
        parts, values = kind.parts, kind.values
        for name, inner in value.items():
            part = parts.get(name, values)
            if part is not None and mark in part.marks and not (kind.embedded and name in OF_OBJECTS):
                _visit(part, inner, (*way, name), mark, visit)
    elif type(value) is list:
        if kind.keys is not None and mark == "keyed":
            visit(kind, value, way)
        if mark in kind.item.marks:
            for index, inner in enumerate(value):
                _visit(kind.item, inner, (*way, index), mark, visit)


def decode_embedded(kind: Type, document: Document) -> list[str]:
    """Bring the metadata of objects within an object into their form, in place. Returns the paths of unknown fields.

    Raises DocumentDecodeError where kind, version or metadata are of the wrong type.
    """
    dropped: list[str] = []

    def visit(_: Type, value: Any, way: tuple[Step, ...]) -> None:
        if not way:
            return
        for name in ("apiVersion", "kind"):
            if name in value and type(value[name]) is not str:
                raise DocumentDecodeError(str(invalid(path_text((*way, name)), value[name], "must be a string")))
        if "metadata" in value:
            path = path_text((*way, "metadata"))
            try:
                value["metadata"], unknown = decode_metadata(value["metadata"])
            except DocumentDecodeError as error:
                raise DocumentDecodeError(str(invalid(path, value["metadata"], str(error)))) from error
            dropped.extend(f"{path}.{name}" for name in unknown)

    _visit(kind, document, (), "embedded", visit)
    return sorted(dropped)


def embedded_errors(kind: Type, document: Document, base: str = "") -> list[DocumentError]:
    """The errors of the objects within a document; `base` is its path, if it is a part of one."""
    found: list[DocumentError] = []

    def visit(_: Type, value: Any, way: tuple[Step, ...]) -> None:
        if way or base:
            found.extend(_embedded_errors(value, path_text((base, *way) if base else way)))

    _visit(kind, document, (), "embedded", visit)
    return found


def _embedded_errors(value: dict[str, Any], path: str) -> list[DocumentError]:
    found = [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    version, kind = value.get("apiVersion", "v1"), value.get("kind", "a")
    if not version or version.count("/") > 1:
        found.append(invalid(f"{path}.apiVersion", version, "must be a group and a version, such as apps/v1"))
    if names.dns_label_1035(kind.lower()):
        found.append(invalid(f"{path}.kind", kind, "must be the name of a kind, such as Deployment"))
    if "metadata" in value:
        metadata = {**value["metadata"], "name": value["metadata"].get("name") or "fakename"}
        namespaced = bool(metadata.get("namespace"))
        found += validate_metadata(metadata, namespaced=namespaced, path=f"{path}.metadata")
    return found


def list_errors(kind: Type, document: Document) -> list[DocumentError]:
    """Items that are in a set or map list twice, and those of map lists that are no objects."""
    found: list[DocumentError] = []

    def visit(kind: Type, value: Any, way: tuple[Step, ...]) -> None:
        found.extend(_errors_of_list(kind.keys or (), value, way))

    _visit(kind, document, (), "keyed", visit)
    return found


def _errors_of_list(keys: tuple[str, ...], value: list[Any], way: tuple[Step, ...]) -> list[DocumentError]:
    shown: list[Any] = value
    if keys:
        for index, item in enumerate(value):
            if item is not None and type(item) is not dict:
                wrong = "must be an object for an array of list-type map"
                return [invalid(path_text((*way, index)), item, wrong)]
        shown = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
    # One key is compared as a value, several are as their JSON: there 1 and 1.0 are the same.
    identities = [item.get(keys[0], _MISSING) for item in shown] if len(keys) == 1 else shown
    return [duplicate(path_text((*way, index)), shown[index]) for index in _repetitions(identities)]


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


# -------------------------------------------------------------- the strategy


class CustomStrategy(Strategy):
    """The strategy of one version of a CustomResourceDefinition.

    Args:
        schema: `openAPIV3Schema` of the version; None where everything is kept as it is.
        has_status: whether `status` is written through its own endpoint.
    """

    unconditional_update = False

    def __init__(self, schema: Document | None, *, has_status: bool) -> None:
        self._source = schema
        self._has_status = has_status

    @cached_property
    def _schema(self) -> Schema | None:
        """Compiled when first needed: it takes a while, and many kinds of a short-lived cluster have no object."""
        return None if self._source is None else Schema(self._source)

    def drop_unknown(self, document: Document) -> list[str]:
        dropped: list[str] = []
        if "metadata" in document:
            document["metadata"], unknown = decode_metadata(document["metadata"])
            dropped += [f"metadata.{path}" for path in unknown]
        if self._schema is not None:
            dropped += self._schema.prune(document)
        return [unknown_field(path) for path in dropped]

    def default(self, document: Document) -> None:
        _write_whole_numbers(document)
        if self._schema is not None:
            self._schema.default(document)

    def prepare_for_create(self, document: Document) -> None:
        if self._has_status:
            document.pop("status", None)
        document["metadata"]["generation"] = 1

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            status, managed = new.get("status"), new["metadata"].get("managedFields")
            version = new["metadata"].get("resourceVersion")
            new.clear()
            new.update({**old, "metadata": dict(old["metadata"])})
            set_or_drop(new, "status", status)
            set_or_drop(new["metadata"], "managedFields", managed)
            set_or_drop(new["metadata"], "resourceVersion", version)
            return
        if self._has_status:
            set_or_drop(new, "status", old.get("status"))
        if _desired(new, with_status=not self._has_status) != _desired(old, with_status=not self._has_status):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        before = set(((old or {}).get("metadata") or {}).get("finalizers") or ())
        added = sorted(set(new["metadata"].get("finalizers") or ()) - before)
        return [text for name in added for text in _finalizer_warnings(name)]

    def errors(
        self, known: list[DocumentError], new: Document, old: Document | None, subresource: str
    ) -> list[DocumentError]:
        if self._schema is None:
            return known
        return self._schema.validate(new, old, status=subresource == "status", known=known)


def _finalizer_warnings(name: str) -> list[str]:
    field = f"metadata.finalizers: {quoted(name)}"
    found = [f"{field}: {text}" for text in names.qualified(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        found.append(
            f"{field}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other "
            "finalizer writers"
        )
    return found


def _desired(document: Document, *, with_status: bool) -> Document:
    dropped = ("metadata",) if with_status else ("metadata", "status")
    return {name: value for name, value in document.items() if name not in dropped}


def _write_whole_numbers(value: Any) -> None:
    """Make integers of floats without a fraction, as the JSON of Go does: `1.0` becomes `1`."""
    entries: Iterable[tuple[Any, Any]] = value.items() if type(value) is dict else enumerate(value)
    for key, inner in entries:
        if type(inner) is float:
            if inner.is_integer() and abs(inner) < _EXACT:
                value[key] = int(inner)
        elif type(inner) is dict or type(inner) is list:
            _write_whole_numbers(inner)
