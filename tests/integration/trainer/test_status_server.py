# SPDX-License-Identifier: Apache-2.0
"""Reports of progress, over HTTPS with tokens of the API server; ours, in this process."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.builders import condition
from tests.integration.trainer.reporting import SPACE, World, running
from tests.reports import TIME, path_of, progress
from trainwright.controller.runtime.testing.settle import settle_manager
from trainwright.controller.runtime.testing.waiting import equals, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMPLETE = condition("Complete", at=TIME)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with running(tmp_path_factory.mktemp("world")) as found:
        yield found


@pytest.fixture
def world(shared: World) -> World:
    """One manager for all tests; each has TrainJobs of its own."""
    shared.tests += 1
    return shared


async def test_a_report_is_stored_and_a_later_one_replaces_it(world: World) -> None:
    await world.job("a")
    metrics = [{"name": "loss", "value": "0.25"}, {"name": "épreuve", "value": "NaN"}]
    body = progress(40, time="2026-05-06T09:08:09.123+02:00", estimatedRemainingSeconds=90, metrics=metrics)
    wanted = {**body["trainerStatus"], "lastUpdatedTime": TIME}
    reply = await world.report("a", body)
    assert (reply.code, reply.body) == (200, {"trainerStatus": wanted})
    await eventually(lambda: world.stored("a"), equals(wanted))
    await world.report("a", progress(41))
    await eventually(lambda: world.stored("a"), equals({"progressPercentage": 41, "lastUpdatedTime": TIME}))


async def test_the_field_manager_is_that_of_kubeflow_trainer_and_owns_the_progress_alone(world: World) -> None:
    await world.job("a")
    await world.report("a", progress(40))
    await world.settled("a", 40)
    found = await world.whole("a")
    (entry,) = [one for one in found["metadata"]["managedFields"] if one["manager"] == "trainer-status"]
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    assert list(entry["fieldsV1"]) == ["f:status"]
    assert list(entry["fieldsV1"]["f:status"]) == ["f:trainerStatus"]


async def test_a_hundred_percent_is_stored_before_the_answer(world: World) -> None:
    await world.job("a")
    for percentage in (10, 20, 30):
        await world.report("a", progress(percentage))
    # What is on its way has the three seconds of 100 % else.
    await world.settled("a", 30)
    await world.report("a", progress(99))
    assert (await world.report("a", progress(100))).code == 200
    assert await world.percentage("a") == 100


ANSWERS: list[tuple[str, str | dict[str, Any], dict[str, Any], int, str, str]] = [
    # what, body, options of `report`, code, reason, part of the message
    ("nothing", {}, {}, 200, "", ""),
    ("null", "null", {}, 200, "", ""),
    ("unknown keys", {"unknown": 1}, {}, 200, "", ""),
    ("no token", progress(1), {"token": None}, 403, "Forbidden", "Forbidden"),
    ("no JWT", progress(1), {"token": "x"}, 403, "Forbidden", "Forbidden"),
    ("another path", progress(1), {"path": "/apis"}, 404, "NotFound", "Not found"),
    ("a slash more", progress(1), {"path": path_of(SPACE, "a-0") + "/"}, 404, "NotFound", "Not found"),
    ("GET", "", {"method": "GET"}, 404, "NotFound", "Not found"),
    ("PUT", progress(1), {"method": "PUT"}, 404, "NotFound", "Not found"),
    ("too large, with a bad token", "x" * 70_000, {"token": "x"}, 413, "RequestEntityTooLarge", "Payload too large"),
    ("no JSON", "{", {}, 422, "Invalid", "Invalid payload"),
    ("an empty body", "", {}, 422, "Invalid", "Invalid payload"),
    ("a number as text", {"trainerStatus": {"progressPercentage": "1"}}, {}, 422, "Invalid", "Invalid payload"),
    ("too much", progress(101), {}, 422, "Invalid", "in namespace default: status.trainerStatus.progressPercentage"),
    ("no time", {"trainerStatus": {"progressPercentage": 1}}, {}, 422, "Invalid", "lastUpdatedTime is needed"),
]


async def test_the_answers(world: World) -> None:
    await world.job("a")
    for what, body, options, code, reason, message in ANSWERS:
        reply = await world.report("a", body, **options)
        assert (reply.code, reply.reason) == (code, reason), what
        assert message in reply.message, what
        if code >= 400:
            shape = {"metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": reply.message}
            assert reply.body == shape, what
    assert await world.stored("a") == {}


async def test_a_token_is_good_for_its_own_trainjob_alone(world: World) -> None:
    await world.job("a")
    await world.job("b")
    reply = await world.report("a", progress(1), token=await world.token("b"))
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert (await world.report("a", progress(1), token=await world.token("a", to="elsewhere"))).code == 403
    assert await world.stored("a") == {}


async def test_an_unknown_trainjob(world: World) -> None:
    reply = await world.report("nobody", progress(1))
    assert (reply.code, reply.reason, reply.message) == (404, "NotFound", "Train job not found")
    assert (await world.report("nobody", {})).code == 200


async def test_a_trainjob_that_was_created_a_moment_ago(world: World) -> None:
    await world.job("young")
    assert (await world.report("young", progress(1))).code == 200
    await world.settled("young", 1)


async def test_a_trainjob_that_is_complete_keeps_its_hundred_percent(world: World) -> None:
    await world.job("a", conditions=[COMPLETE])
    await world.report("a", progress(60))
    await world.settled("a", 60)
    assert (await world.report("a", progress(100))).code == 200
    assert await world.percentage("a") == 100
    assert (await world.report("a", progress(40))).code == 200
    labels = {"source": "push", "result": "ignored"}
    assert world.managers[0].metrics.registry.get_sample_value("trainer_progress_reports_total", labels) == 1
    assert await world.percentage("a") == 100


async def test_what_the_manager_writes_and_what_is_reported_leave_each_other_alone(world: World) -> None:
    await world.job("a")
    await world.report("a", progress(60))
    await world.settled("a", 60)
    await world.set_status("a", conditions=[{**COMPLETE, "type": "Suspended"}])
    assert await world.percentage("a") == 60
    await world.report("a", progress(61))
    await world.settled("a", 61)
    found = await world.whole("a")
    assert [condition["type"] for condition in found["status"]["conditions"]] == ["Suspended"]


async def test_a_value_of_kubeflow_trainers_status_server_is_taken_over(world: World) -> None:
    await world.job("a")
    old = {**progress(30)["trainerStatus"], "metrics": [{"name": "loss", "value": "1"}], "estimatedRemainingSeconds": 9}
    await world.apply_status("a", {"trainerStatus": old}, field_manager="trainer-status")
    assert (await world.report("a", progress(31))).code == 200
    await eventually(lambda: world.stored("a"), equals(progress(31)["trainerStatus"]))


async def test_a_recreated_trainjob_does_not_get_values_of_its_namesake(world: World) -> None:
    await world.job("a")
    for percentage in range(1, 6):
        await world.report("a", progress(percentage))
    await world.delete("a")
    await world.job("a")

    async def told() -> int | None:
        """A report is for the deleted job, and lost with it, until the manager has heard of the new one."""
        assert (await world.report("a", progress(50))).code == 200
        return await world.percentage("a")

    await eventually(told, equals(50))


async def test_progress_starts_no_reconcile(world: World) -> None:
    manager = world.managers[0]

    async def reconciles() -> float:
        await settle_manager(manager)
        labels = {"controller": "trainjob_controller", "result": "success"}
        return manager.metrics.registry.get_sample_value("controller_runtime_reconcile_total", labels) or 0.0

    await world.job("a")
    before = await reconciles()
    for percentage in (1, 2):
        await world.report("a", progress(percentage))
        await world.settled("a", percentage)
    assert await reconciles() == before
    await world.set_status("a", conditions=[COMPLETE])
    assert await reconciles() == before + 1
