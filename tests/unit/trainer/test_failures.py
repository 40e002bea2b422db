# SPDX-License-Identifier: Apache-2.0
"""Which failure of an attempt is told, and what the record holds."""

import asyncio
import itertools
import json
import random
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from tests import builders
from tests.builders import labels_of_pod
from tests.unit.trainer.test_last_words import summary
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import AnyObject, Document, Key
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.runtime import NotFound, RetryAfter
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import ConnectionLost, ErrorCause, Forbidden
from trainwright.controller.runtime.kinds import Kind
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.trainer.failures.first import first_failures
from trainwright.controller.trainer.failures.record import (
    ATTEMPTS,
    LOG_BYTES,
    Entry,
    document_of,
    entries_of,
    last_lines,
)
from trainwright.controller.trainer.failures.recorder import RECORDS, FailureRecorder, Recorded
from trainwright.controller.trainer.job.pods import trimmed
from trainwright.controller.trainer.job.records import JobRecords


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


class World:
    """What the recorder needs of a manager: one job, with the JobSet, the pods and the log that a test sets."""

    def __init__(self) -> None:
        self.refuses: Exception | None = None
        self.is_gone = False
        """Whether the API server has deleted the job, which the cache does not show yet."""
        about = {"name": "j", "namespace": "n", "uid": "job"}
        self.job = msgspec.convert({"metadata": about, "spec": {"runtimeRef": {"name": "r"}}}, TrainJob)
        self.jobset = "s1"
        self.pods: list[dict[str, Any]] = []
        self.log = b""
        """What the container that runs, or ran last, has written."""
        self.previous: bytes | None = b""
        """The log of the run before; None: it is gone."""
        self.logs: dict[int, bytes | None] = {}
        """Of the ranks whose log is another one; None: it is gone."""
        self.runs: list[bytes] = []
        """Of a local node, which has the log of each run by its number."""
        self.read: list[int] = []
        """The ranks whose logs were read."""
        self.writes = 0
        self.data: dict[str, str] | None = None
        """Of the ConfigMap."""
        self.notes: list[str] = []
        self.again = 0.0
        """Seconds after which the recorder looks again by itself; 0: it does not."""
        self.begin()

    def begin(self) -> None:
        """A process begins, with no memory."""
        manager: Any = SimpleNamespace(
            client=SimpleNamespace(get=self._read, send=self._send, list=self._list),
            cache=SimpleNamespace(get=self._get, indexed=lambda *_: [trimmed(one) for one in self.pods]),
            applier=SimpleNamespace(apply=self._apply),
            controller=MagicMock(),
        )
        self.records = JobRecords()
        told: Any = SimpleNamespace(warn=lambda _, __, note: self.notes.append(note))
        self.recorder = FailureRecorder(manager, told, self.records)

    async def see(self, *pods: dict[str, Any]) -> dict[int, Entry]:
        """The pods of the cache become these. Returns the record."""
        self.pods = list(pods)
        result = await self.recorder.reconcile(Key("n", "j"))
        self.again = result.seconds if isinstance(result, RetryAfter) else 0.0
        return entries_of(self.data)

    def _get(self, kind: Kind, *_: str) -> AnyObject | None:
        if kind is TrainJob:
            return self.job
        if kind == RECORDS:
            return None if self.data is None else {"metadata": {"name": "j-failures", "namespace": "n"}}
        owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "j", "uid": "job"}
        about = {"name": "j", "namespace": "n", "uid": self.jobset, "ownerReferences": [{**owner, "controller": True}]}
        return msgspec.convert({"metadata": about}, JobSet)

    async def _read(self, kind: type[ConfigMap], *_: str) -> ConfigMap:
        if self.data is None:
            raise NotFound("no", code=404, reason="NotFound")
        owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "j", "uid": "job"}
        about = {"name": "j-failures", "namespace": "n", "ownerReferences": [{**owner, "controller": True}]}
        return msgspec.convert({"metadata": about, "data": self.data}, kind)

    async def _list(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(items=[] if self.is_gone else [self.job])

    async def _send(self, request: Request) -> Response:
        rank = int(request.path.split("/")[-2].rpartition("-")[2])
        self.read.append(rank)
        log = self.previous if "previous" in request.query else self.logs.get(rank, self.log)
        if self.runs and "run" in request.query:
            log = self.runs[int(str(request.query["run"]))]
        if log is None:
            raise NotFound("no", code=404, reason="NotFound")
        return Response(200, {}, log)

    async def _apply(self, documents: list[dict[str, Any]], owner: TrainJob) -> None:
        if self.refuses is not None:
            raise self.refuses
        assert owner is self.job
        (document,) = documents
        self.writes, self.data = self.writes + 1, document["data"]


async def test_a_record_that_somebody_deleted_is_written_again_and_told_once() -> None:
    world = World()
    await world.see(pod(0, state(1)))
    before = world.data
    world.data = None
    await world.see(pod(0, state(1)))
    assert (world.data, world.writes, world.read, len(world.notes)) == (before, 2, [0], 1)
    world.job.status = TrainJobStatus(
        conditions=[
            Condition(type="Failed", status="True", reason="r", message="", last_transition_time="2026-01-01T00:00:00Z")
        ]
    )
    await world.see(pod(0, state(1)))
    world.data = None
    # Its entries were dropped with the end of the job: the pod is read again.
    await world.see(pod(0, state(1)))
    assert (world.data, world.read, len(world.notes)) == (before, [0, 0], 1)
    writes = world.writes
    await world.see(pod(0, state(1)))
    assert world.writes == writes


async def test_the_record_of_a_job_that_is_gone_is_not_made_again() -> None:
    world = World()
    await world.see(pod(0, state(1)))
    # The garbage collector takes the record, and the watch of TrainJobs is late.
    world.data, world.is_gone = None, True
    await world.see(pod(0, state(1)))
    assert (world.data, world.writes) == (None, 1)
    world.is_gone = False
    await world.see(pod(0, state(1)))
    assert world.writes == 2


async def test_in_a_namespace_that_is_deleted_nothing_is_recorded_and_nothing_is_wrong() -> None:
    world = World()
    cause = ErrorCause("NamespaceTerminating", "metadata.namespace", "namespace n is being terminated")
    world.refuses = Forbidden("no", code=403, reason="Forbidden", causes=(cause,))
    await world.see(pod(0, state(1)))
    assert (world.data, world.notes) == (None, [])
    world.refuses = Forbidden("no", code=403, reason="Forbidden")
    with pytest.raises(Forbidden):
        await world.see(pod(0, state(1)))


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


async def test_a_local_node_gives_the_log_of_the_run_that_failed_whatever_runs_by_now() -> None:
    world = World()
    world.log, world.previous = b"begins anew", b"of another run"
    world.runs = [b"out of data", b"begins anew"]
    first = {"state": ended(1, containerID="local://u0/c0/0")}
    found = await world.see(pod(0, first, phase="Running"))
    assert found[0].log == "out of data"
    # Told at once: nothing that is seen later says more.
    (note,) = world.notes
    assert note.endswith("(Error): out of data")
    again = {**AGAIN, "lastState": ended(1, containerID="local://u0/c0/0")}
    assert (await world.see(pod(0, again, phase="Running")))[0].log == "out of data"


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


LOST = b"ConnectionError: connection closed by peer\n"


async def culprit(world: World, *pods: dict[str, Any]) -> list[int]:
    """The rank that the record names, after each pod that is seen."""
    named = []
    for count in range(1, len(pods) + 1):
        found = await world.see(*pods[:count])
        named.append(found[0].rank)
    return named


async def test_the_pod_that_was_seen_to_fail_first_stays_the_culprit() -> None:
    # All in one second; signals sort last, and lower ranks first.
    for order in itertools.permutations(range(4)):
        world = World()
        pods = [pod(rank, state(137 if rank % 2 else 1)) for rank in order]
        assert set(await culprit(world, *pods)) == {order[0]}
        assert len(world.notes) == 1


async def test_one_that_ended_earlier_is_the_culprit_though_it_is_seen_later() -> None:
    assert await culprit(World(), pod(0, state(1, "12")), pod(1, state(137, "11"))) == [0, 1]
    exact = [
        {"container": "c0", "run": 0, "exitCode": 1, "at": f"2026-01-01T00:00:10.{n}Z"} for n in ("500000", "400000")
    ]
    ended_at = [pod(rank, state(1)) for rank in (0, 1)]
    for one, told_by_node in zip(ended_at, exact, strict=True):
        one["metadata"]["annotations"] = {"node.trainwright.dev/failures": json.dumps([told_by_node])}
        one["status"]["containerStatuses"][0]["state"]["terminated"]["containerID"] = "local://u/c0/0"
    assert await culprit(World(), *ended_at) == [0, 1]
    assert told(*ended_at) == told(*reversed(ended_at)) == [(0, 1, "c0", 1)]


@pytest.mark.parametrize("text", ["", "x", "{}", "[1]", '[{"at": 1, "run": 0}]', '[{"at": "x"}]'])
def test_an_annotation_that_no_node_wrote_changes_nothing(text: str) -> None:
    one = pod(0, state(3))
    one["metadata"]["annotations"] = {"node.trainwright.dev/failures": text}
    assert told(one) == [(0, 0, "c0", 3)]


async def test_a_rank_that_lost_another_one_is_not_the_culprit() -> None:
    world = World()
    world.logs = {0: LOST, 1: b"", 2: LOST, 3: b"ValueError: bad shape\n"}
    # The log of each is read once, and those after the culprit are not.
    assert await culprit(world, *(pod(rank, state(1)) for rank in (0, 2, 1, 3))) == [0, 0, 1, 1]
    assert world.read == [0, 2, 1]
    assert world.notes == [
        (
            "attempt 1: node rank 0 failed first: container c0 ended with exit code 1 (Error): "
            "ConnectionError: connection closed by peer"
        )
    ]


async def test_without_its_log_no_rank_takes_the_place_of_one_whose_words_are_known() -> None:
    world = World()
    world.logs = {0: LOST, 1: b"ValueError: bad shape\n"}
    lost = pod(0, state(1, "10"))
    assert await culprit(world, lost, pod(1, state(1, "11"))) == [0, 1]
    # The manager starts again before the node does, so nobody knows any more that the first rank lost the other.
    world.begin()
    world.logs[0] = None
    assert (await world.see(lost))[0].said == "ValueError: bad shape"


@pytest.mark.parametrize(
    ("later", "culprit"),
    [
        pytest.param([pod(1, state(17))], 1, id="torchrun ends after its process, which was the first"),
        pytest.param([], 0, id="the other pod is deleted"),
        pytest.param([pod(1, phase="Running")], 0, id="the other one runs on"),
    ],
)
def test_who_lost_another_rank_is_told_of_once_that_one_has_ended(later: list[dict[str, Any]], culprit: int) -> None:
    """What users were told is not corrected."""

    @jumping
    async def run() -> None:
        world = World()
        world.logs = {0: LOST, 1: b"the data is broken\n"}
        victim = pod(0, state(1))
        assert (await world.see(victim, pod(1, phase="Running")))[0].rank == 0
        assert world.notes == []
        await asyncio.sleep(world.again)
        await world.see(victim, *later)
        assert [f"rank {culprit} failed first" in note for note in world.notes] == [True]

    run()


async def test_what_ended_long_after_a_victim_is_not_its_reason() -> None:
    world = World()
    world.logs = {0: LOST, 1: b"ValueError: bad shape\n"}
    late = pod(1, {"state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:02:00Z"}}})
    assert await culprit(world, pod(0, state(1)), late) == [0, 0]


def at(rank: int, moment: str) -> dict[str, Any]:
    return pod(rank, {"state": {"terminated": {"exitCode": 1, "finishedAt": moment}}})


async def test_torchrun_ends_long_after_its_process_which_was_the_first() -> None:
    world = World()
    killed = summary(1, -9, "Signal 9 (SIGKILL) received by PID 6174")
    world.logs = {0: LOST, 1: killed.encode()}
    # Its process ended at 05:44:28, and it waited for the others.
    victim, culprit_ = at(0, "2026-01-15T05:44:29Z"), at(1, "2026-01-15T05:45:30Z")
    assert await culprit(world, victim, culprit_) == [0, 1]
    assert (await world.see(victim, culprit_))[0].said == "torchrun: rank 1, exit code -9, signal 9 (SIGKILL)"
    # Another manager continues the record.
    world.begin()
    assert (await world.see(victim, culprit_))[0].rank == 1
    # One whose process ended later than that is not the reason.
    other = World()
    other.logs = {0: LOST, 1: killed.encode()}
    assert await culprit(other, at(0, "2026-01-15T05:43:00Z"), culprit_) == [0, 0]


async def test_one_culprit_of_one_second_whatever_comes_first() -> None:
    """All end in one second: the one that was killed wrote nothing, the others lost it."""
    chance = random.Random(24)
    for _ in range(50):
        world = World()
        world.logs = {rank: b"" if rank == 3 else LOST for rank in range(6)}
        pods = [pod(rank, state(137 if rank == 3 else 1)) for rank in range(6)]
        chance.shuffle(pods)
        seen = 0
        while seen < len(pods):
            seen += chance.randint(1, len(pods) - seen)
            await world.see(*pods[:seen])
        assert entries_of(world.data)[0].rank == 3


async def test_few_logs_are_read_for_one_attempt() -> None:
    world = World()
    world.logs = dict.fromkeys(range(50), LOST)
    await world.see(*(pod(rank, state(1)) for rank in range(50)))
    assert len(world.read) == 8


async def test_the_end_of_torchrun_tells_what_its_process_did() -> None:
    world = World()
    world.log = f"ValueError: bad shape\n{'x' * 80}\n".encode() + summary(3, 1, first="  filler\n" * 300).encode()
    entry = (await world.see(pod(0, state(1))))[0]
    assert len(entry.log) <= LOG_BYTES
    assert world.notes == [
        (
            "attempt 1: node 0 failed first: container c0 ended with exit code 1 (Error): "
            f"{'x' * 80} (torchrun: rank 3, exit code 1)"
        )
    ]
    assert entry.said == f"{'x' * 80} (torchrun: rank 3, exit code 1)"


# ---------------------------------------------------------------------- pods that the cluster ends


def deleted(one: dict[str, Any], at: str = "39", grace: int = 30) -> dict[str, Any]:
    """The pod, being deleted since `at` less the grace."""
    one["metadata"] |= {"deletionTimestamp": f"2026-01-01T00:00:{at}Z", "deletionGracePeriodSeconds": grace}
    return one


def disrupted(one: dict[str, Any], reason: str) -> dict[str, Any]:
    one["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}]
    return one


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(deleted(pod(0, state(143))), id="suspended"),
        pytest.param(deleted(pod(0, state(1), phase="Running")), id="its handler exits with 1"),
        pytest.param(pod(0, state(143), reason="Terminated", message="imminent node shutdown"), id="shutdown"),
        pytest.param(pod(0, state(143), reason="NodeShutdown"), id="older kubelet"),
        pytest.param(pod(0, state(137), reason="Preempting"), id="a critical pod"),
        pytest.param(disrupted(pod(0, state(143)), "TerminationByKubelet"), id="condition of a shutdown"),
        pytest.param(disrupted(pod(0, state(143)), "PreemptionByScheduler"), id="preempted"),
    ],
)
async def test_a_pod_that_the_cluster_ends_has_not_failed(one: dict[str, Any]) -> None:
    assert told(one) == []
    world = World()
    assert await world.see(one) == {}
    assert world.notes == []


def test_a_pod_that_failed_and_is_deleted_then_has_failed() -> None:
    assert told(deleted(pod(0, state(1, "10")), at="41")) == [(0, 0, "c0", 1)]
    # The Job deletes the others for its sake.
    assert told(deleted(pod(0, state(143, "12")), at="41"), pod(3, state(1, "10"))) == [(0, 3, "c0", 1)]


def test_a_pod_that_is_ended_goes_before_those_that_lost_it() -> None:
    preempted = disrupted(pod(2, state(143, "10")), "PreemptionByScheduler")
    assert told(preempted, pod(0, state(1, "11"))) == [(0, 2, "", None)]
    (failure,) = first_failures([preempted, pod(0, state(1, "11"))]).values()
    assert failure.what == "the pod failed (PreemptionByScheduler)"


AGENT_SAW = b"ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 9)\n"
STOPPED = b"torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15\n"


@pytest.mark.parametrize(("saw", "culprit"), [(AGENT_SAW, 1), (b"step 3\n", 0)])
async def test_a_launcher_that_is_stopped_while_it_waits_knows_how_its_process_ended(saw: bytes, culprit: int) -> None:
    world = World()
    world.logs = {0: LOST, 1: saw + STOPPED}
    victim, launcher = pod(0, state(1)), deleted(pod(1, state(1, "12")), at="41")
    assert (await world.see(victim, pod(1, phase="Running")))[0].rank == 0
    found = (await world.see(victim, launcher))[0]
    assert (found.rank, found.stopped) == (culprit, False)
    # The record is read back as it was.
    world.begin()
    assert (await world.see(victim, launcher))[0].rank == culprit


async def test_of_a_pod_that_is_gone_the_end_of_the_log_is_in_its_status() -> None:
    world, gone = World(), pod(1, state(1))
    logs: Any = {0: LOST, 1: None}
    world.logs = logs
    gone["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = summary(1, -9)
    entry = (await world.see(pod(0, state(1)), gone))[0]
    assert (entry.rank, entry.said) == (1, "torchrun: rank 1, exit code -9, signal 9")


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


@pytest.mark.parametrize(("processes", "where"), [("1", "node rank 1"), ("2", "node 1"), ("auto", "node 1")])
def test_a_pod_with_several_processes_is_a_node(processes: str, where: str) -> None:
    one = pod(1, state(1))
    one["spec"]["containers"][0]["env"] = [{"name": "PET_NPROC_PER_NODE", "value": processes}]
    for each in (one, trimmed(one), trimmed(trimmed(one))):
        assert first_failures([each])[0].where == where


# ---------------------------------------------------------------------- whose log it is


KUBELET = b"unable to retrieve container logs for containerd://43b90bd8790108485eeaa1617048abf56b8b54e31d8d99d9c90fd6bf"


async def test_what_a_kubelet_answers_is_no_log() -> None:
    world = World()
    world.log = KUBELET
    assert (await world.see(pod(0, state(1))))[0].log == ""
    assert "unable" not in world.notes[0]
    # Of a container that has ended twice, the kubelet has the log of the latest run.
    world = World()
    world.log, world.previous = b"out of data", KUBELET
    twice = {"state": ended(1, "20"), "lastState": ended(1)}
    assert (await world.see(pod(0, twice)))[0].log == "out of data"


async def test_an_event_waits_until_it_is_known_whose_log_was_read() -> None:
    world = World()
    world.log, world.previous = b"begins anew", b"out of data"
    first = pod(0, state(1), phase="Running")
    first["spec"]["restartPolicy"] = "OnFailure"
    await world.see(first)
    assert world.notes == []
    again = pod(0, AGAIN, phase="Running")
    again["spec"]["restartPolicy"] = "OnFailure"
    await world.see(again)
    await world.see(again)
    assert [note.rpartition(": ")[2] for note in world.notes] == ["out of data"]


async def test_an_event_waits_no_longer_than_its_pod() -> None:
    world = World()
    world.log = b"out of data"
    first = pod(0, state(1), phase="Running")
    first["spec"]["restartPolicy"] = "OnFailure"
    await world.see(first)
    await world.see()
    await world.see()
    assert [note.rpartition(": ")[2] for note in world.notes] == ["out of data"]


async def test_after_its_end_a_job_costs_no_memory_of_its_logs_and_no_reads() -> None:
    world = World()
    world.log = b"out of data"
    await world.see(pod(0, state(1)))
    assert "out of data" in str(list(world.records.each(Recorded)))
    over = {
        "conditions": [{"type": "Failed", "status": "True", "reason": "r", "message": "", "lastTransitionTime": ""}]
    }
    world.job = msgspec.structs.replace(world.job, status=msgspec.convert(over, TrainJobStatus))
    await world.see(pod(0, state(1)))
    assert "out of data" not in str(list(world.records.each(Recorded)))
    world.read.clear()
    await world.see(pod(0, state(1)))
    assert (world.read, world.writes, len(world.notes)) == ([], 1, 1)
    # A failure that is seen late is added to what the ConfigMap has.
    found = await world.see(pod(0, state(1)), pod(1, state(1, "05")))
    assert (found[0].rank, world.writes, len(world.notes)) == (1, 2, 1)


async def test_a_record_that_was_not_written_is_written_by_the_next_look() -> None:
    world = World()
    world.refuses = ConnectionLost("lost")
    with pytest.raises(ConnectionLost):
        await world.see(pod(0, state(1)))
    assert (world.data, world.notes) == (None, [])
    world.refuses = None
    found = await world.see(pod(0, state(1)))
    assert (found[0].rank, world.writes, len(world.notes)) == (0, 1, 1)
    assert len(world.read) == 1  # the log is not read again


async def test_control_characters_of_a_log_are_not_kept() -> None:
    world = World()
    world.log = b"\x1b[31mValueError\x1b[0m: bad shape\n\x00\x00\n"
    entry = (await world.see(pod(0, state(1))))[0]
    assert entry.said == "ValueError: bad shape"
    assert "\x1b" not in str(world.data)
    assert world.notes[0].endswith("(Error): ValueError: bad shape")
