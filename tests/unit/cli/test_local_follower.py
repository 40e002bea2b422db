# SPDX-License-Identifier: Apache-2.0
"""`local run` follows a job: every failed run's log once and whole, and the container that failed first."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.unit.cli.test_local_failures import ended, failed, pod
from trainwright.api.objects import Document
from trainwright.controller.cli.local.follower import Followed, Follower
from trainwright.controller.cli.local.lines import LineWriter, lines_in
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request, Response, Transport
from trainwright.controller.runtime.errors import ConnectionLost

JOB: Document = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "default", "uid": "job"},
}


GONE = {"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404, "message": "not found"}
DELETED = {**JOB, "metadata": {**JOB["metadata"], "deletionTimestamp": "2026-11-25T09:00:00Z"}}
SUSPENDED: Document = {**JOB, "spec": {"suspend": True}}
COMPLETE: Document = {**JOB, "status": {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}}
NAMESAKE = {**JOB, "metadata": {**JOB["metadata"], "uid": "later"}}


class Answered:
    """An answer whose chunks the test gives."""

    def __init__(self, chunks: AsyncGenerator[bytes, None], status: int = 200) -> None:
        self.status, self.headers, self._chunks = status, dict[str, str](), chunks

    async def read(self) -> bytes:
        return b""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return self._chunks


class Cluster:
    """An API server whose pods report what the test says, one state after the other."""

    def __init__(
        self, *reports: tuple[str, Document], logs: dict[tuple[str, str], list[bytes]], later: Sequence[Document] = ()
    ) -> None:
        self._reports = list(reports)
        self._jobs = [JOB, *later]
        self._logs = logs
        self._deleted = asyncio.Event()
        self._last_job = asyncio.Event()
        self.asked: list[tuple[str, str]] = []

    async def send(self, request: Request) -> Response:
        body: Document = {"metadata": {"resourceVersion": "1"}, "items": []}
        if request.path.endswith("/trainjobs/job"):
            body = self._jobs.pop(0) if len(self._jobs) > 1 else self._jobs[0]
            if len(self._jobs) == 1:
                self._last_job.set()
        return Response(404 if body == GONE else 200, {"content-type": "application/json"}, json.dumps(body).encode())

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Answered]:
        if request.query.get("watch"):
            yield Answered(self._frames())
        else:
            key = (request.path.split("/")[-2], str(request.query["run"]))
            self.asked.append(key)
            yield Answered(self._log(key))

    async def _frames(self) -> AsyncGenerator[bytes, None]:
        for kind, document in self._reports:
            if kind == "DELETED":
                await self._deleted.wait()
            if kind == "ADDED LATE":
                await self._last_job.wait()
            yield json.dumps({"type": kind.removesuffix(" LATE"), "object": document}).encode() + b"\n"
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    async def _log(self, key: tuple[str, str]) -> AsyncGenerator[bytes, None]:
        for number, chunk in enumerate(self._logs[key]):
            if chunk == b"BREAK":
                del self._logs[key][number]
                raise ConnectionLost("broken")
            yield chunk

    async def end_job(self, message: str = "failed with exit code") -> None:
        assert "failed with exit code" in message
        self._deleted.set()


async def follow(cluster: Cluster, *, keep: bool = False) -> tuple[Followed, list[str]]:
    out = io.StringIO()
    follower = Follower(Client(cast("Transport", cluster)), "default", "job", out=out)
    found = await follower.follow(start_seconds=10, end_job=None if keep else cluster.end_job)
    return found, out.getvalue().splitlines()


def name(index: int) -> str:
    return f"job-node-0-{index}"


async def test_the_run_that_failed_is_shown_though_the_next_one_runs_already() -> None:
    again = pod(0, restarts=1, state={"running": {}}, lastState={"terminated": ended(1, 0)})
    gone = failed(0, 1, "00.100000")
    cluster = Cluster(
        ("ADDED", again),
        ("DELETED", gone),
        logs={(name(0), "0"): [b"Traceback\nValue", b"Error: x\n"], (name(0), "1"): [b"noise\n"]},
    )
    found, lines = await follow(cluster)
    assert found.code == 1
    assert lines == ["[rank 0] Traceback", "[rank 0] ValueError: x"]
    assert cluster.asked == [(name(0), "0")]


async def test_a_log_that_breaks_goes_on_with_the_next_line() -> None:
    cluster = Cluster(
        ("ADDED", failed(0, 3, "00.100000")),
        ("DELETED", failed(0, 3, "00.100000")),
        logs={(name(0), "0"): [b"one\n", b"BREAK", b"two\n"]},
    )
    found, lines = await follow(cluster)
    assert (found.code, lines) == (3, ["[rank 0] one", "[rank 0] two"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


BAR = [b"loading\n", b"\r 20%|#", b"\r 40%|##", b"\r", b" 60%|###\r\n", b"done\n"]
CLEAR = "\r\x1b[K"


@pytest.mark.parametrize(
    ("out", "shown"),
    [
        # A log has its last state only.
        (io.StringIO, "[rank 0] loading\n[rank 0]  60%|###\n[rank 0] done\n"),
        (
            Terminal,
            (
                f"[rank 0] loading\n{CLEAR}[rank 0]  20%|#{CLEAR}[rank 0]  40%|##{CLEAR}[rank 0]  40%|##"
                f"{CLEAR}[rank 0]  60%|###\n[rank 0] done\n"
            ),
        ),
    ],
)
async def test_a_progress_bar_moves_on_a_terminal(out: type[io.StringIO], shown: str) -> None:
    end = failed(0, 3, "00.100000")
    cluster = Cluster(("ADDED", end), ("DELETED", end), logs={(name(0), "0"): BAR})
    made = out()
    await Follower(Client(cast("Transport", cluster)), "default", "job", out=made).follow(
        start_seconds=10, end_job=cluster.end_job
    )
    assert made.getvalue() == shown


async def test_a_bar_that_is_longer_than_a_terminal_takes_one_row_and_no_line_is_put_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    out = Terminal()
    lines = LineWriter(out)
    lines.show("123456789012")
    lines.print("a line")
    lines.print("another")
    assert out.getvalue() == f"{CLEAR}123456789{CLEAR}a line\nanother\n"


async def test_a_bar_for_hours_takes_no_memory_and_its_last_state_stays_without_a_newline() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for number in range(20_000):
            yield b"\r%d of 20000" % number

    seen = [one async for one in lines_in(chunks())]
    assert (seen[0], seen[-1]) == (("0 of 20000", False), ("19999 of 20000", True))


async def test_who_failed_first_may_report_it_when_the_job_is_ended() -> None:
    cluster = Cluster(
        ("ADDED", pod(0, state={"running": {}})),
        ("ADDED", pod(1, state={"running": {}})),
        ("MODIFIED", failed(1, 11, "00.050000")),
        ("DELETED", failed(0, 10, "00.049000")),
        ("DELETED", failed(1, 11, "00.050000")),
        logs={(name(0), "0"): [b"first\n"], (name(1), "0"): [b"second\n"]},
    )
    found, lines = await follow(cluster)
    assert found.code == 10
    assert sorted(lines) == ["[rank 0] first", "[rank 1] second"]


async def test_a_pod_that_was_gone_a_moment_later_counts() -> None:
    reports: list[tuple[str, Any]] = [("ADDED", failed(0, 7, "00.100000")), ("DELETED LATE", failed(0, 7, "00.100000"))]
    found, lines = await follow(Cluster(*reports, logs={(name(0), "0"): [b"seven\n"]}))
    assert (found.code, lines) == (7, ["[rank 0] seven"])


@pytest.mark.parametrize("later", [GONE, DELETED, NAMESAKE], ids=["gone", "deleted", "namesake"])
async def test_a_job_that_is_deleted_has_not_failed_although_its_pods_end(later: Document) -> None:
    """Its pods get SIGTERM. A new job of the same name is not the one that is followed."""
    cluster = Cluster(
        ("ADDED", pod(0, state={"running": {}})),
        ("MODIFIED", failed(0, 143, "00.100000", stopped=True)),
        logs={(name(0), "0"): [b"step 1\n"]},
        later=[later],
    )
    found, lines = await follow(cluster)
    assert (found.code, found.message) == (1, "TrainJob job was deleted")
    assert lines == ["[rank 0] step 1"]


async def test_a_job_that_is_suspended_has_not_failed_and_is_followed_on() -> None:
    """Its pods get SIGTERM, and stay in the list until the watch says that they are gone."""
    cluster = Cluster(
        ("ADDED", pod(0, state={"running": {}})),
        ("MODIFIED", failed(0, 143, "00.100000", stopped=True)),
        logs={(name(0), "0"): [b"step 1\n"]},
        # Before its pods have failed, with them, and resumed.
        later=[SUSPENDED, SUSPENDED, JOB, JOB, COMPLETE],
    )
    found, lines = await follow(cluster)
    assert (found.code, found.message) == (0, "the job is Complete")
    assert lines == ["[rank 0] step 1", "| Complete: done"]


async def test_a_failure_after_a_job_was_resumed_counts() -> None:
    cluster = Cluster(
        ("ADDED", failed(0, 143, "00.100000", stopped=True)),
        ("ADDED LATE", failed(1, 7, "00.200000")),
        ("DELETED", failed(1, 7, "00.200000")),
        logs={(name(0), "0"): [b"step 1\n"], (name(1), "0"): [b"seven\n"]},
        later=[SUSPENDED, SUSPENDED, SUSPENDED, JOB],
    )
    found, _ = await follow(cluster)
    assert found.message == "rank 1 failed with exit code 7 (Error)"
