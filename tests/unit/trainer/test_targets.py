# SPDX-License-Identifier: Apache-2.0
"""Where the progress of a job is read: what job and runtime declare, which pod, and its termination message."""

from collections.abc import Iterable
from typing import Any, cast

import pytest

from tests import builders
from tests.builders import running
from tests.unit.plugins.blueprints import blueprint, job_template
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, listing
from trainwright.controller.trainer.build.kinds import CachedFacts
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.progress.reading import (
    FileTarget,
    FoundPod,
    TargetUnknown,
    file_target_of,
    find_pod,
)
from trainwright.plugins.contract import OFFLINE, ClusterFacts, PodRef, Reference
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, built_in
from trainwright.plugins.testing import train_job

P = "trainwright.dev/progress"
PIPELINE = Pipeline(Registry.load(candidates=built_in()))


class Surroundings:
    """Snapshots and facts of one runtime."""

    def __init__(self, runtime: Runtime | None) -> None:
        self.runtime = runtime
        self.asked = 0

    async def existing(self, job: TrainJob) -> Runtime | None:  # noqa: ARG002 - as of Snapshots
        self.asked += 1
        return self.runtime

    async def read(self, references: Iterable[Reference]) -> ClusterFacts:  # noqa: ARG002 - as of CachedFacts
        return OFFLINE

    async def target(self, **annotations: str) -> FileTarget | None:
        marks = {P + ("" if name == "way" else name.replace("_", "-")): value for name, value in annotations.items()}
        asked = train_job(metadata={"annotations": marks})
        return await file_target_of(PIPELINE, cast("Snapshots", self), cast("CachedFacts", self), asked)


async def test_a_job_that_asks() -> None:
    found = await Surroundings(blueprint({"numNodes": 2, "torch": {}})).target(way="file")
    assert found is not None
    assert (found.pod, found.container, found.file) == (PodRef("node"), "node", "/var/run/trainwright/progress.json")


async def test_a_runtime_that_asks_for_its_jobs() -> None:
    runtime: Any = blueprint({"numNodes": 1})
    runtime.metadata.annotations = {P: "file:/data/progress.jsonl"}
    around = Surroundings(runtime)
    found = await around.target()
    assert found is not None
    assert (found.container, found.file) == ("node", "/data/progress.jsonl")
    for way in ("push", "none"):
        assert await around.target(way=way) is None
    assert around.asked == 1  # the job alone says no


async def test_jobs_that_are_not_read() -> None:
    assert await Surroundings(blueprint({"numNodes": 1})).target() is None
    no_trainer = blueprint({"numNodes": 1}, job_template("helper", None))
    assert await Surroundings(no_trainer).target(way="file") is None


async def test_what_is_not_known_yet() -> None:
    with pytest.raises(TargetUnknown, match="no snapshot"):
        await Surroundings(None).target(way="file")
    targets = [{"jobName": "absent", "containerNames": ["node"]}]
    refused = blueprint({"numNodes": 1, "torch": {"envInjection": {"targets": targets}}})
    with pytest.raises(TargetUnknown, match="envInjection names"):
        await Surroundings(refused).target(way="file")


def pod(name: str, created: str, **fields: Any) -> dict[str, Any]:
    about = fields.pop("metadata", {})
    containers = [{"name": "side", "state": running()}, {"name": fields.pop("main", "node"), **fields}]
    return builders.pod(
        name=name, namespace="team", uid=f"uid-{name}", created=created, meta=about, containers=containers, nodeName="n"
    )


def failed(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "status": {**pod["status"], "phase": "Failed"}}


OLD, NEW = "2026-05-06T07:00:00Z", "2026-05-06T08:00:00Z"
ENDED = {"terminated": {"exitCode": 1, "message": "said"}}
PODS: dict[str, tuple[list[dict[str, Any]], FoundPod | None]] = {
    "none": ([], None),
    "one that runs": (
        [pod("a", OLD, state={"running": {"startedAt": OLD}})],
        FoundPod("a", "uid-a", "n", running=True, message=""),
    ),
    "the newest, beside one that failed": (
        [pod("b", NEW, state={"running": {}}), pod("a", OLD, state=ENDED)],
        FoundPod("b", "uid-b", "n", running=True, message=""),
    ),
    "the one that runs, also if the clock was set back": (
        [pod("b", OLD, state={"running": {}}), failed(pod("a", NEW, state=ENDED))],
        FoundPod("b", "uid-b", "n", running=True, message=""),
    ),
    "none that is being deleted": (
        [pod("a", OLD, state=ENDED), pod("b", NEW, state={"running": {}}, metadata={"deletionTimestamp": NEW})],
        FoundPod("a", "uid-a", "n", running=False, message="said"),
    ),
    "one that was restarted in place": (
        [pod("a", OLD, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ENDED)],
        FoundPod("a", "uid-a", "n", running=False, message="said"),
    ),
    "one without a message": (
        [pod("a", OLD, state={"terminated": {"exitCode": 0}})],
        FoundPod("a", "uid-a", "n", running=False, message=""),
    ),
    "one without the container": (
        [pod("a", OLD, main="other", state={"running": {}})],
        FoundPod("a", "uid-a", "n", running=False, message="", has_container=False),
    ),
}


@pytest.mark.parametrize(("listed", "expected"), PODS.values(), ids=list(PODS))
def test_which_pod(listed: list[dict[str, Any]], expected: FoundPod | None) -> None:
    @jumping
    async def run() -> None:
        transport = ScriptedTransport()
        transport.answer(lambda request: request.path == "/api/v1/namespaces/team/pods", listing("1", *listed))
        target = FileTarget("/data/progress.json", PodRef("node", 0, 3))
        assert await find_pod(Client(transport), train_job(), target) == expected
        selector = str(transport.requests[0].query["labelSelector"]).split(",")
        assert "jobset.sigs.k8s.io/jobset-name=job" in selector
        assert "batch.kubernetes.io/job-completion-index=3" in selector

    run()
