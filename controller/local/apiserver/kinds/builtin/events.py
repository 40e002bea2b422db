# SPDX-License-Identifier: Apache-2.0
"""Events. Both API groups serve the same objects, which are stored in the form of core/v1."""

from typing import Any

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.kinds.builtin.event_validation import (
    event_errors,
    event_update_errors,
    new_event_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.formats import finalizer_errors
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

    collects_garbage = False
    error_group = ""

    def validate(self, document: Document) -> list[DocumentError]:
        return event_errors(document, controller="reportingComponent")


class NewEventStrategy(EventStrategy):
    """Events of events.k8s.io/v1, which must say more. Documents are in the form of that group."""

    def validate(self, document: Document) -> list[DocumentError]:
        event = to_core(document)
        found = event_errors(event, controller="reportingController")
        return found + finalizer_errors(event) + new_event_errors(event)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        event = to_core(new)
        found = event_errors(event, controller="reportingController")
        return found + finalizer_errors(event) + event_update_errors(event, to_core(old))
