# SPDX-License-Identifier: Apache-2.0
"""Reading progress in the pods of many jobs, beside reports, and what goes wrong; pull.yaml has the rest."""

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
from trainwright.controller.trainer.progress.reading import find_pod
from trainwright.controller.trainer.progress.report import InvalidReport, ReportSource

PATH = "/var/run/trainwright/progress.json"
TAIL = ("tail", "-c", "65537", PATH)


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
async def test_a_job_that_is_deleted_or_says_none_is_not_read_and_one_that_runs_a_byte_too_far() -> None:
    b = Bench()
    b.pod("none")
    b.show("none", marks={P: "none"})
    b.pod("deleted")
    b.show("deleted", deleted=True)
    pod = b.pod()
    b.show()
    async with b.running():
        await asyncio.sleep(6)
    assert pod.commands == [TAIL]
    assert not any(one.times for one in b.cluster.pods.values() if one is not pod)
    assert b.targets_asked == 1
