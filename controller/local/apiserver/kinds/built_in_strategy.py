# SPDX-License-Identifier: Apache-2.0
"""What all built-in kinds do: what was recorded of a kind, and what the rules of `rules/*.json` refuse."""

from collections.abc import Callable
from typing import Any

import msgspec

from trainwright.api.objects import Document, dig
from trainwright.controller.local.apiserver.kinds.defaulting import fill_object
from trainwright.controller.local.apiserver.kinds.formats import NAME_RULES, same
from trainwright.controller.local.apiserver.kinds.places import part, places
from trainwright.controller.local.apiserver.kinds.podspecs import default_pod_spec, pod_spec_warnings
from trainwright.controller.local.apiserver.kinds.rules import check, check_change, tables
from trainwright.controller.local.apiserver.kinds.strategy import Strategy, set_or_drop
from trainwright.controller.local.apiserver.schema.published.kinds import COUNTED_METADATA, RecordedKind
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.local.types.model import Type, builtin

_ANY_FINALIZER = frozenset(
    {
        *("v1 Event", "coordination.k8s.io/v1 Lease"),
        "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
    }
)
"""Kinds whose finalizers the real server does not look at."""

_NOT_STORED = {
    "ServiceAccount": ("secrets", ("apiVersion", "fieldPath", "kind", "namespace", "resourceVersion", "uid")),
    "StatefulSet": ("spec.updateStrategy.rollingUpdate", ("maxUnavailable",)),
    "Lease": ("spec", ("strategy", "preferredHolder")),
}
"""Where and which fields are dropped: of features that are off by default, and more than the names of secrets."""
_INITIAL: dict[str, Document] = {
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": {},
    "batch/v1 Job": {},
    "v1 Namespace": {"phase": "Active"},
    "v1 PersistentVolume": {"phase": "Pending"},
    "v1 PersistentVolumeClaim": {"phase": "Pending"},
    "v1 Service": {"loadBalancer": {}},
}
"""The status of a new object, where it is not that of the table."""
_DEFAULTS: dict[str, Callable[[Document], None]] = {}


def defaults(kind: str) -> Callable[[Callable[[Document], None]], Callable[[Document], None]]:
    """Let a function fill in objects of a kind, such as `v1 Secret`, before the recorded defaults do."""

    def registered(function: Callable[[Document], None]) -> Callable[[Document], None]:
        _DEFAULTS[kind] = function
        return function

    return registered


class BuiltInStrategy(Strategy):
    """The rules of a kind that is a Go struct to the real server. A kind that needs more has a subclass."""

    def __init__(self, kind: RecordedKind) -> None:
        self.kind = kind
        self.rules = f"{kind.api_version} {kind.kind}"
        """The name of its rules."""
        given = _INITIAL.get(self.rules)
        self._initial = bytes(kind.initial) if given is None else msgspec.json.encode(given)
        self.create_on_update = kind.create_on_update
        self.unconditional_update = kind.unconditional_update
        self.returns_deleted = kind.returns_deleted
        self.orphans_by_default = kind.orphans
        self.name_rule = NAME_RULES[kind.name_format]
        self.templates = tuple(rule.at for rule in tables().get(self.rules, ()) if rule.use == "PodTemplate")
        if kind.kind == "StatefulSet":
            self.templates = ("spec.template",)  # whose rule is a check of its own
        """Where pod templates are."""
        self._has_status = any(one.name == "status" for one in kind.subresources)
        if self._has_status:
            self.reset_fields = {"": (("status",),), "status": (("spec",),), **self.reset_fields}

    def default(self, document: Document) -> None:
        normalize(document, self.kind.model)
        if (extra := _DEFAULTS.get(self.rules)) is not None:
            extra(document)
        fill_object(document, self.kind.model)
        for path in self.templates:
            for _, template in places(document, path):
                default_pod_spec((template or {"spec": {}})["spec"])

    def prepare_for_create(self, document: Document) -> None:
        self._drop_not_stored(document)
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
        self._drop_not_stored(new)
        about = {field for field in COUNTED_METADATA if field in self.kind.counted}
        changed = any(new.get(field) != old.get(field) for field in self.kind.counted)
        if changed or any(not same(new["metadata"].get(field), old["metadata"].get(field)) for field in about):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def _drop_not_stored(self, document: Document) -> None:
        holder, fields = _NOT_STORED.get(self.kind.kind, ("", ()))
        held = dig(document, holder) if fields else None
        for one in held if isinstance(held, list) else [held or {}]:
            for field in fields:
                one.pop(field, None)
        _null_empty_lists(document, builtin(self.kind.model))

    def validate(self, document: Document) -> list[DocumentError]:
        found = self._object_errors(document) + check(self.rules, document)
        return list({(error.reason, error.field): error for error in found}.values())

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource:
            rules = f"{self.rules}/{subresource}"
            return self._object_errors(new) + check(rules, new) + check_change(rules, new, old)
        return self.validate(new) + check_change(self.rules, new, old)

    def _object_errors(self, document: Document) -> list[DocumentError]:
        return [] if self.rules in _ANY_FINALIZER else check("Object", document)

    def warnings(self, new: Document, old: Document | None) -> list[str]:
        if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        found: list[str] = []
        for path in self.templates:
            for where, template in places(new, path):
                found += pod_spec_warnings(part(template or {}, "spec"), f"{where}.spec")
        return found


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
