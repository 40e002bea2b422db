# SPDX-License-Identifier: Apache-2.0
"""Events. Both API groups serve the same objects, which are stored in the form of core/v1."""

from typing import Any, ClassVar

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.api.validation.names import NameRule
from trainwright.controller.local.apiserver.kinds.builtin.event_validation import (
    event_errors,
    event_update_errors,
    new_event_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.formats import finalizer_errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import part
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy

_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENTS_TO_CORE = {there: here for here, there in _CORE_TO_EVENTS.items()}
_ALWAYS_IN_CORE: dict[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""What Go writes of an Event of core/v1 also when it is empty."""
_ALWAYS_IN_EVENTS: dict[str, Any] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def to_core(event: Document) -> Document:
    """An Event of events.k8s.io/v1 as core/v1 has it."""
    renamed = {_EVENTS_TO_CORE.get(field, field): value for field, value in event.items()}
    for field, value in _ALWAYS_IN_CORE.items():
        renamed.setdefault(field, {} if value == {} else value)
    return {**renamed, "apiVersion": "v1"}


def to_events(event: Document) -> Document:
    """An Event of core/v1 as events.k8s.io/v1 has it."""
    renamed = {_CORE_TO_EVENTS.get(field, field): value for field, value in event.items()}
    for field in ("reportingController", "reportingInstance", "note", "deprecatedCount"):
        if not renamed.get(field):
            renamed.pop(field, None)
    for field, value in _ALWAYS_IN_EVENTS.items():
        renamed.setdefault(field, {} if value == {} else value)
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


class EventStrategy(BuiltInStrategy):
    """Events of core/v1."""

    struct = "core/v1.Event"

    create_on_update = True
    collects_garbage = False
    name_rule: NameRule = staticmethod(names.path_segment)

    error_group = ""
    reference: ClassVar[str] = "involvedObject"
    """The field that says what the event is about, as this group calls it."""

    def selectable(self, document: Document) -> dict[str, str]:
        about = part(document, self.reference)
        source = part(document, "source").get("component") or document.get("reportingComponent") or ""
        return {
            **super().selectable(document),
            **{f"{self.reference}.{field}": about.get(field) or "" for field in _REFERENCE_FIELDS},
            **{field: document.get(field) or "" for field in ("reason", "reportingComponent", "type")},
            "source": source,
        }

    def validate(self, document: Document) -> list[DocumentError]:
        return event_errors(document, controller="reportingComponent")

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        return self.validate(new)


class NewEventStrategy(EventStrategy):
    """Events of events.k8s.io/v1, which must say more. Documents are in the form of that group."""

    struct = "events/v1.Event"

    name_rule: NameRule = staticmethod(names.dns_subdomain)
    reference = "regarding"

    def selectable(self, document: Document) -> dict[str, str]:
        known = super().selectable(document)
        del known["reportingComponent"], known["source"]
        return {**known, "reportingController": document.get("reportingController") or ""}

    def validate(self, document: Document) -> list[DocumentError]:
        event = to_core(document)
        found = event_errors(event, controller="reportingController")
        return found + finalizer_errors(event) + new_event_errors(event)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        event = to_core(new)
        found = event_errors(event, controller="reportingController")
        return found + finalizer_errors(event) + event_update_errors(event, to_core(old))
