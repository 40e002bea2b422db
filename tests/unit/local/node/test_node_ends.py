# SPDX-License-Identifier: Apache-2.0
"""The order of ends where no program could be watched, and how it reaches the reader of a pod."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cases import cases
from tests.unit.local.node.pods import container, pod
from trainwright.controller.local.node import logs
from trainwright.controller.local.node.process import ends as ends_module
from trainwright.controller.local.node.process import lowlevel
from trainwright.controller.local.node.process.ends import ExitHandle, ExitOrderTracker
from trainwright.controller.local.node.process.lowlevel import announce
from trainwright.controller.local.node.process.supervision import Exit
from trainwright.controller.local.node.status import (
    EPOCH,
    FAILURES,
    ContainerState,
    PodState,
    Terminated,
    Waiting,
    annotations_to_report,
    status_document,
)

CASES = cases(__file__)

NOW = datetime(2026, 11, 22, 12, 0, 0, 123456, UTC)


@pytest.fixture
def ends() -> Iterator[ExitOrderTracker]:
    """An observer that gives its descriptors back."""
    made = ExitOrderTracker()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        (timedelta(milliseconds=3), timedelta(milliseconds=3)),
        (timedelta(0), timedelta(microseconds=1)),
        (timedelta(milliseconds=-30), timedelta(microseconds=1)),
        (timedelta(hours=-2), timedelta(hours=-2)),  # the clock was set back
    ],
)
async def test_times_of_programs_that_nobody_saw_ending_ascend(
    ends: ExitOrderTracker, second: timedelta, wanted: timedelta
) -> None:
    (one, _), (two, _) = ends.expect(), ends.expect()
    assert not two.seen()
    assert one.report(NOW) == NOW
    assert two.report(NOW + second) == NOW + wanted
    assert two.seen()


ANNOUNCED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.announce(*map(int, sys.argv[2:]))
print("announced", flush=True)
input()
"""


async def test_the_observer_sees_the_order_of_ends_however_late_it_looks(ends: ExitOrderTracker) -> None:
    """Nothing of this loop runs while the programs announce themselves and end."""
    expected = [ends.expect() for _ in range(6)]
    order = [3, 0, 5, 1, 4, 2]
    end_in_order(Path(lowlevel.__file__), [ticket for _, ticket in expected], order)
    times: list[datetime] = []
    for index, (end, _) in enumerate(expected):
        # The guard of what ended last reports first, and says that it was the first.
        times.append(end.report(NOW - timedelta(milliseconds=order.index(index))))
    assert sorted(range(6), key=lambda index: times[index]) == order


def end_in_order(file: Path, tickets: list[ExitHandle | None], order: list[int]) -> None:
    """Start a program for each ticket, and end them one after the other."""
    with ExitStack() as stack:
        running = []
        for ticket in tickets:
            assert ticket is not None
            command = [sys.executable, "-I", "-S", "-c", ANNOUNCED, str(file), *map(str, ticket)]
            one = subprocess.Popen(command, pass_fds=ticket[:2], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            running.append(stack.enter_context(one))
            assert one.stdout is not None
            assert one.stdout.readline() == b"announced\n"
        for index in order:
            running[index].communicate(b"\n")


async def test_descriptors_of_programs_are_given_back(ends: ExitOrderTracker) -> None:
    before = descriptors()
    _, ticket = ends.expect()
    assert ticket is not None
    announce(*ticket)
    assert descriptors() > before
    ends.close()
    assert descriptors() == before


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def ended(code: int, moment: datetime) -> Terminated:
    return Terminated(exit_code=code, reason="Error", started_at=EPOCH, finished_at=moment)


def test_the_time_of_each_failure_is_annotated_in_order() -> None:
    main, setup = ContainerState(Waiting("")), ContainerState(Waiting(""))
    main.end(ended(3, NOW))
    main.restarts = 1
    main.end(ended(143, NOW + timedelta(milliseconds=2)), stopped=True)
    setup.end(ended(4, NOW + timedelta(milliseconds=1)))
    state = PodState({"setup": setup}, {"main": main}, NOW)
    assert json.loads(annotations_to_report(state)[FAILURES]) == [
        {"container": "main", "run": 0, "exitCode": 3, "at": "2026-11-22T12:00:00.123456Z"},
        {"container": "setup", "run": 0, "exitCode": 4, "at": "2026-11-22T12:00:00.124456Z"},
        {"container": "main", "run": 1, "exitCode": 143, "at": "2026-11-22T12:00:00.125456Z", "stopped": True},
    ]
    document = status_document(pod(container(), initContainers=[container("setup")]), state, NOW)
    assert document["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == "2026-11-22T12:00:00Z"


def test_the_first_failed_run_and_the_last_two_are_kept() -> None:
    main = ContainerState(Waiting(""))
    for run in range(5):
        main.restarts = run
        main.end(ended(run, NOW + timedelta(seconds=run)))
    assert [one.run for one in main.failures] == [1, 3, 4]


def test_a_pod_without_a_failure_has_no_annotation() -> None:
    main = ContainerState(Waiting(""))
    main.end(ended(0, NOW))
    assert annotations_to_report(PodState({}, {"main": main}, NOW)) == {}


# ---------------------------------------------------------------------- lack of memory

LOG = """6,1,49000000,-;Out of memory: Killed process 45 (python3) total-vm:1kB
6,1,59000000,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=41,uid=0
3,2,59000000,-;Memory cgroup out of memory: Killed process 41 (python) total-vm:1kB, anon-rss:1kB
3,3,60000000,-;Out of memory: Killed process 42 (python3) total-vm:1kB
6,4,61000000,-;Out of memory (oom_kill_allocating_task): Killed process 43 (python3) total-vm:1kB
6,5,62000000,-;somebody wrote: Killed process 44 (python3)
"""


@pytest.mark.parametrize(
    ("pid", "is_named"), [(41, True), (42, True), (43, True), (44, False), (45, False), (4, False), (0, False)]
)
def test_the_log_of_the_kernel_names_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int, is_named: bool
) -> None:
    monkeypatch.setattr(ends_module, "has_own_numbers", lambda: True)
    log = tmp_path / "kmsg"
    log.write_text(LOG)
    assert ends_module.killed(pid, 60.0, log) is is_named
    assert not ends_module.killed(41, 60.0, tmp_path / "forbidden")


def test_numbers_of_a_container_are_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends_module, "has_own_numbers", lambda: False)
    (tmp_path / "kmsg").write_text(LOG)
    assert not ends_module.killed(41, 60.0, tmp_path / "kmsg")


@pytest.mark.parametrize(("own", "file", "text", "wanted"), CASES["the_control_group_counts"])
def test_the_control_group_counts(tmp_path: Path, own: str, file: str, text: str, wanted: int) -> None:
    (tmp_path / "own").write_text(own)
    place = tmp_path / "groups" / file
    place.parent.mkdir(parents=True)
    place.write_text(text)
    assert ends_module.count(tmp_path / "groups", tmp_path / "own") == wanted


def test_no_more_is_said_than_the_kernel_says() -> None:
    now = datetime(2026, 11, 25, tzinfo=UTC)
    assert logs.of_kernel(Exit(137, now)) == ""
    assert logs.of_kernel(Exit(137, now, out_of_memory=True)) == "the kernel killed it for lack of memory"
    told = logs.of_kernel(Exit(137, now, killed_nearby=2))
    assert told == "the kernel killed 2 processes of this cluster for lack of memory meanwhile, and does not say which"
