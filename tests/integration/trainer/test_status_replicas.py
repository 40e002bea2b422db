# SPDX-License-Identifier: Apache-2.0
"""Reports to managers of a test's own: their stop, several replicas, other settings."""

from pathlib import Path

from tests.builders import train_job
from tests.integration.trainer.reporting import ACCOUNT, SPACE, running
from tests.reports import audience, path_of, progress
from trainwright.api.kubernetes.core.v1 import Namespace, ServiceAccount
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.testing.waiting import eventually


async def test_a_graceful_stop_writes_what_is_left(tmp_path: Path) -> None:
    async with running(tmp_path, progress={"interval": "300s"}) as world:
        names = [f"job-{number}" for number in range(30)]
        for name in names:
            await world.job(name)
            token = await world.token(name)
            for percentage in range(1, 7):
                assert (await world.report(name, progress(percentage), token=token)).code == 200
        assert {await world.percentage(name) for name in names} != {6}
        world.managers[0].stop()
        for name in names:
            await world.settled(name, 6)


async def test_two_replicas_that_take_turns_never_go_back(tmp_path: Path) -> None:
    async with running(tmp_path, replicas=2, progress={"interval": "2s"}) as world:
        await world.job("a")
        token, seen = await world.token("a"), [0]
        for number in range(1, 31):
            time = f"2026-05-06T07:{number:02}:00Z"
            assert (await world.report("a", progress(number, time=time), replica=number % 2, token=token)).code == 200
            seen.append(await world.percentage("a") or 0)
        await eventually(lambda: world.percentage("a"), lambda shown: shown is not None and shown >= 29)
        seen.append(await world.percentage("a") or 0)
        assert seen == sorted(seen)


async def test_only_reports_with_a_pod_are_taken_if_that_is_wanted(tmp_path: Path) -> None:
    async with running(tmp_path, progress={"push": {"requirePod": True}}) as world:
        await world.job("a")
        assert (await world.report("a", progress(1))).code == 403


async def test_a_manager_of_one_namespace_takes_no_reports_of_jobs_elsewhere(tmp_path: Path) -> None:
    """Scenario 79 of progress."""
    async with running(tmp_path, namespace=SPACE) as world:
        await world.client.create({"metadata": {"name": "team"}}, kind=Namespace.RESOURCE)
        await world.client.create({"metadata": {"name": ACCOUNT, "namespace": "team"}}, kind=ServiceAccount.RESOURCE)
        elsewhere = wire(train_job(world.own("a"), "team", uid=""))
        await world.client.create(elsewhere, kind=TrainJob.RESOURCE)
        await world.job("a")
        assert (await world.report("a", progress(1))).code == 200
        token = await world.token("a", to=audience("team", world.own("a")), space="team")
        reply = await world.report("a", progress(2), token=token, path=path_of("team", world.own("a")))
        assert (reply.code, reply.message) == (404, "Train job not found")
        await world.settled("a", 1)
        found = await world.client.get(TrainJob, world.own("a"), "team")
        assert found.status is None or found.status.trainer_status is None
