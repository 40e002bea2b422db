# SPDX-License-Identifier: Apache-2.0
"""What all built-in kinds do: what was recorded of a kind, and what the rules of `rules/*.json` refuse."""

from typing import Any

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.defaulting import fill_object
from trainwright.controller.local.apiserver.kinds.formats import NAME_RULES, same
from trainwright.controller.local.apiserver.kinds.places import part, places, values_of
from trainwright.controller.local.apiserver.kinds.podspecs import default_pod_spec, pod_spec_warnings
from trainwright.controller.local.apiserver.kinds.rules import check, check_change, tables
from trainwright.controller.local.apiserver.kinds.strategy import Strategy, set_or_drop
from trainwright.controller.local.apiserver.schema.published.kinds import LABELS, RecordedKind
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
    "v1 ServiceAccount": tuple(
        f"secrets[*].{field}" for field in ("apiVersion", "fieldPath", "kind", "namespace", "resourceVersion", "uid")
    ),
    "apps/v1 StatefulSet": ("spec.updateStrategy.rollingUpdate.maxUnavailable",),
    "coordination.k8s.io/v1 Lease": ("spec.strategy", "spec.preferredHolder"),
}
"""Fields that are dropped: of features that are off by default, and more than the names of secrets."""


class BuiltInStrategy(Strategy):
    """The rules of a kind that is a Go struct to the real server. A kind that needs more has a subclass.

    Args:
        kind: its row in the table of recorded kinds.
    """

    initial: Document | None = None
    """The status of a new object, where it is not that of the table."""

    def __init__(self, kind: RecordedKind) -> None:
        self.kind = kind
        self._initial = bytes(kind.initial) if self.initial is None else msgspec.json.encode(self.initial)
        self.rules = f"{kind.api_version} {kind.kind}"
        """The name of its rules."""
        self.create_on_update = kind.create_on_update
        self.unconditional_update = kind.unconditional_update
        self.returns_deleted = kind.returns_deleted
        self.orphans_by_default = kind.orphans
        self.name_rule = NAME_RULES[kind.name_format]
        self.templates = tuple(rule.at for rule in tables().get(self.rules, ()) if rule.use == "PodTemplate")
        """Where pod templates are."""
        self._has_status = any(one.name == "status" for one in kind.subresources)
        if self._has_status:
            self.reset_fields = {"": (("status",),), "status": (("spec",),), **self.reset_fields}

    def default(self, document: Document) -> None:
        normalize(document, self.kind.model)
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
        changed = any(new.get(field) != old.get(field) for field in self.kind.counted)
        if LABELS in self.kind.counted and not same(new["metadata"].get("labels"), old["metadata"].get("labels")):
            changed = True
        if changed:
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def _drop_not_stored(self, document: Document) -> None:
        for path in _NOT_STORED.get(self.rules, ()):
            holder, _, field = path.rpartition(".")
            for value in values_of(holder)(document):
                if isinstance(value, dict):
                    value.pop(field, None)
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
