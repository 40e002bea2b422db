# SPDX-License-Identifier: Apache-2.0
"""Conditions of Jobs. They carry the time of the last probe, and a change of anything but the times renews both.

This differs from the conditions of other kinds, which keep their time while the status stays the same.
"""

from datetime import datetime

from trainwright.api.conditions import find, is_true
from trainwright.api.objects import Document
from trainwright.api.times import format_time
from trainwright.controller.local.workloads.documents import conditions_of

COMPLETE, FAILED = "Complete", "Failed"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
SUSPENDED = "Suspended"


def condition(type_: str, reason: str, message: str, now: datetime, status: str = "True") -> Document:
    """A new condition in wire form."""
    when = format_time(now)
    return {
        "type": type_,
        "status": status,
        "lastProbeTime": when,
        "lastTransitionTime": when,
        "reason": reason,
        "message": message,
    }


def ensured(conditions: list[Document], wanted: Document) -> list[Document]:
    """The conditions with `wanted` in them. One that would only say False is not added; the input is not changed."""
    current = find(conditions, wanted["type"])
    if current is None:
        return conditions if wanted["status"] == "False" else [*conditions, wanted]
    if all(current.get(name) == wanted[name] for name in ("status", "reason", "message")):
        return conditions
    return [wanted if entry is current else entry for entry in conditions]


def is_finished(job: Document) -> bool:
    """Whether the Job is Complete or Failed."""
    return is_true(conditions_of(job), COMPLETE) or is_true(conditions_of(job), FAILED)
