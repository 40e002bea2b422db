# SPDX-License-Identifier: Apache-2.0
"""`local run` sees a job that seems to hang, on a clock of the test, and stops it if it is asked to."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tests import builders
from tests.builders import RUNNING, condition, progress, train_job
from tests.unit.cli.test_local_follower import JOB, Cluster
from trainwright.api.objects import Document, wire
from trainwright.api.times import format_time
from trainwright.controller.cli.local.follower import Followed, Follower
from trainwright.controller.cli.local.stalls import EXIT_CODE, Stalls
from trainwright.controller.cli.main import main
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.testing.clock import ManualClock

DAY = datetime(2026, 11, 25, 14, 0, tzinfo=UTC)


def time_at(seconds: float) -> str:
    return format_time(DAY + timedelta(seconds=seconds))


def pod(rank: int, *, ended: float | None = None, code: int = 0) -> Document:
    state = None if ended is None else builders.ended(code, at=time_at(ended))
    ready = condition("Ready", "True" if ended is None else "False")
    return builders.pod(rank, state, name=f"job-node-0-{rank}", uid=str(rank), status={"conditions": [ready]})


def job(reported: float | None = None, percent: int | None = None, **stalled: Any) -> Document:
    told = None if reported is None else progress(at=time_at(reported), progressPercentage=percent)
    said = [condition("Stalled", **{"message": "rank 2 is silent", **stalled})] if stalled else None
    return {**wire(train_job(jobs=[RUNNING], progress=told, conditions=said)), **JOB}


class TimedLooks:
    """Looks at a job at times that the test gives."""

    def __init__(self, after: float) -> None:
        self._clock = ManualClock(0.0)
        self._stalls = Stalls(after, now=lambda: DAY + timedelta(seconds=self._clock()), monotonic=self._clock)

    def look(self, at: float, document: Document, *pods: Document) -> str:
        self._clock.now = at
        return self._stalls.look(document, pods)


def test_a_rank_that_ends_is_told_once_the_others_run_on_for_so_long() -> None:
    looks = TimedLooks(30)
    pods = (pod(0), pod(1, ended=10))
    assert looks.look(39, job(), *pods) == ""
    assert looks.look(40, job(), *pods).startswith("rank 1 ended with exit code 0 at 2026-11-25T14:00:10Z, and 1 other")


def test_a_job_that_never_reports_is_never_told() -> None:
    looks = TimedLooks(5)
    assert [looks.look(at, job(), pod(0), pod(1)) for at in (0, 10, 10_000)] == ["", "", ""]


def test_reports_that_stop_are_told_with_their_last_time() -> None:
    looks = TimedLooks(30)
    assert looks.look(0, job(0, 1), pod(0)) == ""
    assert looks.look(29, job(0, 1), pod(0)) == ""
    assert looks.look(30, job(0, 1), pod(0)).startswith(
        "no report of progress for 30 s, the last at 2026-11-25T14:00:00Z from rank 0;"
    )
    assert looks.look(31, job(31, 2), pod(0)) == ""


def test_time_without_pods_does_not_count() -> None:
    looks = TimedLooks(30)
    assert looks.look(0, job(0, 1), pod(0)) == ""
    assert looks.look(500, job(0, 1)) == ""
    assert looks.look(501, job(0, 1), pod(0)) == ""


def test_a_rank_that_is_done_is_not_shown_as_100_percent() -> None:
    looks = TimedLooks(30)
    looks.look(0, job(0, 100), pod(0), pod(1))
    found = looks.look(30, job(0, 100), pod(0), pod(1))
    assert "is done" in found
    assert "100" not in found


@pytest.mark.parametrize(("after", "at", "told"), [(60, 0, True), (600, 0, True), (900, 299, False), (900, 300, True)])
def test_what_the_manager_knows_of_single_ranks_is_told_at_the_commands_limit(
    after: float, at: float, told: bool
) -> None:
    # The manager waited for ten minutes before it said so, at the begin of the day.
    document = job(reason="RankSilent", lastTransitionTime=time_at(0))
    assert TimedLooks(after).look(at, document, pod(0)) == ("rank 2 is silent" if told else "")


def test_that_a_job_has_never_reported_is_no_reason() -> None:
    document = job(reason="NeverReported", lastTransitionTime=time_at(0))
    assert TimedLooks(60).look(900, document, pod(0)) == ""


@pytest.mark.parametrize("condition", ["Complete", "Suspended", "Blocked"])
def test_a_job_that_does_not_run_does_not_hang(condition: str) -> None:
    document = job()
    document["status"]["conditions"] = [builders.condition(condition, at=time_at(0))]
    assert TimedLooks(5).look(900, document, pod(0), pod(1, ended=0)) == ""


class Running(Cluster):
    """A cluster whose job runs until it is stopped."""

    def __init__(self) -> None:
        pods = [("ADDED", pod(0)), ("ADDED", pod(1, ended=-60)), ("DELETED", pod(0)), ("DELETED", pod(1, ended=-60))]
        stack = b'Current thread 0x1 (most recent call first):\n  File "/work/train.py", line 7 in <module>\n'
        logs = {("job-node-0-0", "0"): [b"step 1\n", stack], ("job-node-0-1", "0"): [b"done\n"]}
        super().__init__(*pods, logs=logs, later=[job()])
        self.told: list[str] = []
        """Why it was stopped."""

    async def stop_job(self, message: str) -> None:
        self.told.append(message)
        self._deleted.set()


async def followed(cluster: Running, *, stop: bool) -> tuple[Followed, str]:
    out = io.StringIO()
    follower = Follower(
        Client(cast("Transport", cluster)),
        "default",
        "job",
        out=out,
        stalls=Stalls(30, now=lambda: DAY, monotonic=lambda: 0.0),
    )
    found = await follower.follow(
        start_seconds=60, seconds=None if stop else 1.0, stop_job=cluster.stop_job if stop else None
    )
    return found, out.getvalue()


async def test_the_command_warns_once_and_goes_on() -> None:
    found, out = await followed(Running(), stop=False)
    assert found.code == 124
    assert out.count("| warning: rank 1 ended with exit code 0 at 2026-11-25T13:59:00Z") == 1


async def test_the_command_stops_the_job_with_an_exit_code_of_its_own() -> None:
    cluster = Running()
    found, out = await followed(cluster, stop=True)
    assert found.code == EXIT_CODE
    assert found.message.startswith("the job was stopped because it seems to hang: rank 1 ended with exit code 0")
    assert "[rank 0] step 1" in out
    # The job keeps it for whoever looks later, and where its ranks were, which they say when they are stopped.
    begun, where = cluster.told
    assert found.message.endswith(where)
    assert where.startswith(f"{begun}; ")
    assert 'File "/work/train.py", line 7' in where


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stall-after", "soon"], "'soon' is not a time: write a number and s, m, h or d, such as 10m, or never"),
        (["--stall-stop", "--stall-after", "never"], "--stall-stop does not go with --stall-after=never"),
        (["--stall-stop", "--detach"], "--stall-stop does not go with --detach"),
    ],
)
def test_wrong_use(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["local", "run", *options, "train.py"]))
    assert ended.value.code == 125
    assert said in capsys.readouterr().err
