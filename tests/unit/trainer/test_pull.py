# SPDX-License-Identifier: Apache-2.0
"""Reading progress in pods: when, how often, and what becomes of each result. With a clock that jumps."""

import asyncio
import json
import logging
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.trainer.pulling import Bench, P, PretendPod
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.trainer.progress import files
from trainwright.controller.trainer.progress.reading import PYTHON, find_pod
from trainwright.controller.trainer.progress.report import InvalidReport, ReportSource

PATH = "/var/run/trainwright/progress.json"
TAIL = ("tail", "-c", "65537", PATH)


@jumping
async def test_a_running_job_is_read_five_seconds_after_its_pod_is_ready_and_then_each_interval() -> None:
    b = Bench()
    pod = b.pod(file=b'{"progressPercentage":10,"metrics":{"loss":"0.5"}}')
    b.show()
    async with b.running():
        await asyncio.sleep(27)
    assert pod.times == [5, 15, 25]
    assert pod.commands == [TAIL] * 3
    assert b.accepted == [(5, "job", 10, ReportSource.FILE)]
    assert b.pods_of_reports == ["job-pod-1"]
    status = b.reports[0].status
    assert [(one.name, one.value) for one in status.metrics or ()] == [("loss", "0.5")]
    assert status.last_updated_time == "2026-05-06T07:08:14Z"
    assert b.cluster.lists == 1
    assert b.results() == {"ok": 3}


@jumping
async def test_nothing_is_read_before_the_jobs_are_known() -> None:
    b = Bench()
    b.listed.clear()
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(10)
        assert pod.times == []
        b.listed.set()
        await asyncio.sleep(6)
    assert pod.times == [15]


@jumping
async def test_each_change_of_the_file_is_passed_on_once() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(16)
        pod.file = b'{"progressPercentage":20}\n{"progressPercentage":21}\n{"progressPerc'
        await asyncio.sleep(20)
    assert [(at, percentage) for at, _, percentage, _ in b.accepted] == [(5, 10), (25, 21)]


@jumping
async def test_only_jobs_that_ask_and_run_are_read() -> None:
    b = Bench()
    jobs: dict[str, dict[str, Any]] = {
        "push": {"marks": {}},
        "none": {"marks": {P: "none"}},
        "waits": {"ready": 0},
        "other": {"replicated": "initializer"},
        "suspended": {"condition": "Suspended"},
        "complete": {"condition": "Complete", "ended": -3600},
        "deleted": {"deleted": True},
    }
    for name, fields in jobs.items():
        b.pod(name)
        b.show(name, **fields)
    async with b.running():
        await asyncio.sleep(100)
    assert not any(pod.times for pod in b.cluster.pods.values())
    assert b.targets_asked == 2  # "push" may have a runtime that asks; "other" has a ready pod


@jumping
async def test_a_job_is_read_from_its_first_ready_pod_until_it_is_suspended() -> None:
    b = Bench()
    pod = b.pod()
    async with b.running():
        b.show(ready=0)
        await asyncio.sleep(50)
        b.show(ready=1)
        await asyncio.sleep(16)
        b.show(ready=0, condition="Suspended")
        await asyncio.sleep(50)
        b.show(ready=1)
        await asyncio.sleep(6)
        b.delete()
        await asyncio.sleep(50)
    assert pod.times == [55, 65, 121]


@jumping
async def test_no_command_runs_in_a_pod_that_is_not_ready() -> None:
    b = Bench()
    pod = b.pod(running=False)
    b.show()
    async with b.running():
        await asyncio.sleep(100)
        assert pod.times == []
        pod.running = True
        await asyncio.sleep(100)
    assert pod.times
    assert b.results()["not_ready"] == b.cluster.lists - 1 == 10  # five seconds, then each interval


@jumping
async def test_a_pod_that_was_replaced_is_found_again() -> None:
    b = Bench()
    b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        second = b.pod(uid="pod-2", file=b'{"progressPercentage":1}')
        await asyncio.sleep(11)
    assert second.times == [16]
    assert b.results() == {"ok": 2, "gone": 1}
    assert b.pods_of_reports == ["job-pod-1", "job-pod-2"]


@jumping
async def test_changed_counters_make_the_pod_be_looked_for() -> None:
    b = Bench()
    b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.show(ready=0)
        second = b.pod(uid="pod-2")
        b.show(ready=1)
        await asyncio.sleep(6)
    assert second.times == [11]
    assert b.results() == {"ok": 2}


RESULTS: dict[str, tuple[dict[str, Any], str, int]] = {
    "no file": ({"file": None}, "missing", 0),
    "an empty file": ({"file": b""}, "empty", 0),
    "half of a document": ({"file": b'{"progressPercentage": 5, "met'}, "partial", 0),
    "binary": ({"file": bytes(range(256))}, "corrupt", 1),
    "a list": ({"file": b"[]"}, "corrupt", 1),
    "not UTF-8": ({"file": b'{"message": "\xff"}'}, "corrupt", 1),
    "a time without a zone": ({"file": b'{"lastUpdatedTime":"2026-05-06T07:08:09"}'}, "corrupt", 1),
    "ten megabytes": ({"file": b"x" * 10_000_000}, "too_large", 1),
    "a folder": ({"stderr": b"tail: error reading '/x': Is a directory\n", "code": 1}, "unreadable", 1),
    "no permission": ({"stderr": b"tail: cannot open '/x': Permission denied\n", "code": 1}, "unreadable", 1),
    "far too much output": ({"programs": frozenset({"tail"}), "file": b"", "stderr": b"x" * 200_000}, "unreadable", 1),
    "the container ends": ({"code": 137}, "unreachable", 0),
    "the connection breaks": ({"breaks": True}, "unreachable", 0),
    "the node is away": ({"refusal": (500, "InternalError")}, "unreachable", 0),
    "the API server has no time": ({"refusal": (429, "TooManyRequests")}, "unreachable", 0),
    "no such container": ({"refusal": (400, "BadRequest")}, "unreadable", 1),
    "no such container in the pod": ({"container": "other"}, "unreadable", 1),
}


@pytest.mark.parametrize(("fields", "result", "events"), RESULTS.values(), ids=list(RESULTS))
def test_a_read_that_gives_no_report(fields: dict[str, Any], result: str, events: int) -> None:
    @jumping
    async def run() -> None:
        b = Bench()
        b.pod(**fields)
        b.show()
        async with b.running():
            await asyncio.sleep(60)
        assert set(b.results()) == {result}
        assert b.accepted == []
        assert len(b.events) == events, b.events
        assert all(len(note) < 300 and "\n" not in note for _, note in b.events)

    run()


@jumping
async def test_a_file_that_is_being_written_is_read_once_more_after_a_second() -> None:
    b = Bench()
    pod = b.pod(file=b'{"progress')
    b.show()
    async with b.running():
        await asyncio.sleep(5.5)
        pod.file = b'{"progressPercentage": 7}'
        await asyncio.sleep(1)
        assert [entry[:3] for entry in b.accepted] == [(6, "job", 7)]
        pod.file = b""
        await asyncio.sleep(30)
    assert pod.times == [5, 6, 16, 17, 27, 28]


@jumping
async def test_a_missing_file_is_told_of_after_ten_minutes_and_once() -> None:
    b = Bench()
    pod = b.pod(file=None)
    b.show()
    async with b.running():
        await asyncio.sleep(600)
        assert b.events == []
        await asyncio.sleep(600)
        assert b.events == [("job", f"there is still no progress file {PATH} in container node")]
        pod.file = b'{"progressPercentage": 3}'
        await asyncio.sleep(20)
    assert b.accepted[-1][2] == 3
    assert len(b.events) == 1


@jumping
async def test_bad_content_is_read_less_and_less_often_until_it_is_good() -> None:
    b = Bench()
    pod = b.pod(file=b"[]")
    b.show()
    async with b.running():
        await asyncio.sleep(3000)
        pauses = [later - earlier for earlier, later in pairwise(pod.times)]
        assert pauses == [20, 40, 80, 160, 320, 600, 600, 600]
        pod.file = b'{"progressPercentage": 50}'
        await asyncio.sleep(620)
    assert b.accepted[-1][2] == 50
    assert pod.times[-1] - pod.times[-2] == 10
    assert b.events == [("job", f"the progress file {PATH} cannot be used: the document is not a JSON object")]


@jumping
async def test_an_image_without_tail_is_read_with_python() -> None:
    b = Bench()
    pod = b.pod(programs=frozenset({"python3"}))
    b.show()
    async with b.running():
        await asyncio.sleep(16)
    python = ("python3", "-I", "-S", "-c", PYTHON, PATH)
    assert pod.commands == [TAIL, python, python]
    assert b.results() == {"ok": 2}


@jumping
async def test_an_image_without_both_is_told_of_once_and_left_alone() -> None:
    b = Bench()
    pod = b.pod(programs=frozenset())
    b.show()
    async with b.running():
        await asyncio.sleep(3600)
        assert len(pod.commands) == 2
        b.show(ready=0)
        b.show(ready=1)
        await asyncio.sleep(3600)
        assert len(pod.commands) == 4
        assert len(b.events) == 1
        other = b.pod(uid="pod-2", programs=frozenset())
        b.show(ready=0)
        b.show(ready=1)
        await asyncio.sleep(16)
    assert other.commands == pod.commands[:2]
    note = f"the progress file {PATH} cannot be read: the image has neither tail nor python3; add one of them to it"
    assert b.events == [("job", note), ("job", note)]


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ('unable to start container process: exec: "tail": executable file not found in $PATH', "no_reader"),
        ("executable file `tail` not found in $PATH: No such file or directory", "no_reader"),
        ("exec /usr/bin/tail: no such file or directory", "no_reader"),
        ('container not found ("retail")', "unreachable"),
        ('container not found ("tail-1")', "unreachable"),
        ("error dialing backend: tail of the log", "unreachable"),
        ("container is not created or running", "unreachable"),
    ],
)
def test_what_nodes_say_of_programs_that_are_missing(message: str, result: str) -> None:
    @jumping
    async def run() -> None:
        b = Bench()
        b.pod(answer=lambda program: message.replace("tail", program))
        b.show()
        async with b.running():
            await asyncio.sleep(6)
        assert set(b.results()) == {result}

    run()


@pytest.mark.parametrize("code", [126, 127])
def test_exit_codes_of_a_program_that_is_missing(code: int) -> None:
    @jumping
    async def run() -> None:
        b = Bench()
        pod = b.pod(code=code)
        b.show()
        async with b.running():
            await asyncio.sleep(60)
        assert len(pod.commands) == 2
        assert b.results() == {"no_reader": 1}

    run()


@jumping
async def test_after_two_commands_that_do_not_end_no_more_are_started() -> None:
    b = Bench()
    pod = b.pod(hangs="command")
    b.show()
    async with b.running():
        await asyncio.sleep(3600)
    assert pod.times == [5, 35]  # ten seconds, then twice the interval
    assert b.results() == {"timeout": 2}
    assert b.events == [("job", f"reading the progress file {PATH} does not end, so it is no longer read in this pod")]


@jumping
async def test_a_node_that_hangs_takes_ten_seconds_at_most_and_is_asked_less_and_less() -> None:
    b = Bench()
    pod = b.pod(hangs="node")
    b.show()
    async with b.running():
        await asyncio.sleep(200)
        assert pod.times == [5, 35, 85, 175]
        pod.hangs = ""
        await asyncio.sleep(400)
    assert b.results()["unreachable"] == 4
    assert b.accepted
    assert b.events == []


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (422, "Invalid")])
def test_a_refusal_stops_all_reading_for_five_minutes_and_is_told_once(
    status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    @jumping
    async def run() -> None:
        b = Bench()
        for name in ("a", "b", "c"):
            b.pod(name, refusal=(status, reason))
            b.show(name)
        async with b.running():
            await asyncio.sleep(1000)
            times = sorted(at for pod in b.cluster.pods.values() for at in pod.times)
            assert len(times) == 4  # one each five minutes
            assert all(later - earlier >= 300 for earlier, later in pairwise(times))
            for pod in b.cluster.pods.values():
                pod.refusal = None
            await asyncio.sleep(300)
        assert {name for _, name, *_ in b.accepted} == {"a", "b", "c"}

    with caplog.at_level(logging.ERROR):
        run()
    (record,) = caplog.records
    assert "get and create on pods/exec" in record.getMessage()


@jumping
async def test_last_reports_come_also_while_commands_are_refused() -> None:
    b = Bench()
    pod = b.pod(refusal=(403, "Forbidden"))
    b.show()
    async with b.running():
        await asyncio.sleep(20)
        pod.running, pod.message = False, '{"progressPercentage": 100}'
        b.show(ready=0, active=0, condition="Complete", ended=20)
        await asyncio.sleep(1)
    assert b.accepted == [(20, "job", 100, ReportSource.FINAL)]


@jumping
async def test_pods_may_not_be_listed() -> None:
    b = Bench()
    b.cluster.list_status = 403
    b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(200)
    assert b.cluster.lists == 1


@jumping
async def test_an_old_report_is_passed_on_and_counted_as_stale() -> None:
    b = Bench()
    b.pod(file=b'{"progressPercentage": 5, "lastUpdatedTime": "2025-05-06T07:08:09Z"}')
    b.pod("future", file=b'{"progressPercentage": 6, "lastUpdatedTime": "2027-05-06T07:08:09Z"}')
    b.show()
    b.show("future")
    async with b.running():
        await asyncio.sleep(6)
    assert b.results() == {"stale": 1, "ok": 1}
    assert [entry[1:3] for entry in b.accepted] == [("job", 5), ("future", 6)]


@jumping
async def test_a_report_that_is_refused_is_tried_again() -> None:
    b = Bench()
    b.pod()
    b.show()
    b.refusal = InvalidReport("no")
    async with b.running():
        await asyncio.sleep(6)
        b.refusal = None
        await asyncio.sleep(10)
    assert [entry[0] for entry in b.accepted] == [15]


@jumping
async def test_a_training_that_says_that_it_failed_is_told_of_once() -> None:
    b = Bench()
    b.pod(file=b'{"progressPercentage": 5, "state": "failed", "message": "CUDA out of memory"}')
    b.show()
    async with b.running():
        await asyncio.sleep(60)
    assert b.events == [("job", "the training reports that it has failed: CUDA out of memory")]


@jumping
async def test_a_job_whose_counters_change_all_the_time_is_read() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    async with b.running():
        for number in range(30):
            await asyncio.sleep(4)  # less than the pause before the first look
            b.show(ready=1 + number % 2)
    assert len(pod.times) >= 12


# ---------------------------------------------------------------------- beside push


@jumping
async def test_nothing_is_read_while_a_report_that_was_pushed_is_fresh() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.push(14.0)
        await asyncio.sleep(29)
        assert pod.times == [5]
        await asyncio.sleep(9)
    assert pod.times == [5, 35]


@jumping
@pytest.mark.parametrize("pushed", [None, -100.0])
async def test_a_report_that_another_replica_took_counts_as_well(pushed: float | None) -> None:
    b = Bench()
    if pushed is not None:
        b.push(pushed)  # pushes came to this replica long ago
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.show(stored={"progressPercentage": 10, "lastUpdatedTime": "2026-05-06T07:08:14Z"})  # our own
        await asyncio.sleep(10)
        assert pod.times == [5, 15]
        b.show(stored={"progressPercentage": 11, "lastUpdatedTime": "2026-05-06T07:08:25Z"})
        await asyncio.sleep(19)
        assert pod.times == [5, 15]
        await asyncio.sleep(11)
    assert pod.times == [5, 15, 45]


# ---------------------------------------------------------------------- many jobs


@jumping
async def test_five_hundred_jobs_and_a_node_that_hangs() -> None:
    b = Bench()
    for number in range(500):
        name = f"job-{number}"
        b.pod(name, node=f"node-{number % 25}", took=0.1, hangs="node" if number % 25 == 0 else "")
        b.show(name)
    async with b.running():
        await asyncio.sleep(305)
    pods = list(b.cluster.pods.values())
    times = sorted(at for pod in pods for at in pod.times)
    assert all(later - earlier > 0.0999 for earlier, later in pairwise(times))  # so no second has more than ten
    assert b.cluster.most <= 16
    assert max(b.cluster.most_on.values()) <= 4
    healthy = [pod for pod in pods if not pod.hangs]
    pauses = [later - earlier for pod in healthy for earlier, later in pairwise(pod.times)]
    assert all(40 < pause < 60 for pause in pauses), (min(pauses), max(pauses))
    assert all(pod.times[0] < 60 for pod in healthy)
    assert b.cluster.lists <= 500


@jumping
async def test_sixteen_at_once_although_all_are_slow() -> None:
    b = Bench()
    for number in range(100):
        b.pod(f"job-{number}", node=f"node-{number}", took=9.0)
        b.show(f"job-{number}")
    async with b.running():
        await asyncio.sleep(100)
    assert b.cluster.most == 16


@jumping
async def test_the_reads_of_jobs_that_begin_together_spread() -> None:
    b = Bench()
    for number in range(100):
        b.pod(f"job-{number}")
        b.show(f"job-{number}")
    async with b.running():
        await asyncio.sleep(65)
    seconds = Counter(int(at + 0.05) for pod in b.cluster.pods.values() for at in pod.times)
    assert all(seconds[second] in range(9, 12) for second in range(6, 64)), seconds


# ---------------------------------------------------------------------- the last report


@jumping
async def test_the_last_report_comes_from_the_termination_message() -> None:
    b = Bench()
    pod = b.pod(file=b'{"progressPercentage": 60}')
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        pod.running, pod.message = False, 'Killed\n{"progressPercentage": 100, "metrics": {"loss": 0.1}}\n'
        b.show(ready=0, active=0, condition="Complete", ended=6)
        await asyncio.sleep(60)
        b.show(ready=0, active=0, condition="Complete", ended=6, stored={"progressPercentage": 100})
        await asyncio.sleep(60)
    assert [entry[1:] for entry in b.accepted] == [("job", 60, ReportSource.FILE), ("job", 100, ReportSource.FINAL)]
    assert b.accepted[1][0] == 6
    assert pod.times == [5]
    assert b.cluster.lists == 2


@jumping
async def test_a_job_of_three_seconds() -> None:
    b = Bench()
    b.pod(running=False, message='{"progressPercentage": 100}')
    async with b.running():
        b.show(ready=0)
        b.show(ready=1)
        await asyncio.sleep(3)
        b.show(ready=0, active=0, condition="Complete", ended=3)
        await asyncio.sleep(1)
    assert b.accepted == [(3, "job", 100, ReportSource.FINAL)]


@jumping
async def test_a_message_that_was_cut() -> None:
    """Kubelets keep the last 4,096 bytes of a message, and cut its end if the containers of a pod share too little."""
    b = Bench()
    document = '{"progressPercentage": 99}'
    for name, message in {
        "at-the-start": ("x" * 5000 + "\n" + document + "\n")[-4096:],
        "at-the-end": (document + "\n" + document)[: len(document) + 9],
    }.items():
        b.pod(name, running=False, message=message)
    async with b.running():
        for name in b.cluster.pods:
            b.show(name)
            b.show(name, ready=0, active=0, condition="Failed")
        await asyncio.sleep(5)
    assert [entry[1:3] for entry in b.accepted] == [("at-the-start", 99), ("at-the-end", 99)]


@jumping
async def test_a_message_of_others_is_no_report() -> None:
    b = Bench()
    for name, message in {"text": "Segmentation fault", "none": "", "gone": ""}.items():
        if name != "gone":
            b.pod(name, running=False, message=message)
    async with b.running():
        for name in ("text", "none", "gone"):
            b.show(name)
            b.show(name, ready=0, active=0, condition="Failed")
        await asyncio.sleep(60)
    assert b.accepted == []
    assert b.events == []
    assert b.cluster.lists == 9  # three attempts each


@jumping
async def test_a_new_leader_reads_what_ended_lately() -> None:
    b = Bench()
    for name, ended, stored in (("lately", -500.0, 60), ("long-ago", -700.0, 60), ("told", -5.0, 100)):
        b.pod(name, running=False, message='{"progressPercentage": 100}')
        value = {"progressPercentage": stored, "lastUpdatedTime": "2026-05-06T07:00:00Z"}
        b.show(name, ready=0, active=0, condition="Complete", ended=ended, stored=value)
    async with b.running():
        await asyncio.sleep(20)
    assert [entry[1] for entry in b.accepted] == ["lately"]


@jumping
async def test_without_the_right_to_run_commands_only_last_reports_are_read() -> None:
    b = Bench(reads_files=False)
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(60)
        pod.running, pod.message = False, '{"progressPercentage": 100}'
        b.show(ready=0, active=0, condition="Complete")
        await asyncio.sleep(1)
    assert pod.times == []
    assert [entry[2:] for entry in b.accepted] == [(100, ReportSource.FINAL)]


# ---------------------------------------------------------------------- leaders and errors


@jumping
async def test_only_a_puller_that_runs_reads_and_the_next_one_begins_anew() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    await asyncio.sleep(60)
    assert pod.times == []
    async with b.running():
        await asyncio.sleep(6)
    b.show(ready=2)
    await asyncio.sleep(60)
    assert pod.times == [65]
    async with b.running():
        await asyncio.sleep(6)
    assert pod.times == [65, 131]


@jumping
async def test_a_target_that_is_not_known_yet_is_asked_for_again() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    b.target_error = Unreachable("no API server")
    async with b.running():
        await asyncio.sleep(11)
        assert b.targets_asked == 3
        b.target_error = None
        await asyncio.sleep(10)
        assert pod.times == [20]
        b.show(marks={P: "file:/data/progress.json"})
        await asyncio.sleep(17)
    assert pod.times == [20, 26, 36]


@jumping
async def test_a_defect_in_a_plugin_costs_no_other_job_its_progress(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    pod = b.pod()
    b.target_error = ZeroDivisionError("bug")  # type: ignore[assignment]  # what no target may raise
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.show(ready=2)
        b.show(ready=1)
        await asyncio.sleep(5)
        assert b.targets_asked == 3
        b.target_error = None
        await asyncio.sleep(10)
    assert pod.times == [20]
    assert "bug" in caplog.text


@jumping
async def test_a_job_that_no_longer_asks() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.show(marks={P: "none"})
        await asyncio.sleep(60)
    assert pod.times == [5]


@jumping
async def test_a_namesake_is_another_job() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.show(uid="second")
        await asyncio.sleep(6)
    assert pod.times == [5, 11]


@jumping
async def test_a_job_that_cannot_be_decoded_is_not_read_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
        b.damage()
        await asyncio.sleep(60)
        assert pod.times == [5]
        b.leader.undecodable.clear()
        b.show(ready=2)
        await asyncio.sleep(6)
    assert pod.times == [5, 66]
    assert caplog.records == []


@jumping
async def test_a_defect_of_ours_costs_one_read() -> None:
    b = Bench()
    pod = b.pod()
    b.show()
    b.refusal = RuntimeError("bug")  # type: ignore[assignment]  # what no sink may raise
    async with b.running():
        await asyncio.sleep(6)
        b.refusal = None
        await asyncio.sleep(20)
    assert len(pod.times) == 2
    assert len(b.accepted) == 1


@jumping
async def test_a_target_that_does_not_come_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Bench()
    of, hung = b.of, {"a", "b"}

    async def slow(job: Any) -> Any:
        if job.name in hung:
            await asyncio.Event().wait()
        return await of(job)

    monkeypatch.setattr(b, "of", slow)
    for name in ("a", "b", "c", "d"):
        b.pod(name)
        b.show(name)
    async with b.running():
        await asyncio.sleep(6)
        assert {name for _, name, _, _ in b.accepted} == {"c", "d"}
        hung.clear()
        await asyncio.sleep(files.ANSWER_SECONDS + files.RESOLVE_SECONDS + 6)
        assert {name for _, name, _, _ in b.accepted} == {"a", "b", "c", "d"}


@jumping
async def test_a_list_of_pods_that_does_not_end_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Bench()
    hung = {f"h{number}" for number in range(files.AT_ONCE)}

    async def slow(client: Any, job: Any, target: Any) -> Any:
        if job.name in hung:
            await asyncio.Event().wait()
        return await find_pod(client, job, target)

    monkeypatch.setattr(files, "find_pod", slow)
    for name in (*sorted(hung), "job"):
        b.pod(name)
        b.show(name)
    async with b.running():
        await asyncio.sleep(6)
        assert b.accepted == []
        await asyncio.sleep(files.ANSWER_SECONDS + 2)
        assert {name for _, name, _, _ in b.accepted} == {"job"}
        assert b.results()["unreachable"] == files.AT_ONCE


@jumping
async def test_initializers_are_read_in_turn_until_the_training_begins() -> None:
    """Each report has the metrics of both, and neither a percentage nor a failure: those are the training's."""
    b = Bench()
    b.loading = ("dataset-initializer", "model-initializer")
    for kind, number in (("dataset", 7), ("model", 8)):
        document = {"metrics": {f"{kind}_bytes": str(number)}, "progressPercentage": 100, "state": "failed"}
        name = f"{kind}-initializer"
        b.cluster.pods[f"job/{name}"] = PretendPod("job", uid=name, container=name, file=json.dumps(document).encode())
    async with b.running():
        b.show(ready_too=("dataset-initializer", "model-initializer"), replicated="other")
        await asyncio.sleep(30)
        told = [{one.name: one.value for one in report.status.metrics or ()} for report in b.reports]
        assert told[0] == {"dataset_bytes": "7"}
        assert told[1:] == [{"dataset_bytes": "7", "model_bytes": "8"}] * (len(told) - 1)
        assert len(told) >= 2
        assert {report.percentage for report in b.reports} == {None}
        assert b.events == []
        b.reports.clear()
        b.pod(file=b'{"progressPercentage":10}')
        b.show(ready_too=("dataset-initializer", "model-initializer"))
        await asyncio.sleep(30)
    assert [(report.percentage, report.status.metrics) for report in b.reports] == [(10, None)]


@jumping
async def test_an_initializer_that_writes_no_file_is_no_news() -> None:
    """Kubeflow Trainer's, for one."""
    b = Bench()
    b.loading = ("model-initializer",)
    b.cluster.pods["job/model-initializer"] = PretendPod("job", container="model-initializer", file=None)
    async with b.running():
        b.show(ready_too=("model-initializer",), replicated="other")
        await asyncio.sleep(2000)
    assert (b.reports, b.events) == ([], [])


@jumping
async def test_the_last_report_is_the_trainings_whatever_initializers_told() -> None:
    b = Bench()
    b.loading = ("model-initializer",)
    loads = PretendPod("job", container="model-initializer", file=b'{"metrics":{"model_bytes":"8"}}')
    b.cluster.pods["job/model-initializer"] = loads
    async with b.running():
        b.show(ready_too=("model-initializer",), replicated="other")
        await asyncio.sleep(10)
        b.reports.clear()
        b.pod(message='{"progressPercentage":40,"state":"failed"}', running=False)
        b.show(ready_too=("model-initializer",), condition="Failed", ended=b.now)
        await asyncio.sleep(30)
    assert [(report.percentage, report.status.metrics) for report in b.reports] == [(40, None)]
    assert b.events == [("job", "the training reports that it has failed")]
