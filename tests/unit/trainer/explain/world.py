# SPDX-License-Identifier: Apache-2.0
"""A small cluster as objects: a TrainJob `j` with everything that controllers make of it, for faults to be put into.

`World(pods=4)` is a job whose pods all run. Methods change it the way a fault does, `says()` explains it.
"""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import builders
from trainwright.api.base import Resource
from trainwright.api.times import format_time
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.trainer.why import Explanation, GivenObjects, explain
from trainwright.plugins.contract import Explains
from trainwright.plugins.coscheduling import CoSchedulingPlugin
from trainwright.plugins.volcano import VolcanoPlugin

Document = dict[str, Any]

NOW = datetime(2026, 11, 22, 14, 0, tzinfo=UTC)
PLUGINS: tuple[Explains, ...] = (CoSchedulingPlugin(), VolcanoPlugin())
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"


def at(seconds: float) -> str:
    """The time so many seconds before now."""
    return format_time(NOW - timedelta(seconds=seconds))


def condition(kind: str, reason: str, message: str = "", status: str = "True", ago: float = 120) -> Document:
    return builders.condition(kind, status, reason, message, at=at(ago))


class World:
    """The objects of one cluster around TrainJob n/j."""

    def __init__(self, *, pods: int = 4, jobset: bool = True, steps: tuple[str, ...] = ()) -> None:
        self.objects: list[Document] = []
        self.logs: dict[str, list[str]] = {}
        self.unreadable: tuple[str, ...] = ()
        self.unserved: tuple[str, ...] = ("kueue.x-k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io")
        self.job = self.add(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            "j",
            spec={"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": pods, "image": "train:v9"}},
        )
        self.runtime = self.add(
            "trainer.kubeflow.org/v1alpha1",
            "ClusterTrainingRuntime",
            "torch",
            namespace="",
            spec={"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [{"name": "node"}]}}},
        )
        self.pods: list[Document] = []
        if jobset:
            self._make(pods, steps)

    # ------------------------------------------------------------------ objects

    def add(
        self,
        version: str,
        kind: str,
        name: str,
        *,
        namespace: str = "n",
        labels: dict[str, str] | None = None,
        owner: Document | None = None,
        ago: float = 300,
        **fields: Any,
    ) -> Document:
        """Put an object into the cluster; returns it, to be changed."""
        group, _, short = version.rpartition("/")
        resource = Resource(group=group, version=short, kind=kind, plural="", namespaced=bool(namespace))
        created = {"creationTimestamp": at(ago)}
        obj = build(
            resource, name, namespace, uid=f"{kind}/{name}", labels=labels, owner=owner, metadata=created, **fields
        )
        self.objects.append(obj)
        return obj

    def _make(self, pods: int, steps: tuple[str, ...]) -> None:
        names = [*steps, "node"]
        replicated = []
        for name in names:
            step = "trainer" if name == "node" else name
            count = pods if name == "node" else 1
            one: Document = {
                "name": name,
                "replicas": 1,
                "template": {"metadata": {"labels": {STEP: step}}, "spec": {"parallelism": count}},
            }
            if name == "node" and steps:
                one["dependsOn"] = [{"name": step, "status": "Complete"} for step in steps]
            replicated.append(one)
        self.jobset = self.add(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "j",
            owner=self.job,
            ago=290,
            spec={"replicatedJobs": replicated},
            status={"restarts": 0, "replicatedJobsStatus": [{"name": name, "ready": 0} for name in names]},
        )
        self.add("v1", "ConfigMap", "j-runtime-snapshot", owner=self.job)
        self.add("v1", "Service", "j", owner=self.jobset, spec={"clusterIP": "None", "selector": {JOBSET_NAME: "j"}})
        self.add_node("big", {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8"}, {"pool": "gpu"})
        if steps:
            for name in steps:
                self.add_job(name, 1)
        else:
            self.add_job("node", pods)

    def add_job(self, name: str, pods: int) -> Document:
        """A Job of a step, with running pods."""
        step = "trainer" if name == "node" else name
        labels = {JOBSET_NAME: "j", "jobset.sigs.k8s.io/replicatedjob-name": name, STEP: step}
        job = self.add(
            "batch/v1",
            "Job",
            f"j-{name}-0",
            owner=self.jobset,
            labels=labels,
            ago=280,
            spec={"parallelism": pods, "backoffLimit": 6, "template": {"spec": pod_spec()}},
            status={"active": pods},
        )
        for index in range(pods):
            self.add_pod(job, name, index)
        return job

    def add_pod(self, job: Document, name: str, index: int, *, attempt: int = 0, ago: float = 270) -> Document:
        """A running pod."""
        labels = builders.labels_of_pod(index, role=name, attempt=attempt, jobset_uid="")
        pod = self.add(
            "v1",
            "Pod",
            f"j-{name}-0-{index}-abcde",
            owner=job,
            labels=labels,
            ago=ago,
            spec={**pod_spec(), "nodeName": "big"},
            status={
                "phase": "Running",
                "startTime": at(ago - 5),
                "conditions": [condition("PodScheduled", "", ago=ago - 5), condition("Ready", "", ago=ago - 20)],
                "containerStatuses": [container("node", builders.running(at(ago - 10)))],
            },
        )
        self.pods.append(pod)
        return pod

    def add_node(
        self, name: str, allocatable: dict[str, str], labels: dict[str, str] | None = None, *taints: Document
    ) -> Document:
        return self.add(
            "v1",
            "Node",
            name,
            namespace="",
            labels=labels,
            spec={"taints": list(taints)},
            status={"allocatable": allocatable, "conditions": [condition("Ready", "KubeletReady")]},
        )

    def event(self, about: Document, reason: str, message: str, *, ago: float = 60, kind: str = "Warning") -> Document:
        """An event about the object."""
        metadata = about["metadata"]
        return self.add(
            "v1",
            "Event",
            f"{metadata['name']}.{reason}.{ago}",
            involvedObject={"kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]},
            reason=reason,
            message=message,
            type=kind,
            firstTimestamp=at(ago),
            lastTimestamp=at(ago),
        )

    # ------------------------------------------------------------------ faults

    def blocked(self, reason: str, message: str) -> None:
        """The manager shows why it cannot make the objects."""
        self.job.setdefault("status", {}).setdefault("conditions", []).append(condition("Blocked", reason, message))

    def ended(self, kind: str, reason: str, message: str = "") -> None:
        """The job is over."""
        self.job.setdefault("status", {}).setdefault("conditions", []).append(condition(kind, reason, message))

    def workload(self, *conditions: Document, **fields: Any) -> Document:
        """Kueue's object for the job, which is suspended."""
        self.unserved = tuple(group for group in self.unserved if group != "kueue.x-k8s.io")
        self.job["spec"]["suspend"] = True
        self.job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
        self.add("kueue.x-k8s.io/v1beta1", "ClusterQueue", "c", namespace="", spec={"stopPolicy": "None"})
        self.add("kueue.x-k8s.io/v1beta1", "LocalQueue", "q", spec={"clusterQueue": "c"})
        status = {"conditions": list(conditions), **fields}
        spec = {"queueName": "q"}
        return self.add("kueue.x-k8s.io/v1beta1", "Workload", "trainjob-j", owner=self.job, spec=spec, status=status)

    def without_pods(self) -> None:
        """The pods do not exist."""
        self.objects = [obj for obj in self.objects if obj["kind"] != "Pod"]
        self.pods = []
        for obj in self.objects:
            if obj["kind"] == "Job":
                obj["status"] = {"active": 0}

    def unschedulable(self, message: str, *indices: int, ago: float = 200) -> None:
        """The scheduler finds no node for these pods, or for all."""
        for pod in self._some(indices):
            pod["spec"].pop("nodeName")
            reason = condition("PodScheduled", "Unschedulable", message, "False", ago)
            pod["status"] = {"phase": "Pending", "conditions": [reason]}

    def waiting(self, reason: str, message: str = "", *indices: int, restarts: int = 0, **state: Any) -> None:
        """The containers of these pods, or of all, wait."""
        for pod in self._some(indices):
            told = {"reason": reason} | ({"message": message} if message else {})
            pod["status"] |= {
                "phase": "Running" if restarts else "Pending",
                "conditions": [condition("PodScheduled", "", ago=200), condition("Ready", "", status="False")],
                "containerStatuses": [container("node", {"waiting": told}, restarts, **state)],
            }

    def terminated(self, index: int, code: int, *, ago: float = 100, reason: str = "Error", **more: Any) -> Document:
        """A pod that ended."""
        pod = self.pods[index]
        state = {"exitCode": code, "reason": reason, "finishedAt": at(ago), **more}
        pod["status"] |= {
            "phase": "Failed",
            "conditions": [condition("PodScheduled", ""), condition("Ready", "PodFailed", status="False")],
            "containerStatuses": [container("node", {"terminated": state})],
        }
        return pod

    def _some(self, indices: tuple[int, ...]) -> list[Document]:
        return [pod for number, pod in enumerate(self.pods) if not indices or number in indices]

    # ------------------------------------------------------------------ the explanation

    def explained(self) -> Explanation:
        """The explanation of the job; the objects are not changed by it."""
        before = deepcopy(self.objects)
        source = GivenObjects(self.objects, unreadable=self.unreadable, unserved=self.unserved, logs=self.logs)
        picture = source.picture(self.job, NOW)
        found = explain(picture, PLUGINS)
        assert not picture.wanted
        assert self.objects == before
        for cause in (found.cause, *found.others):
            assert len(cause.message) <= 300, cause.message
            assert "  " not in cause.message, cause.message
            assert "None" not in cause.message, cause.message
        return found

    def says(self) -> str:
        """The reason and the sentence."""
        found = self.explained().cause
        return f"{found.reason}: {found.message}"


def container(name: str, state: Document, restarts: int = 0, **more: Any) -> Document:
    """The status of one container; `last` is its last state."""
    last = more.pop("last", None)
    return {"name": name, "state": state, "restartCount": restarts} | ({"lastState": last} if last else {}) | more


def pod_spec(**fields: Any) -> Document:
    resources = {"limits": {"nvidia.com/gpu": "8", "memory": "16Gi"}}
    return {
        "containers": [{"name": "node", "image": "train:v9", "command": ["torchrun"], "resources": resources}],
        **fields,
    }
