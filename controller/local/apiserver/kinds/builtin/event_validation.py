# SPDX-License-Identifier: Apache-2.0
"""Errors of Events, in the form of core/v1. Fields of events.k8s.io/v1 are named as core/v1 names them, as on the real
server."""

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    immutable_errors,
    name_errors,
    qualified_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import part
from trainwright.controller.local.apiserver.schema.errors import invalid, required

_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_OLD_FIELDS = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
)


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
