# SPDX-License-Identifier: Apache-2.0
"""The order of ends where no program could be watched, and how it reaches the reader of a pod."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.local.node.pods import container, pod
from trainwright.controller.local.node.ends import Ends
from trainwright.controller.local.node.state import EPOCH, ContainerState, PodState, Terminated, Waiting
from trainwright.controller.local.node.status import FAILURES, annotations_to_report, status_document

NOW = datetime(2026, 11, 22, 12, 0, 0, 123456, UTC)


async def test_a_program_that_ended_before_it_could_be_watched_has_the_time_of_its_guard() -> None:
    ends = Ends()
    late, early = ends.watch(0), ends.watch(0)
    late.report(NOW + timedelta(seconds=1))
    early.report(NOW)
    assert await early.at() == NOW
    assert await late.at() == NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        (timedelta(milliseconds=3), timedelta(milliseconds=3)),
        (timedelta(0), timedelta(microseconds=1)),
        (timedelta(milliseconds=-30), timedelta(microseconds=1)),  # its guard was faster
        (timedelta(hours=-2), timedelta(hours=-2)),  # the clock was set back
    ],
)
async def test_times_ascend_in_the_order_of_the_ends(second: timedelta, wanted: timedelta) -> None:
    ends = Ends()
    one, two = ends.watch(0), ends.watch(0)
    for end in (one, two):
        ends.put(end)
    two.report(NOW + second)
    one.report(NOW)
    assert await one.at() == NOW
    assert await two.at() == NOW + wanted


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
