# SPDX-License-Identifier: Apache-2.0
"""Events. Both API groups serve the same objects, which are stored in the form of core/v1."""

from collections.abc import Mapping

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    finalizer_errors,
    immutable_errors,
    name_errors,
    qualified_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import part
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import invalid, required
from trainwright.controller.local.gowriting import rewrite

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
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_OLD_FIELDS = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE = (*_OLD_FIELDS, "involvedObject", "reason", "message", "type", "eventTime", "action", "related")


def to_core(event: Document) -> Document:
    """An Event of events.k8s.io/v1 as core/v1 has it."""
    return _renamed(event, _EVENTS_TO_CORE, "v1", "core/v1.Event")


def to_events(event: Document) -> Document:
    """An Event of core/v1 as events.k8s.io/v1 has it."""
    return _renamed(event, _CORE_TO_EVENTS, "events.k8s.io/v1", "events/v1.Event")


def _renamed(event: Document, names_there: Mapping[str, str], api_version: str, struct: str) -> Document:
    made = {names_there.get(field, field): value for field, value in event.items()}
    made["apiVersion"] = api_version
    rewrite(made, struct)
    return made


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


def event_errors(event: Document, *, controller: str) -> Errors:
    """Errors of any Event.

    Args:
        event: in the form of core/v1.
        controller: the name of the field `reportingComponent` in the version of the request.
    """
    namespace = part(event, "metadata").get("namespace") or ""
    about = part(event, "involvedObject").get("namespace") or ""
    found: Errors = []
    new = bool(event.get("eventTime"))
    anywhere = ("", "default") if not new else ("default", "kube-system")
    fits = namespace in anywhere if not about else new or namespace == about
    if not fits:
        found.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    if new:
        found += _reporter_errors(event, controller)
    return found + name_errors(namespace, "namespace", names.dns_subdomain)


def _reporter_errors(event: Document, controller: str) -> Errors:
    reporter = event.get("reportingComponent") or ""
    found = [] if reporter else [required(controller)]
    found += qualified_errors(reporter, controller)
    for field, limit in _LONGEST.items():
        value = event.get(field) or ""
        if not value and field != "message":
            found.append(required(field))
        if len(value.encode()) > limit:
            found.append(invalid(field, "", f"can have at most {limit} characters"))
    return found


def new_event_errors(event: Document) -> Errors:
    """Errors of an Event that is created through events.k8s.io/v1."""
    found = _series_errors(event)
    if not event.get("eventTime"):
        found.append(required("eventTime"))
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        found.append(invalid("type", "", f"has invalid value: {kind}"))
    return found + [invalid(field, "", "needs to be unset") for field in _OLD_FIELDS if event.get(field)]


def event_update_errors(event: Document, old: Document) -> Errors:
    """Errors of an update through events.k8s.io/v1: only a series may go on."""
    found = _series_errors(event) if event.get("series") != old.get("series") else []
    for field in _IMMUTABLE:
        found += immutable_errors(event.get(field), old.get(field), field)
    for field, name in (("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance")):
        found += immutable_errors(event.get(field), old.get(field), name)
    return found


def _series_errors(event: Document) -> Errors:
    series = event.get("series")
    if series is None:
        return []
    found: Errors = []
    if (series.get("count") or 0) < 2:
        found.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(required("series.lastObservedTime"))
    return found
