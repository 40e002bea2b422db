# SPDX-License-Identifier: Apache-2.0
"""Searches in virtual time: the manager with its operator; the test stands for the trainings.

search.start()
search.job(numTrials=4)
search.trains(lambda parameters: parameters["x"])   # each trial reports that as its loss, and ends
assert search.state == "Complete"
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.virtual_trainer import SPACE, VirtualTrainer
from trainwright.api.objects import Document
from trainwright.controller.optimization import question
from trainwright.controller.runtime.certificates.configurations import webhooks_by_url
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.trainer.admission.configurations import webhook_configurations

_WEBHOOKS = "https://trainwright.simulated"
GATES = {"OptimizationJob": True, "ProgressPull": True}
SETTLE_SECONDS = 5.0
"""Until all has been done that follows from a step, also where watches are late."""
Trains = Callable[[Mapping[str, str]], str | None]
"""The value that a trial with these parameters reports; None: it fails."""


def optimization_job(name: str = "s", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Document:
    """An OptimizationJob that minimizes `loss` over one number, `x`; `spec` by wire names."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "OptimizationJob",
        "metadata": {"name": name, "namespace": SPACE, "annotations": dict(annotations or {})},
        "spec": {
            "objectives": [{"metric": "loss"}],
            "parameters": [{"name": "x", "searchSpace": {"uniform": {"min": "0", "max": "1"}}}],
            "searchAlgorithm": {"random": {"seed": 1}},
            "trainJobTemplate": {"spec": {"runtimeRef": {"name": "r", "kind": "TrainingRuntime"}}},
            **spec,
        },
    }


class Search:
    """One OptimizationJob `s` in a cluster, and the trainings of its trials."""

    def __init__(self, cluster: VirtualCluster, patch: pytest.MonkeyPatch | None = None) -> None:
        self.cluster, self.stored, self._patch = cluster, cluster.stored, patch
        self.trainer = VirtualTrainer(cluster)
        self.advance = cluster.stored.advance
        self.most = 0
        """The most TrainJobs that were not over at the same time."""
        self.created = cluster.changes("trainjobs.trainer.kubeflow.org")

    def start(self, **gates: bool) -> None:
        """Run the manager."""
        self.trainer.start(feature_gates={**GATES, **gates})

    def without_sampler(self, why: str) -> None:
        """Let the process of the sampler fail: there are no processes in virtual time."""

        async def fail(*_: object) -> Document:
            raise question.NoAnswerError(why)

        assert self._patch is not None
        self._patch.setattr(question, "in_process", fail)

    def answer_with(self, parameters: Mapping[str, str]) -> None:
        """Let the process of the sampler answer with these parameters for each trial."""

        async def answer(asked: Document, *_: object) -> Document:
            return {"trials": [{"number": number, "parameters": dict(parameters)} for number in asked["numbers"]]}

        assert self._patch is not None
        self._patch.setattr(question, "in_process", answer)

    def admit(self) -> None:
        """Let the API server ask the webhooks of the manager."""
        self.cluster.world.serve_webhooks(_WEBHOOKS)
        self.stored.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}})
        for one in webhook_configurations():
            self.stored.create(webhooks_by_url(one, _WEBHOOKS, b"", {}))
        self.advance(5)

    def job(self, **fields: Any) -> None:
        """Create the OptimizationJob; see `optimization_job`."""
        self.stored.create(optimization_job(**fields))
        self.advance(SETTLE_SECONDS)

    def annotate(self, **annotations: str | None) -> None:
        """Set annotations of the search, or with None remove them."""
        named = {f"trainwright.io/{name}": value for name, value in annotations.items()}
        self.stored.patch("optimizationjob", "s", {"metadata": {"annotations": named}}, SPACE)
        self.advance(SETTLE_SECONDS)

    def running(self) -> dict[str, dict[str, str]]:
        """The parameters of the trials that are not over, by the names of their TrainJobs, in the order of numbers."""
        found = [one for one in self.trials() if not self.is_over(one) and not one["spec"].get("suspend")]
        self.most = max(self.most, len(found))
        return {one["metadata"]["name"]: self.parameters(one) for one in found}

    def trials(self) -> list[Document]:
        """The TrainJobs, in the order of their numbers."""
        return sorted(self.stored.list("trainjobs", SPACE), key=lambda one: int(one["metadata"]["name"].split("-")[1]))

    def parameters(self, train_job: Document) -> dict[str, str]:
        found: dict[str, str] = json.loads(train_job["metadata"]["annotations"]["trainwright.io/trial-parameters"])
        return found

    def is_over(self, train_job: Document) -> bool:
        conditions = train_job.get("status", {}).get("conditions") or ()
        return any(one["status"] == "True" and one["type"] in ("Complete", "Failed") for one in conditions)

    def ends(self, name: str, value: str | None, **more: str) -> None:
        """A trial reports its value at 100 %, if it has one, and ends; without one it fails."""
        if value is not None:
            self.trainer.report(100, name, loss=value, **more)
        self.trainer.ended("Completed" if value is not None else "Failed", name)
        self.advance(SETTLE_SECONDS)

    def trains(self, value: Trains, *, most: int = 200) -> None:
        """Let trials end, one after the other, until there is none, or so many have."""
        while most > 0 and (running := self.running()):
            name, parameters = next(iter(running.items()))
            self.ends(name, value(parameters))
            most -= 1

    @property
    def found(self) -> Document:
        job = self.stored.get("optimizationjob", "s", SPACE)
        assert job is not None
        return job

    @property
    def conditions(self) -> dict[str, tuple[str, str, str]]:
        """Status, reason and message, by type."""
        conditions = self.found.get("status", {}).get("conditions") or ()
        return {one["type"]: (one["status"], one["reason"], one["message"]) for one in conditions}

    @property
    def columns(self) -> list[str]:
        """Trials, running, failed, best."""
        types = ("TrialsEnded", "TrialsRunning", "TrialsFailed", "BestTrial")
        return [self.conditions[one][2] for one in types if one in self.conditions]

    @property
    def record(self) -> list[Document]:
        """What the record holds."""
        found = self.stored.get("configmap", "s-trials", SPACE)
        assert found is not None
        trials: list[Document] = json.loads(found["data"]["trials"])
        return trials

    @property
    def events(self) -> list[tuple[str, str]]:
        """Reason and message of each event about the search."""
        found = self.stored.list("events", SPACE)
        return [(one["reason"], one["message"]) for one in found if one["involvedObject"]["kind"] == "OptimizationJob"]


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch, virtual_cluster: VirtualCluster) -> Search:
    """A cluster with a runtime; `start` runs the manager, `job` creates an OptimizationJob."""
    return Search(virtual_cluster, monkeypatch)
