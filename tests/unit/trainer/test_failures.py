# SPDX-License-Identifier: Apache-2.0
"""Which failure of an attempt is told, and what the record holds."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import AnyObject, Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import NotFound
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.trainer.failures.first import first_failures
from trainwright.controller.trainer.failures.record import (
    ATTEMPTS,
    LOG_BYTES,
    Entry,
    document_of,
    entries_of,
    last_lines,
)
from trainwright.controller.trainer.failures.recorder import FailureRecorder
from trainwright.controller.trainer.job.pods import trimmed


def ended(code: int, at: str = "10", reason: str = "Error", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": f"2026-01-01T00:00:{at}Z", **more}}


def pod(
    rank: int, *states: dict[str, Any], attempt: int = 0, phase: str = "Failed", jobset: str = "s1", **status: Any
) -> dict[str, Any]:
    """Each state is that of one container."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/jobset-uid": jobset,
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": str(rank),
        "something": "else",
    }
    containers = [{"name": f"c{index}", "image": "i", **state} for index, state in enumerate(states)]
    return {
        "metadata": {"name": f"j-node-0-{rank}", "namespace": "n", "uid": f"u{rank}", "labels": labels},
        "spec": {"containers": [{"name": "c0"}], "nodeName": "here"},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


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
        "attempt-0",
        *(f"attempt-{n}{suffix}" for n in (4, 5, 6, 7) for suffix in ("", ".log")),
    }
    back = entries_of(document["data"])
    assert back == {n: entries[n] for n in (0, 4, 5, 6, 7)}
    assert len(back) == ATTEMPTS
    assert all(back[n].failure.order == failures[n].order for n in back)


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
    found = entries_of({"attempt-0": older, "attempt-1": newer})
    assert [(entry.attempt, entry.jobset_uid) for entry in found.values()] == [(0, ""), (1, "s1")]


class World:
    """What the recorder needs of a manager: one job, with the JobSet, the pods and the log that a test sets."""

    def __init__(self) -> None:
        about = {"name": "j", "namespace": "n", "uid": "job"}
        self.job = msgspec.convert({"metadata": about, "spec": {"runtimeRef": {"name": "r"}}}, TrainJob)
        self.jobset = "s1"
        self.pods: list[dict[str, Any]] = []
        self.log = b""
        """What the container that runs, or ran last, has written."""
        self.previous: bytes | None = b""
        """The log of the run before; None: it is gone."""
        self.writes = 0
        self.data: dict[str, str] | None = None
        """Of the ConfigMap."""
        self.notes: list[str] = []
        self.begin()

    def begin(self) -> None:
        """A process begins, with no memory."""
        manager: Any = SimpleNamespace(
            client=SimpleNamespace(get=self._read, send=self._send),
            cache=SimpleNamespace(get=self._get, indexed=lambda *_: [trimmed(one) for one in self.pods]),
            applier=SimpleNamespace(apply=self._apply),
            controller=MagicMock(),
        )
        told: Any = SimpleNamespace(pod_failed=lambda _, note: self.notes.append(note))
        self.recorder = FailureRecorder(manager, told)

    async def see(self, *pods: dict[str, Any]) -> dict[int, Entry]:
        """The pods of the cache become these. Returns the record."""
        self.pods = list(pods)
        await self.recorder.reconcile(Key("n", "j"))
        return entries_of(self.data)

    def _get(self, kind: type[AnyObject], *_: str) -> AnyObject:
        if kind is TrainJob:
            return self.job
        owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "j", "uid": "job"}
        about = {"name": "j", "namespace": "n", "uid": self.jobset, "ownerReferences": [{**owner, "controller": True}]}
        return msgspec.convert({"metadata": about}, JobSet)

    async def _read(self, kind: type[ConfigMap], *_: str) -> ConfigMap:
        if self.data is None:
            raise NotFound("no", code=404, reason="NotFound")
        owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "j", "uid": "job"}
        about = {"name": "j-failures", "namespace": "n", "ownerReferences": [{**owner, "controller": True}]}
        return msgspec.convert({"metadata": about, "data": self.data}, kind)

    async def _send(self, request: Request) -> Response:
        log = self.previous if "previous" in request.query else self.log
        if log is None:
            raise NotFound("no", code=404, reason="NotFound")
        return Response(200, {}, log)

    async def _apply(self, documents: list[dict[str, Any]], owner: TrainJob) -> None:
        assert owner is self.job
        (document,) = documents
        self.writes, self.data = self.writes + 1, document["data"]


async def test_a_jobset_that_is_made_anew_counts_its_attempts_from_0_again() -> None:
    world = World()
    await world.see(pod(0, state(1)))
    await world.see(pod(0, state(1, "20"), attempt=1))
    assert len(world.notes) == 2
    world.jobset = "s2"
    # Those of the deleted JobSet are no earlier attempts of this one.
    found = await world.see(pod(0, state(3, "50"), jobset="s2"))
    assert [(n, entry.jobset_uid, entry.exit_code) for n, entry in found.items()] == [(0, "s2", 3)]
    assert world.notes[2:] == ["attempt 1: node rank 0 failed first: container c0 ended with exit code 3 (Error)"]
    world.begin()
    await world.see(pod(0, state(3, "50"), jobset="s2"))
    assert (world.writes, len(world.notes)) == (3, 3)


async def test_a_record_that_names_no_jobset_is_continued() -> None:
    world = World()
    await world.see(pod(0, state(1)))
    assert world.data is not None
    world.data = {key: text.replace("jobsetUid: s1\n", "") for key, text in world.data.items()}
    world.begin()
    assert [entry.jobset_uid for entry in (await world.see(pod(0, state(1)))).values()] == [""]
    assert (world.writes, len(world.notes)) == (1, 1)
    found = await world.see(pod(0, state(1, "20"), attempt=1))
    assert [(n, entry.jobset_uid) for n, entry in found.items()] == [(0, ""), (1, "s1")]


AGAIN = {"state": {"running": {}}, "lastState": ended(1), "restartCount": 1}


async def test_the_log_of_a_container_that_ran_again_before_it_was_read_is_read_again() -> None:
    world = World()
    # The cache shows the end, the node runs the container again already.
    world.log, world.previous = b"begins anew", b"out of data"
    await world.see(pod(0, state(1), phase="Running"))
    found = await world.see(pod(0, AGAIN, phase="Running"))
    assert found[0].log == "out of data"
    assert len(world.notes) == 1
    # Once: then it is known to be that of the run which failed.
    world.previous = b"of a later run"
    assert (await world.see(pod(0, AGAIN, phase="Running")))[0].log == "out of data"
    assert world.writes == 2


async def test_a_log_that_was_read_in_time_is_kept() -> None:
    for previous in (b"out of data", None):
        world = World()
        world.log, world.previous = b"out of data", previous
        await world.see(pod(0, state(1), phase="Running"))
        world.log = b"begins anew"
        assert (await world.see(pod(0, AGAIN, phase="Running")))[0].log == "out of data"
        assert world.writes == 1


async def test_a_run_that_wrote_nothing_has_not_the_log_of_the_next() -> None:
    world = World()
    world.log, world.previous = b"begins anew", b""
    await world.see(pod(0, state(1), phase="Running"))
    assert (await world.see(pod(0, AGAIN, phase="Running")))[0].log == ""
