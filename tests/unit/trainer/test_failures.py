# SPDX-License-Identifier: Apache-2.0
"""Which failure of an attempt is told, and what the record holds."""

import json
from typing import Any

import msgspec
import pytest

from tests import builders
from tests.builders import labels_of_pod
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.failures.first import first_failures
from trainwright.controller.trainer.failures.record import (
    ATTEMPTS,
    LOG_BYTES,
    Entry,
    document_of,
    entries_of,
    entries_of_jobset,
    last_lines,
)
from trainwright.controller.trainer.job.pods import trimmed


def ended(code: int, at: str = "10", reason: str = "Error", **more: Any) -> Document:
    return builders.ended(code, at=f"2026-01-01T00:00:{at}Z", reason=reason, **more)


def pod(
    rank: int, *states: Document, attempt: int = 0, phase: str = "Failed", jobset: str = "s1", **status: Any
) -> Document:
    """Each state is that of one container."""
    labels = {**labels_of_pod(rank, attempt=attempt, jobset_uid=jobset), "something": "else"}
    containers = [{"name": f"c{index}", **state} for index, state in enumerate(states)]
    return builders.pod(
        rank, uid=f"u{rank}", labels=labels, phase=phase, containers=containers, status=status, nodeName="here"
    )


def state(code: int, at: str = "10", reason: str = "Error") -> dict[str, Any]:
    return {"state": ended(code, at, reason)}


def told(*pods: dict[str, Any]) -> list[tuple[int, int, str, int | None]]:
    """Attempt, rank, container and exit code of each first failure."""
    first = first_failures(pods)
    # What the cache keeps of a pod tells the same, in any order, and trimming twice changes nothing.
    assert first_failures([trimmed(one) for one in pods]) == first
    assert first_failures([trimmed(trimmed(one)) for one in reversed(pods)]) == first
    return [(f.attempt, f.rank, f.container, f.exit_code) for f in first.values()]


def test_the_first_to_end_is_told_not_those_that_lost_it() -> None:
    assert told(pod(0, state(143, "12")), pod(1, state(143, "12")), pod(3, state(1, "10"))) == [(0, 3, "c0", 1)]


def test_of_one_second_a_reason_goes_before_a_number_and_a_number_before_a_signal() -> None:
    assert told(pod(0, state(1)), pod(1, state(137, reason="OOMKilled"))) == [(0, 1, "c0", 137)]
    assert told(pod(0, state(137)), pod(1, state(1))) == [(0, 1, "c0", 1)]
    assert told(pod(0, state(1)), pod(1, state(1))) == [(0, 0, "c0", 1)]


def test_each_attempt_has_its_own() -> None:
    assert told(pod(0, state(2), attempt=1), pod(1, state(1, "30"), attempt=0)) == [(0, 1, "c0", 1), (1, 0, "c0", 2)]


def test_a_container_that_runs_again_failed_before() -> None:
    again = {"state": {"running": {}}, "lastState": ended(3), "restartCount": 1}
    assert told(pod(0, again, phase="Running")) == [(0, 0, "c0", 3)]
    (failure,) = first_failures([pod(0, again, phase="Running")]).values()
    assert failure.previous


def test_a_pod_may_fail_as_a_whole() -> None:
    evicted = pod(2, phase="Failed", reason="Evicted", message="The node was low on memory")
    assert told(evicted) == [(0, 2, "", None)]
    (failure,) = first_failures([evicted]).values()
    assert failure.what == "the pod failed (Evicted)"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_a_pod_that_did_not_fail_is_not_told(phase: str) -> None:
    assert told(pod(0, {"state": ended(0, reason="Completed")}, {"state": {"running": {}}}, phase=phase)) == []


def test_the_record_holds_five_attempts_and_is_read_back() -> None:
    job = msgspec.convert(
        {"metadata": {"name": "j", "namespace": "n"}, "spec": {"runtimeRef": {"name": "r"}}}, TrainJob
    )
    failures = {n: first_failures([pod(n, state(n + 1), attempt=n)])[n] for n in range(8)}
    entries = {n: Entry.of(failure, "last: line\n  of it" if n else "") for n, failure in failures.items()}
    document = document_of(job, entries)
    assert document["metadata"] == {"name": "j-failures", "namespace": "n"}
    assert set(document["data"]) == {
        "attempt-1",
        *(f"attempt-{n}{suffix}" for n in (5, 6, 7, 8) for suffix in ("", ".log")),
    }
    assert "attempt: 8\n" in document["data"]["attempt-8"]
    back = entries_of(document["data"])
    assert back == {n: entries[n] for n in (0, 4, 5, 6, 7)}
    assert len(back) == ATTEMPTS
    assert all(back[n].order == failures[n].order for n in back)


@pytest.mark.parametrize("text", ["", "[]", "a: b", "{", "attempt: x\npod: y", "attempt: 1"])
def test_a_record_that_somebody_spoiled_counts_as_none(text: str) -> None:
    assert entries_of({"attempt-1": text, "other": "x"}) == {}


def test_the_end_of_a_log_is_whole_lines() -> None:
    lines = [f"line {n}" for n in range(1000)]
    kept = last_lines(("\n".join(lines) + "\n").encode())
    assert len(kept.encode()) <= LOG_BYTES
    assert kept.splitlines() == lines[-len(kept.splitlines()) :]
    assert last_lines(b"one\n") == "one"
    assert last_lines("é".encode() * 2000) == "é" * (LOG_BYTES // 2)
    assert last_lines(b"a\x00\xff") == "a\ufffd\ufffd"
    assert last_lines(b"") == ""


def test_a_record_of_another_version_is_read() -> None:
    older, newer = "attempt: 0\npod: p\n", "attempt: 1\npod: p\njobsetUid: s1\nsomethingNew: 1\n"
    # It counted its attempts from 0.
    found = entries_of({"attempt-0": older, "attempt-1": newer})
    assert [(entry.attempt, entry.jobset_uid) for entry in found.values()] == [(0, ""), (1, "s1")]


def deleted(one: dict[str, Any], at: str = "39", grace: int = 30) -> dict[str, Any]:
    """The pod, being deleted since `at` less the grace."""
    one["metadata"] |= {"deletionTimestamp": f"2026-01-01T00:00:{at}Z", "deletionGracePeriodSeconds": grace}
    return one


def disrupted(one: dict[str, Any], reason: str) -> dict[str, Any]:
    one["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}]
    return one


@pytest.mark.parametrize("text", ["", "x", "{}", "[1]", '[{"at": 1, "run": 0}]', '[{"at": "x"}]'])
def test_an_annotation_that_no_node_wrote_changes_nothing(text: str) -> None:
    one = pod(0, state(3))
    one["metadata"]["annotations"] = {"node.trainwright.dev/failures": text}
    assert told(one) == [(0, 0, "c0", 3)]


def test_a_pod_that_failed_and_is_deleted_then_has_failed() -> None:
    assert told(deleted(pod(0, state(1, "10")), at="41")) == [(0, 0, "c0", 1)]
    # The Job deletes the others for its sake.
    assert told(deleted(pod(0, state(143, "12")), at="41"), pod(3, state(1, "10"))) == [(0, 3, "c0", 1)]


def test_a_pod_that_is_ended_goes_before_those_that_lost_it() -> None:
    preempted = disrupted(pod(2, state(143, "10")), "PreemptionByScheduler")
    assert told(preempted, pod(0, state(1, "11"))) == [(0, 2, "", None)]
    (failure,) = first_failures([preempted, pod(0, state(1, "11"))]).values()
    assert failure.what == "the pod failed (PreemptionByScheduler)"


def test_a_node_that_tells_exact_times_knows_what_it_has_stopped() -> None:
    """Its pod is deleted in the second in which it ended by itself."""
    one = deleted(pod(0, state(42)), at="40")
    (failure,) = first_failures([one, pod(1, state(1, "11"))]).values()
    assert (failure.rank, failure.stopped) == (1, False)
    one["metadata"]["annotations"] = {
        "node.trainwright.dev/failures": json.dumps(
            [{"container": "c0", "run": 0, "exitCode": 42, "at": "2026-01-01T00:00:10.5Z"}]
        )
    }
    one["status"]["containerStatuses"][0]["state"]["terminated"]["containerID"] = "local://u/c0/0"
    (failure,) = first_failures([one, pod(1, state(1, "11"))]).values()
    assert (failure.rank, failure.stopped) == (0, False)


@pytest.mark.parametrize(("processes", "where"), [("1", "rank 1"), ("2", "node 1"), ("auto", "node 1")])
def test_a_pod_with_several_processes_is_a_node(processes: str, where: str) -> None:
    one = pod(1, state(1))
    one["spec"]["containers"][0]["env"] = [{"name": "PET_NPROC_PER_NODE", "value": processes}]
    for each in (one, trimmed(one), trimmed(trimmed(one))):
        assert first_failures([each])[0].where == where


def test_a_node_that_tells_exact_times_tells_who_was_first_in_a_second() -> None:
    ended_at = [pod(rank, state(1)) for rank in (0, 1)]
    for one, part in zip(ended_at, ("5", "4"), strict=True):
        told_by_node = {"container": "c0", "run": 0, "exitCode": 1, "at": f"2026-01-01T00:00:10.{part}Z"}
        one["metadata"]["annotations"] = {"node.trainwright.dev/failures": json.dumps([told_by_node])}
        one["status"]["containerStatuses"][0]["state"]["terminated"]["containerID"] = "local://u/c0/0"
    assert told(*ended_at) == told(*reversed(ended_at)) == [(0, 1, "c0", 1)]


def test_a_record_that_names_no_jobset_is_continued_and_that_of_another_one_is_not() -> None:
    old, own, other = (Entry(attempt=0, pod="p", jobset_uid=uid) for uid in ("", "s1", "s2"))
    assert [entries_of_jobset({0: one}, "s1") for one in (old, own, other)] == [{0: old}, {0: own}, {}]
