# SPDX-License-Identifier: Apache-2.0
"""Stop, resume, delete and run again: what the page may, what it is refused, and what becomes of the job."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.dashboards import Browser, Got, dashboard
from tests.integration.local.dashboard.world import World
from trainwright.api.kubernetes.core.v1 import Namespace
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.local.cluster import RunningServer
from trainwright.controller.runtime import Client
from trainwright.controller.views.actions import copy_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def world(server: RunningServer) -> AsyncIterator[World]:
    """As that of the other tests, but for requests that change something."""
    client = Client(server.transport())
    space = await client.create({"metadata": {"generateName": "test-"}}, kind=Namespace.RESOURCE)
    yield World(server, space["metadata"]["name"])
    await client.close()


async def do(browser: Browser, world: World, action: str, job: dict[str, Any], **headers: str) -> Got:
    metadata = job["metadata"]
    path = world.path(metadata["name"], "actions", action)
    return await browser.act(f"{path}?uid={metadata['uid']}", **headers)


async def test_what_it_does(world: World) -> None:
    made = await world.create("bert")
    async with dashboard(world.transport, world.space, changes=True) as (browser, _):
        got = await browser.get(world.path("bert", "actions"))
        assert got.as_(contract.Actions) == contract.Actions(allowed=["stop", "resume", "delete", "again"])
        done = (await do(browser, world, "stop", made)).as_(contract.ActionDone)
        assert done.message == "TrainJob bert is being stopped"
        job = await world.client.get(TrainJob.RESOURCE, "bert", world.space)
        assert job["spec"]["suspend"] is True
        done = (await do(browser, world, "stop", made)).as_(contract.ActionDone)
        assert done.message == "TrainJob bert is stopped already"

        done = (await do(browser, world, "again", made)).as_(contract.ActionDone)
        assert done.name.startswith("bert-")
        assert done.message == f"TrainJob {done.name} runs the spec of bert"
        copy = await world.client.get(TrainJob.RESOURCE, done.name, world.space)
        assert not copy["spec"].get("suspend")
        assert copy["spec"]["trainer"] == job["spec"]["trainer"]

        assert (await do(browser, world, "resume", made)).status == 200
        job = await world.client.get(TrainJob.RESOURCE, "bert", world.space)
        assert job["spec"]["suspend"] is False

        await world.report("bert", condition="Complete")
        ended = await do(browser, world, "resume", made)
        assert (ended.status, ended.problem.message) == (
            409,
            "TrainJob bert has ended: Complete; run it again instead",
        )
        assert (await do(browser, world, "delete", made)).status == 200
        # Nothing here collects garbage, which is what ends it.
        job = await world.client.get(TrainJob.RESOURCE, "bert", world.space)
        assert job["metadata"]["deletionTimestamp"]
        # Another job of the same name is not what the user has seen.
        await world.create("other")
        gone = {"metadata": {"name": "other", "uid": made["metadata"]["uid"]}}
        assert (await do(browser, world, "delete", gone)).status == 409
        never = {"metadata": {"name": "never", "uid": "u"}}
        assert (await do(browser, world, "delete", never)).problem.message == "TrainJob never was deleted"


async def test_it_is_off_unless_it_is_asked_for(world: World) -> None:
    made = await world.create("bert")
    async with dashboard(world.transport, world.space) as (browser, _):
        actions = (await browser.get(world.path("bert", "actions"))).as_(contract.Actions)
        assert actions.allowed == []
        got = await do(browser, world, "delete", made)
        assert (got.status, got.problem.reason) == (403, "Forbidden")
    assert await world.client.get(TrainJob.RESOURCE, "bert", world.space)


async def test_only_the_page_itself_may_ask(world: World) -> None:
    made = await world.create("bert")
    async with dashboard(world.transport, world.space, changes=True) as (browser, _):
        for wrong in (
            {"Origin": ""},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"X_Trainwright_Action": ""},
            {"X_Trainwright_Action": "x" * 43},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {"Host": "evil.example"},
        ):
            assert (await do(browser, world, "delete", made, **wrong)).status == 403, wrong
        path = world.path("bert", "actions", "delete")
        assert (await browser.get(f"{path}?uid=x")).status in (404, 405)  # a link changes nothing
        assert (await browser.act(world.path("bert", "actions", "explode") + "?uid=x")).status == 404
        assert (await browser.act(path)).status == 400
        async with Browser(browser.server) as stranger:
            stranger.place = browser.place
            got = await stranger.get(f"{path}?uid=x", method="POST", Origin=browser.root)
            assert got.problem.reason == "NoToken"
    assert await world.client.get(TrainJob.RESOURCE, "bert", world.space)


async def test_rights_that_cannot_be_asked_for_give_no_actions(world: World) -> None:
    await world.create("bert")
    world.transport.forbidden = {"selfsubjectaccessreviews"}
    async with dashboard(world.transport, world.space, changes=True) as (browser, _):
        actions = (await browser.get(world.path("bert", "actions"))).as_(contract.Actions)
        assert actions.allowed == []


async def test_a_copy_has_the_spec_and_nothing_of_the_life_of_the_first() -> None:
    job: dict[str, Any] = {
        "metadata": {
            "name": "x" * 60,
            "namespace": "team",
            "uid": "u",
            "labels": {"team": "a"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "kept"},
        },
        "spec": {"suspend": True, "runtimeRef": {"name": "torch"}},
        "status": {"conditions": []},
    }
    made = copy_of(job)
    assert made["spec"] == {"runtimeRef": {"name": "torch"}}
    assert made["metadata"] == {
        "generateName": "x" * 55 + "-",
        "namespace": "team",
        "labels": {"team": "a"},
        "annotations": {"mine": "kept"},
    }
    job["metadata"] |= {"name": "run-abcde", "generateName": "run-"}
    assert copy_of(job)["metadata"]["generateName"] == "run-"
