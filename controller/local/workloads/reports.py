# SPDX-License-Identifier: Apache-2.0
"""Events that a controller decides on and reports once the write that they speak of has succeeded."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from trainwright.api.objects import Document
from trainwright.controller.runtime import EventRecorder


@dataclass(frozen=True, slots=True)
class EventReport:
    """One event."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def record(recorder: EventRecorder, regarding: Document, reports: Iterable[EventReport], *, action: str = "") -> None:
    """Record events about an object. `action` is what the controller was doing; default: the reason."""
    for report in reports:
        recorder.event(regarding, report.type, report.reason, report.note, action=action)
