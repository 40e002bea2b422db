# SPDX-License-Identifier: Apache-2.0
"""The contract of a strategy, and what most kinds do."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trainwright.api.names import NameRule, dns_subdomain
from trainwright.api.objects import Document
from trainwright.controller.local.types.errors import DocumentError

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


def set_or_drop(document: Document, field: str, value: Any) -> None:
    """Set a field, or take it out where the value is None."""
    if value is None:
        document.pop(field, None)
    else:
        document[field] = value
