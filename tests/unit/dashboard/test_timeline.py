# SPDX-License-Identifier: Apache-2.0
"""The order of the time line where several things happened within one second."""

from tests.builders import condition, train_job
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard.details import timeline_of

SECOND = "2026-01-02T03:04:05Z"


def event(reason: str, version: str) -> Document:
    return {
        "metadata": {"name": reason.lower(), "resourceVersion": version},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "pod"},
        "type": "Normal",
        "reason": reason,
        "lastTimestamp": SECOND,
    }


def job() -> TrainJob:
    done = condition("Complete", reason="AllJobsCompleted", message="jobset completed", at=SECOND)
    return train_job("job", "default", created=SECOND, conditions=[done])


def test_of_one_second_what_came_first_is_last() -> None:
    # Lists come sorted by name, which says nothing about time.
    events = [event("Scheduled", "9"), event("Started", "10"), event("Created pod", "8")]
    assert [one.reason for one in timeline_of(job(), events, {})] == [
        "AllJobsCompleted",
        "Started",
        "Scheduled",
        "Created pod",
        "Created",
    ]


def test_an_event_without_a_version_is_shown() -> None:
    odd = event("Odd", "9")
    odd["metadata"] = {"name": "odd"}
    assert [one.reason for one in timeline_of(job(), [event("Started", "10"), odd], {})][1:3] == ["Started", "Odd"]
