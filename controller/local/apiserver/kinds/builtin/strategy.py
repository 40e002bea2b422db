# SPDX-License-Identifier: Apache-2.0
"""What all built-in kinds do: as was recorded of each."""

from collections.abc import Mapping
from typing import Any

import msgspec

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin.defaulting import fill_object
from trainwright.controller.local.apiserver.kinds.builtin.formats import Errors, finalizer_errors, same
from trainwright.controller.local.apiserver.kinds.strategy import Strategy, set_or_drop
from trainwright.controller.local.apiserver.schema.published.kinds import LABELS, RecordedKind
from trainwright.controller.local.gowriting import fields_of, rewrite

NAME_RULES: Mapping[str, names.NameRule] = {
    "label": names.dns_label,
    "subdomain": names.dns_subdomain,
    "dns1035": names.dns_label_1035,
    "path_segment": names.path_segment,
}
"""Rules of names as the table calls them."""


class BuiltInStrategy(Strategy):
    """The rules of a kind that is a Go struct to the real server.

    Args:
        kind: its row in the table.
    """

    def __init__(self, kind: RecordedKind) -> None:
        self.kind = kind
        self.struct = kind.struct
        self.create_on_update = kind.create_on_update
        self.unconditional_update = kind.unconditional_update
        self.returns_deleted = kind.returns_deleted
        self.orphans_by_default = kind.orphans
        self.name_rule = NAME_RULES[kind.name_format]
        self._has_status = any(one.name == "status" for one in kind.subresources)
        if self._has_status:
            self.reset_fields = {"": (("status",),), "status": (("spec",),), **self.reset_fields}

    def default(self, document: Document) -> None:
        rewrite(document, self.struct)
        fill_object(document, self.struct)
        self.fill_in(document)

    def fill_in(self, document: Document) -> None:
        """Fill in what the body leaves open and no recorded default says. The others are set."""

    def prepare_for_create(self, document: Document) -> None:
        _null_empty_lists(document, self.struct)
        if self._has_status:
            set_or_drop(document, "status", msgspec.json.decode(self.kind.initial))
        if self.kind.generation:
            document["metadata"]["generation"] = self.kind.generation

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        if subresource == "status":
            for field in old.keys() - {"status", "metadata"}:
                new[field] = old[field]
            return
        if self._has_status:
            set_or_drop(new, "status", old.get("status"))
        _null_empty_lists(new, self.struct)
        changed = any(new.get(field) != old.get(field) for field in self.kind.counted)
        if LABELS in self.kind.counted and not same(new["metadata"].get("labels"), old["metadata"].get("labels")):
            changed = True
        if changed:
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate(self, document: Document) -> list[DocumentError]:
        return finalizer_errors(document) + self.faults(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource == "status":
            return finalizer_errors(new)
        return self.validate(new) + self.changes(new, old)

    def faults(self, document: Document) -> Errors:  # noqa: ARG002
        """Errors of an object, new or changed, besides those of its metadata."""
        return []

    def changes(self, new: Document, old: Document) -> Errors:  # noqa: ARG002
        """Errors of what an update changes."""
        return []


def _null_empty_lists(document: Document, struct: str) -> None:
    """Make empty lists null that Go always writes, in an object and its specification.

    The store of the real server keeps built-in kinds as protobuf, which does not tell an empty list from none. The
    request does: a manager owns the list that it sent.
    """
    held: Any
    for name, field in fields_of(struct).items():
        held = document.get(name)
        if field.shape.sort == "list" and not (field.omits_empty or field.omits_zero):
            document[name] = held or None
        elif name == "spec" and isinstance(held, dict):
            _null_empty_lists(held, field.shape.struct)
