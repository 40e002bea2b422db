# SPDX-License-Identifier: Apache-2.0
"""The order of the time line where several things happened within one second."""

import msgspec

from tests.builders import condition, train_job
from tests.repository import ROOT
from trainwright.api.objects import Document
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.timeline import timeline_of
from trainwright.controller.trainer.progress.curve import Sample

SAMPLES = ROOT / "tests" / "unit" / "dashboard" / "samples"
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
        "Complete",
        "Started",
        "Scheduled",
        "Created pod",
        "Created",
    ]


def test_an_event_without_a_version_is_shown() -> None:
    odd = event("Odd", "9")
    odd["metadata"] = {"name": "odd"}
    assert [one.reason for one in timeline_of(job(), [event("Started", "10"), odd], {})][1:3] == ["Started", "Odd"]


def test_it_leads_with_what_the_training_did() -> None:
    begun = msgspec.json.decode((SAMPLES / "job_running.json").read_bytes(), type=contract.Job).pods
    pods = [msgspec.structs.replace(pod, attempt=2) for pod in begun[:1]]
    pods += [msgspec.structs.replace(pod, attempt=1) for pod in begun[1:2]]
    at = moment(SECOND)
    assert at is not None
    samples = [
        Sample(at=at.timestamp() + seconds, segment=segment, values={"checkpoint_step": step})
        for seconds, segment, step in ((10, 0, 100.0), (20, 0, 100.0), (30, 0, 200.0), (50, 1, 100.0))
    ]
    found = timeline_of(job(), [event("Pulled", "3")], {}, pods, samples)
    told = [(one.reason, one.message, one.count) for one in found if one.source == "training"]
    assert sorted(told) == [
        ("Attempt 2 started", "the program runs", 1),
        ("Checkpoint", "of step 100", 1),
        ("Checkpoint", "of step 200", 2),
        ("Complete", "jobset completed", 1),
        ("Created", "the job was created", 1),
        ("Started", "the program runs", 1),
    ]
    assert [one.reason for one in found if one.source == "event"] == ["Pulled"]
    # The pods of the first attempt are gone.
    gone = timeline_of(job(), [], {}, pods[:1], samples)
    assert [one.message for one in gone if one.reason == "Started"] == ["the first report came"]
