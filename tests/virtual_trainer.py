# SPDX-License-Identifier: Apache-2.0
"""Our manager in a cluster in virtual time, with one TrainJob; the test stands for JobSet and the pods.

Nothing but the manager acts on what is stored, so the test decides what it sees and when:

    trainer = VirtualTrainer(virtual_cluster)
    trainer.start()
    trainer.job(activeDeadlineSeconds=300)
    trainer.counted(active=1)
    trainer.advance(10)
    assert trainer.statuses == [...]
"""

from typing import Any

from tests.builders import condition, counts, progress, train_job
from tests.managers import in_virtual_time
from trainwright.api.objects import Document, wire
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.simulation.world import Replica
from trainwright.plugins.testing import runtime_document

SPACE = "default"
TRAIN_JOBS = "trainjobs.trainer.kubeflow.org"
JOB_SETS = "jobsets.jobset.x-k8s.io"
STATUS = f"/namespaces/{SPACE}/trainjobs/job/status"
"""What a path of a status ends with."""


class VirtualTrainer:
    """The manager, the runtime `r` with one replicated job `node`, and the TrainJob `job`."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.stored = cluster.stored
        self.advance = cluster.stored.advance
        self.replica: Replica
        self._changes = cluster.changes(TRAIN_JOBS)
        self._events = cluster.changes("events")
        self.jobsets = cluster.changes(JOB_SETS)
        self.stored.create(runtime_document("r", namespace=SPACE))

    def start(self, **configuration: Any) -> None:
        """Run the manager with these sections of its Configuration."""
        self.manager = in_virtual_time(self.cluster, **configuration)
        self.replica = self.cluster.world.replicas[-1]

    def job(self, name: str = "job", *, namespace: str = SPACE, **fields: Any) -> None:
        """Create a TrainJob; see `builders.train_job`."""
        reference = {"name": "r", "kind": "TrainingRuntime"}
        self.stored.create(wire(train_job(name, namespace, uid="", **{"runtimeRef": reference, **fields})))
        self.advance(0)

    def report(self, percentage: int, name: str = "job", **metrics: str) -> None:
        """A training stores its progress, as another replica or the status server does."""
        told = progress(at=self.cluster.now, metrics=metrics, progressPercentage=percentage)
        self.stored.patch("trainjob", name, {"status": {"trainerStatus": told}}, SPACE, subresource="status")

    def counted(self, *, active: int = 0, ready: int = 0, name: str = "job") -> None:
        """The JobSet controller writes a status with these counters."""
        self.jobset_status({"replicatedJobsStatus": [counts(active=active, ready=ready)]}, name)

    def ended(self, kind: str, name: str = "job") -> None:
        """The JobSet controller writes that the JobSet is over: Completed or Failed."""
        ended = [condition(kind)]
        self.jobset_status({"replicatedJobsStatus": [counts()], "conditions": ended}, name)

    def jobset_status(self, status: Document, name: str = "job") -> None:
        """The JobSet controller writes a status."""
        self.stored.patch("jobset", name, {"status": {"restarts": 0, **status}}, SPACE, subresource="status")

    def sample(self, name: str, **labels: str) -> float | None:
        """The value of a metric of the manager."""

        async def read() -> float | None:
            return self.manager.metrics.registry.get_sample_value(name, labels)

        return self.cluster.call(read())

    @property
    def found(self) -> Document:
        """The TrainJob."""
        job = self.stored.get("trainjob", "job", SPACE)
        assert job is not None
        return job

    @property
    def statuses(self) -> list[tuple[float, Document]]:
        """When each status of a TrainJob was written, on the clock of the cluster, and with what."""
        written: list[tuple[float, Document]] = []
        for change in self._changes:
            status = change.object.get("status") or {}
            if status != (written[-1][1] if written else {}):
                written.append((change.seconds, status))
        return written

    @property
    def conditions(self) -> list[tuple[float, list[tuple[str, str, str]]]]:
        """When the conditions changed, and what they were: type, status and reason."""
        seen: list[tuple[float, list[tuple[str, str, str]]]] = []
        for when, status in self.statuses:
            now = [(one["type"], one["status"], one["reason"]) for one in status.get("conditions") or ()]
            if now != (seen[-1][1] if seen else []):
                seen.append((when, now))
        return seen

    @property
    def counters(self) -> list[tuple[float, tuple[int, int]]]:
        """When the counters were written, active and ready."""
        seen: list[tuple[float, tuple[int, int]]] = []
        for when, status in self.statuses:
            for one in status.get("jobsStatus") or ():
                entry = (one["active"], one["ready"])
                if not seen or entry != seen[-1][1]:
                    seen.append((when, entry))
        return seen

    @property
    def events(self) -> list[tuple[float, str, str]]:
        """When each event was recorded, its reason and its message."""
        told = [one for one in self._events if one.type != "DELETED"]  # which the API server does after an hour
        return [(one.seconds, one.object["reason"], one.object["message"]) for one in told]
