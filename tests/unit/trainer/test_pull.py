# SPDX-License-Identifier: Apache-2.0
"""Reading progress in the pods of many jobs, and what holds up no other job; timelines/pull.yaml has the rest."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import pod
from tests.timelines.commands import answer
from tests.virtual_trainer import SPACE, VirtualTrainer
from trainwright.api.config.v1alpha1 import Progress, ProgressPull
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.runtime import Forbidden
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.trainer.assembly import progress as parts
from trainwright.controller.trainer.progress import files
from trainwright.controller.trainer.progress.reading import file_target_of, find_pod

MANY = 60
NODES = 10
MARKS = {"trainwright.dev/progress": "file"}


class Crowd:
    """Jobs that ask to be read, each with a pod whose file has the number of the job, and the commands that ran."""

    def __init__(self, trainer: VirtualTrainer) -> None:
        self.trainer, self.hangs, self.refused = trainer, set[str](), set[str]()
        self.times: dict[str, list[float]] = {}
        self.running: Counter[str] = Counter()
        self.most, self.most_on = 0, 0
        self._answer = trainer.cluster.world.server.handle
        trainer.cluster.world.server.handle = self._handle  # type: ignore[method-assign]
        trainer.start(
            feature_gates={"ProgressPull": True}, progress=Progress(pull=ProgressPull(interval="10s", exec=True))
        )

    def add(self, *names: str) -> None:
        """Jobs whose pods run from now on."""
        for number, name in enumerate(names):
            self.times[name] = []
            self.trainer.job(name, annotations=MARKS)
            self.trainer.stored.wait("jobset", name, namespace=SPACE)
            made = pod(job=name, namespace=SPACE, uid="", nodeName=f"node-{number % NODES}")
            self.trainer.stored.create({key: value for key, value in made.items() if key != "status"})
            status = {"status": made["status"]}
            self.trainer.stored.patch("pod", made["metadata"]["name"], status, SPACE, subresource="status")
        for name in names:
            self.trainer.counted(active=1, ready=1, name=name)

    def told(self) -> set[str]:
        jobs = self.trainer.stored.list("trainjob", SPACE)
        return {one["metadata"]["name"] for one in jobs if (one.get("status") or {}).get("trainerStatus")}

    async def _handle(self, request: ServerRequest) -> ServerResponse:
        if not request.path.endswith("/exec"):
            return await self._answer(request)
        name = request.path.split("/")[-2].removesuffix("-node-0-0")
        node = f"node-{list(self.times).index(name) % NODES}"
        self.times[name].append(self.trainer.cluster.seconds)
        self.running[node] += 1
        self.most, self.most_on = max(self.most, self.running.total()), max(self.most_on, self.running[node])
        try:
            if name not in self.refused:
                await (asyncio.Event().wait() if name in self.hangs else asyncio.sleep(2))
        finally:
            self.running[node] -= 1
        how = {"command": {"refused": 403, "reason": "Forbidden"}} if name in self.refused else {}
        return answer({"file": '{"progressPercentage": 10}', **how}, request.all("command"))


@pytest.fixture
def crowd(trainer: VirtualTrainer) -> Crowd:
    return Crowd(trainer)


def test_many_jobs_are_read_at_a_bounded_rate_although_a_node_hangs(crowd: Crowd) -> None:
    names = [f"job-{number}" for number in range(MANY)]
    crowd.hangs = set(names[::NODES])
    crowd.add(*names)
    begin = crowd.trainer.cluster.seconds
    crowd.trainer.advance(120)
    times = sorted(at for some in crowd.times.values() for at in some)
    assert all(later - earlier > 0.099 for earlier, later in pairwise(times))  # so no second has more than ten
    assert crowd.most <= files.AT_ONCE
    assert crowd.most_on <= files.ON_A_NODE
    healthy = [some for name, some in crowd.times.items() if name not in crowd.hangs]
    assert all(some[0] < begin + 60 for some in healthy)
    assert all(later - earlier < 40 for some in healthy for earlier, later in pairwise(some))
    assert crowd.told() == set(names) - crowd.hangs


def test_a_refusal_stops_all_reading_for_five_minutes_and_is_told_once(
    crowd: Crowd, caplog: pytest.LogCaptureFixture
) -> None:
    crowd.refused = {"a", "b", "c"}
    with caplog.at_level(logging.ERROR):
        crowd.add("a", "b", "c")
        crowd.trainer.advance(1000)
        times = sorted(at for some in crowd.times.values() for at in some)
        assert len(times) == 4  # one each five minutes
        assert all(later - earlier >= 300 for earlier, later in pairwise(times))
        crowd.refused = set()
        crowd.trainer.advance(300)
    assert crowd.told() == {"a", "b", "c"}
    (record,) = caplog.records
    assert "get and create on pods/exec" in record.getMessage()


def late(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], Any]) -> None:
    """Let the search for the target of a job first do what `change` does for its name."""

    async def target_of(pipeline: Any, snapshots: Any, facts: Any, job: TrainJob) -> Any:
        if (found := change(job.name)) is not None:
            await found
        return await file_target_of(pipeline, snapshots, facts, job)

    monkeypatch.setattr(parts, "file_target_of", target_of)


@pytest.mark.parametrize(("error", "said"), [(ZeroDivisionError("bug"), "bug"), (Unreachable("away"), "")])
def test_a_target_that_is_not_known_is_asked_for_again_and_costs_no_other_job_its_progress(
    error: Exception,
    said: str,
    trainer: VirtualTrainer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = {"a"}

    async def fails() -> None:
        raise error

    late(monkeypatch, lambda name: fails() if name in broken else None)
    crowd = Crowd(trainer)
    crowd.add("a", "b")
    trainer.advance(20)
    assert crowd.told() == {"b"}
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(errors) is bool(said)
    assert all(said in text for text in errors)
    broken.clear()
    trainer.advance(20)
    assert crowd.told() == {"a", "b"}


def test_a_target_that_does_not_come_holds_up_no_other(
    trainer: VirtualTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = {"a", "b"}
    late(monkeypatch, lambda name: asyncio.Event().wait() if name in hung else None)
    crowd = Crowd(trainer)
    crowd.add("a", "b", "c")
    trainer.advance(20)
    assert crowd.told() == {"c"}
    hung.clear()
    trainer.advance(files.ANSWER_SECONDS + files.RESOLVE_SECONDS + 20)
    assert crowd.told() == {"a", "b", "c"}


def test_a_list_of_pods_that_does_not_end_frees_its_place(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = {f"h{number}" for number in range(files.AT_ONCE)}

    async def slow(client: Any, job: Any, target: Any) -> Any:
        if job.name in hung:
            await asyncio.Event().wait()
        return await find_pod(client, job, target)

    monkeypatch.setattr(files, "find_pod", slow)
    crowd.add(*sorted(hung))
    crowd.trainer.advance(20)  # now all places are taken
    crowd.add("job")
    crowd.trainer.advance(files.ANSWER_SECONDS + 30)
    assert crowd.told() == {"job"}


def test_pods_that_may_not_be_listed_are_asked_for_again_after_five_minutes(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    async def refused(*_: Any) -> Any:
        asked.append(crowd.trainer.cluster.seconds)
        raise Forbidden("no", code=403, reason="Forbidden")

    with monkeypatch.context() as changed:
        changed.setattr(files, "find_pod", refused)
        crowd.add("a")
        crowd.trainer.advance(250)
    assert len(asked) == 1
    crowd.trainer.advance(100)
    assert crowd.told() == {"a"}


def test_a_pod_that_is_gone_at_the_end_has_left_no_report(crowd: Crowd, caplog: pytest.LogCaptureFixture) -> None:
    crowd.add("a")
    crowd.trainer.advance(5)
    cluster = crowd.trainer.cluster
    cluster.call(cluster.world.admin.delete(Pod, "a-node-0-0", SPACE, grace_period=0))
    crowd.trainer.ended("Failed", "a")
    crowd.trainer.advance(60)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
