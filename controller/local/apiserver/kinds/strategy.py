# SPDX-License-Identifier: Apache-2.0
"""The contract of a strategy, and what all built-in kinds do: recorded defaults, and what `rules/*.json` refuse.

Amounts of resources are written canonically, and rounded up to thousandths.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from trainwright.api.names import NameRule, dns_subdomain
from trainwright.api.objects import Document, dig
from trainwright.api.quantity import Quantity
from trainwright.controller.local.apiserver.kinds.formats import NAME_RULES, same
from trainwright.controller.local.apiserver.kinds.metadata import set_or_drop
from trainwright.controller.local.apiserver.kinds.podspecs import TEMPLATES, default_pod_spec
from trainwright.controller.local.apiserver.kinds.rules import check, check_change
from trainwright.controller.local.apiserver.schema.published.kinds import (
    COUNTED_METADATA,
    RecordedDefault,
    RecordedKind,
    recorded,
)
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.local.types.model import QUANTITY, Type, builtin

ResetFields: TypeAlias = Mapping[str, tuple[tuple[str, ...], ...]]
"""By subresource ("" is the main endpoint), paths of fields."""


class Strategy:
    """The rules of one kind. Documents are those of the request, and may be changed where a method says so.

    A write calls `drop_unknown` and `default` when its body was decoded, `prepare_for_create` or `prepare_for_update`
    after mutating admission, then `validate` or `validate_update`. The server checks metadata for all kinds.
    """

    create_on_update: bool = False
    """Whether a PUT creates the object if it is not there."""
    unconditional_update: bool = True
    """Whether a PUT may say no resourceVersion."""
    name_rule: NameRule = staticmethod(dns_subdomain)
    graceful: bool = False
    """Whether `grace_of` may give deletions a grace period."""
    orphans_by_default: bool = False
    """Whether a deletion that says nothing leaves the dependents."""
    collects_garbage: bool = True
    """Whether a deletion may wait for dependents. Events cannot."""
    reset_fields: ResetFields = {}  # noqa: RUF012 - never changed
    """What a write to an endpoint cannot change: apply does not own it."""
    returns_deleted: bool = False
    """Whether a deletion that is done is answered with the object; else with a `Status`."""
    marks_time_only: bool = False
    """Whether the mark of a deletion is the time alone, without a grace period and a new generation."""
    deletion_warning: str = ""
    """What a client is warned of that deletes without a propagation policy and without `orphanDependents`."""

    undone: Callable[[Document], list[str]] = staticmethod(lambda _: [])
    """What of an object is stored and not done."""
    error_group: str | None = None
    """The group that messages about invalid objects name, where it is not that of the request."""

    def drop_unknown(self, document: Document) -> list[str]:  # noqa: ARG002
        """Take out what the kind does not know. Returns what is warned of. Raises DecodeError for a wrong type."""
        return []

    def default(self, document: Document) -> None:
        """Fill in what the body leaves open. Called after every decode, also of a patched object."""

    def prepare_for_create(self, document: Document) -> None:
        """Reset what a creation may not say, such as the status; set the generation if the kind has one."""

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        """Reset what this endpoint may not change; raise the generation if the desired state changes."""

    def validate(self, document: Document) -> list[DocumentError]:  # noqa: ARG002
        """Errors of a new object."""
        return []

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        """Errors of a changed object."""
        return []

    def errors(
        self, known: list[DocumentError], new: Document, old: Document | None, subresource: str
    ) -> list[DocumentError]:
        """All errors of a write; `known` are those of the metadata, which come first."""
        if old is None:
            return [*known, *self.validate(new)]
        return [*known, *self.validate_update(new, old, subresource)]

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        """What the client is told beside the answer."""
        return []

    def grace_of(self, document: Document, asked: int | None) -> int | None:  # noqa: ARG002
        """The grace period of a deletion in seconds; None where the object goes at once. For graceful kinds."""
        return None

    def before_delete(self, document: Document) -> None:
        """Refuse a deletion. Raises StatusError."""

    def begin_deletion(self, document: Document) -> None:
        """Note in the object that it is being deleted. Called once, when the deletion timestamp is set."""

    def is_held(self, document: Document) -> bool:  # noqa: ARG002
        """Whether a deleted object must stay for a reason besides finalizers in its metadata, as namespaces have."""
        return False


_INITIAL: dict[str, Document] = {
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": {},
    "batch/v1 Job": {},
    "v1 Namespace": {"phase": "Active"},
    "v1 PersistentVolume": {"phase": "Pending"},
    "v1 PersistentVolumeClaim": {"phase": "Pending"},
    "v1 Service": {"loadBalancer": {}},
}
"""The status of a new object, where it is not that of the table."""


class BuiltInStrategy(Strategy):
    """The rules of a kind that is a Go struct to the real server. A kind that needs more has a subclass."""

    def __init__(self, kind: RecordedKind) -> None:
        self.kind = kind
        self.rules = f"{kind.api_version} {kind.kind}"
        """The name of its rules; kinds that nothing acts on have none."""
        given = _INITIAL.get(self.rules)
        self._initial = bytes(kind.initial) if given is None else msgspec.json.encode(given)
        self.create_on_update = kind.create_on_update
        self.unconditional_update = kind.unconditional_update
        self.returns_deleted = kind.returns_deleted
        self.orphans_by_default = kind.orphans
        self.name_rule = NAME_RULES[kind.name_format]
        self._template = TEMPLATES.get(kind.kind)
        self._has_status = any(one.name == "status" for one in kind.subresources)
        if self._has_status:
            self.reset_fields = {"": (("status",),), "status": (("spec",),), **self.reset_fields}

    def default(self, document: Document) -> None:
        normalize(document, self.kind.model)
        self.complete(document)
        _fill(document, self.kind.model, self.rules, "")
        if self._template is not None:
            default_pod_spec(dig(document, f"{self._template}.spec") or {})

    def complete(self, document: Document) -> None:
        """Fill in what no recorded default says, before the recorded ones are."""

    def prepare_for_create(self, document: Document) -> None:
        _null_empty_lists(document, builtin(self.kind.model))
        if self._has_status:
            set_or_drop(document, "status", msgspec.json.decode(self._initial))
        if self.kind.generation:
            document["metadata"]["generation"] = self.kind.generation

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            for field in old.keys() - {"status", "metadata"}:
                new[field] = old[field]
            return
        if self._has_status:
            set_or_drop(new, "status", old.get("status"))
        _null_empty_lists(new, builtin(self.kind.model))
        about = {field for field in COUNTED_METADATA if field in self.kind.counted}
        changed = any(new.get(field) != old.get(field) for field in self.kind.counted)
        if changed or any(not same(new["metadata"].get(field), old["metadata"].get(field)) for field in about):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate(self, document: Document) -> list[DocumentError]:
        found = check("Object", document) + check(self.rules, document)
        return list({(error.reason, error.field): error for error in found}.values())

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource:
            rules = f"{self.rules}/{subresource}"
            return check("Object", new) + check(rules, new) + check_change(rules, new, old)
        return self.validate(new) + check_change(self.rules, new, old)


def _null_empty_lists(document: Document, kind: Type) -> None:
    """Make empty lists null that Go always writes, in an object and its specification.

    The store of the real server keeps built-in kinds as protobuf, which does not tell an empty list from none. The
    request does: a manager owns the list that it sent.
    """
    for name, field in kind.fields.items():
        held: Any = document.get(name)
        if field.type.sort == "list" and not field.drops_empty:
            document[name] = held or None
        elif name == "spec" and isinstance(held, dict):
            _null_empty_lists(held, field.type)


# -------------------------------------------------------------- defaults

_PLAIN = ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")
"""Structs without defaults, at which the walk ends."""
_MILLI = 10**6
"""Billionths in a thousandth."""


class _Struct(NamedTuple):
    """What the walk needs to know of a model."""

    defaults: tuple[RecordedDefault, ...]
    filled: frozenset[str]
    """Fields whose zero value counts as absent: Go has no pointers there."""
    amounts: tuple[str, ...]
    """Fields with amounts by the name of the resource."""
    inner: tuple[tuple[str, str], ...]
    """Fields that hold structs, lists or maps of them, with the model."""


def _fill(document: Document, model: str, kind: str, field: str) -> None:
    """Set the defaults of a document in the form in which Go writes it, and of all that it holds.

    `kind` is that of the object, `field` the one that holds this part of it.
    """
    known = _struct(model)
    for default in known.defaults:
        value = document.get(default.field)
        if value is not None and (value or default.field not in known.filled):
            continue
        if default.when is None or _holds(default.when, document, kind, field):
            document[default.field] = msgspec.json.decode(default.value)
    for name in known.amounts:
        _round_up(document.get(name) or {})
    for name, inner in known.inner:
        for part in _structs(document.get(name)):
            _fill(part, inner, kind, name)


def _round_up(listed: Document) -> None:
    for name, wire in listed.items():
        try:
            quantity = Quantity.parse(wire)
        except ValueError:
            continue  # Validation names it.
        listed[name] = Quantity(-(-quantity.nanos // _MILLI) * _MILLI, quantity.style).canonical()


def _holds(when: tuple[str, str], document: Document, kind: str, field: str) -> bool:
    name, value = when
    if name == "@kind":
        return kind == value
    if name == "@field":
        return field == value
    return feature(document.get(name)) == value


def feature(value: Any) -> str:
    """What conditions of defaults say of a field: a text as it is, of others whether they are there."""
    return value if isinstance(value, str) else "set" if value not in (None, {}, []) else ""


def _structs(value: Any) -> Iterable[Document]:
    """The structs in a field: itself, or those of a list or map."""
    if isinstance(value, list):
        return [one for one in value if isinstance(one, dict)]
    return [value] if isinstance(value, dict) else []


@cache
def _struct(model: str) -> _Struct:
    inner = tuple(
        (name, held) for name, held in held_structs(model).items() if held not in _PLAIN and _has_defaults(held)
    )
    filled = frozenset(name for name, one in builtin(model).fields.items() if not one.pointer)
    return _Struct(tuple(recorded().defaults.get(model, ())), filled, _amounts(builtin(model)), inner)


def _amounts(struct: Type) -> tuple[str, ...]:
    """The fields of a struct that hold amounts of resources."""
    values = {name: field.type.values for name, field in struct.fields.items() if field.type.sort == "map"}
    return tuple(name for name, value in values.items() if value is not None and value.name == QUANTITY)


@cache
def _has_defaults(model: str) -> bool:
    """Whether a struct or one within it has defaults or amounts."""
    seen: set[str] = set()
    waiting = [model]
    while waiting:
        name = waiting.pop()
        if name in seen or name in _PLAIN:
            continue
        seen.add(name)
        if name in recorded().defaults or _amounts(builtin(name)):
            return True
        waiting += held_structs(name).values()
    return False


@cache
def held_structs(model: str) -> Mapping[str, str]:
    """The fields of a model that hold other models with fields, or lists of them."""
    made: dict[str, str] = {}
    for name, field in builtin(model).fields.items():
        held = field.type.item if field.type.sort == "list" else field.type
        if held.sort == "struct" and held.fields:
            made[name] = held.name
    return made
