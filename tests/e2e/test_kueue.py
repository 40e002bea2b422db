# SPDX-License-Identifier: Apache-2.0
"""Kueue's own manager queues, admits, preempts and resumes our TrainJobs.

Kubernetes' controllers, scheduler and JobSet are the real ones. Nodes pretend: their pods run until the test lets them
end.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import kueue
from tests.e2e.conftest import NOWHERE, Trainer, conditions_of
from tests.installation import forbidden, install, kustomized
from tests.managers import MANAGER
from tests.pages import blocks_of
from tests.pretending import pods_run_on
from tests.repository import ROOT
from trainwright.api.times import format_time, wall_clock
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.waiting import eventually_sync
from trainwright.plugins.testing import replicated_job, runtime_document

Json = dict[str, Any]
SECONDS = 90.0
PROGRAM = str(Path(sys.executable).parent / "trainwright")
POOL = {"pool": "gpu"}
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
ATTEMPT, INDEX = "jobset.sigs.k8s.io/restart-attempt", "batch.kubernetes.io/job-completion-index"
INITIALIZER = "dataset-initializer"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
RECOVERS: Json = {"featureGates": {"Recovery": True, "Explain": True, "OptimizationJob": True, "ProgressPull": True}}
_TWO_CPUS = {"name": INITIALIZER, "image": "none", "resources": {"requests": {"cpu": "2"}}}
RECOVERY = {"trainwright.dev/recovery": "gang"}

pytestmark = [
    pytest.mark.real_control_plane("Kueue"),
    pytest.mark.only_where(not (reason := kueue.why_not()), reason),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """The whole chain with Kueue, on one node of the pool, whose pods run until they are told to end."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True, kwok_nodes=1, audit=True) as plane:
        pods_run_on(plane)
        plane.stored.patch("nodes", "pretend-0", {"metadata": {"labels": POOL}})
        plane.install_crds(ROOT / "config" / "crd")
        kueue.install(plane)
        installation = install(plane)
        settings = plane.folder / "recovers.yaml"
        settings.write_text(yaml.safe_dump({**installation.configuration, **RECOVERS}))
        roles = subprocess.run([PROGRAM, "rbac", f"--config={settings}"], capture_output=True, text=True, check=True)
        plane.apply(*yaml.safe_load_all(roles.stdout))
        installation.start(**RECOVERS)
        plane.apply(*kustomized(plane, "runtimes"))
        kueue.start(plane, waitForPodsReady={"timeout": "30s", "requeuingStrategy": {"backoffLimitCount": 0}})
        yield plane
        plane.stop_program(MANAGER)
        assert forbidden(plane) == []


class Queue(Trainer):
    """A namespace with a queue of its own; quota is counted in processors."""

    patience = SECONDS

    def __init__(self, cluster: ControlPlane, cpus: int, **cluster_queue: Any) -> None:
        super().__init__(cluster, cluster.create_namespace())
        flavor_name = f"flavor-{self.namespace}"
        flavor = {"name": flavor_name, "resources": [{"name": "cpu", "nominalQuota": cpus}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        self._make("ResourceFlavor", flavor_name, {"nodeLabels": POOL})
        self._make(
            "ClusterQueue", self.namespace, {"namespaceSelector": selector, "resourceGroups": groups, **cluster_queue}
        )
        self._make("LocalQueue", "queue", {"clusterQueue": self.namespace}, namespace=self.namespace)

    def _make(self, kind: str, name: str, spec: Json, **metadata: Any) -> None:
        document = {"apiVersion": kueue.API_VERSION, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
        self.cluster.stored.create(document)

    def priority(self, name: str, value: int) -> str:
        """A class of priorities of Kueue's; returns its name."""
        name = f"{name}-{self.namespace}"
        metadata = {"apiVersion": kueue.API_VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        self.cluster.stored.create({**metadata, "value": value})
        return name

    def queued(
        self,
        name: str,
        cpus: int,
        *,
        queue: str = "queue",
        priority: str = "",
        runtime: str = "plain",
        kind: str = "TrainingRuntime",
        annotations: Json | None = None,
        **spec: Any,
    ) -> str:
        """Create a TrainJob that asks for so many processors in all, on two nodes; returns its name."""
        labels = {QUEUE: queue, **({PRIORITY: priority} if priority else {})}
        trainer = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": f"{cpus * 500}m"}}}
        body = {"runtimeRef": {"kind": kind, "name": runtime}, "trainer": trainer, **spec}
        self.create("TrainJob", name, body, annotations, labels)
        return name

    def pods_of(self, name: str) -> list[Json]:
        """The pods of a TrainJob that are not on their way out."""
        return [pod for pod in self.pods() if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name]

    def runs(self, name: str, pods: int = 2) -> None:
        """Wait until the pods of a TrainJob run, on nodes of the pool and of no other."""

        def phases() -> list[tuple[str, Json]]:
            return [(pod["status"]["phase"], pod["spec"].get("nodeSelector", {})) for pod in self.pods_of(name)]

        eventually_sync(phases, lambda found: found == [("Running", POOL)] * pods, seconds=SECONDS, what=f"{name} runs")

    def waits(self, name: str) -> None:
        """Wait until a TrainJob and its JobSet are suspended, and no pod is left."""

        def suspended() -> list[Any]:
            jobset = self.get("jobset", name) or {"spec": {}}
            return [self.spec(name).get("suspend"), jobset["spec"].get("suspend", True), len(self.pods_of(name))]

        eventually_sync(suspended, lambda found: found == [True, True, 0], seconds=SECONDS, what=f"{name} waits")

    def spec(self, name: str) -> Json:
        found: Json = (self.get("trainjob", name) or {"spec": {}})["spec"]
        return found

    def patch_of_kueue(self, name: str) -> Json:
        """What Kueue wants of the JobSet."""
        patches = [one for one in self.spec(name)["runtimePatches"] if one["manager"] == "kueue.x-k8s.io/manager"]
        assert len(patches) == 1
        found: Json = patches[0]["trainingRuntimeSpec"]["template"]["spec"]
        return found

    def end(self, name: str, role: str = "node") -> None:
        """Let the pods of one replicated job succeed, and wait until the TrainJob is complete."""
        for pod in self.pods_of(name):
            if pod["metadata"]["labels"][ROLE] == role:
                self.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
        done = ("True", "AllJobsCompleted")
        eventually_sync(lambda: self.conditions(name).get("Complete"), lambda found: found == done, seconds=SECONDS)

    def becomes(self, name: str, rank: str, phase: str) -> None:
        """Let one rank end, and wait until its pod is replaced, or counted."""
        (pod,) = (one for one in self.pods_of(name) if one["metadata"]["labels"][INDEX] == rank)
        self.patch("pods", pod["metadata"]["name"], {"status": {"phase": phase}}, subresource="status")
        if phase == "Failed":
            uid = pod["metadata"]["uid"]
            eventually_sync(
                lambda: [one["metadata"]["uid"] for one in self.pods_of(name)],
                lambda left: uid not in left,
                seconds=SECONDS,
            )

    def running(self, name: str, role: str = "node") -> int:
        """How many pods of a replicated job run."""
        pods = [pod for pod in self.pods_of(name) if pod["metadata"]["labels"][ROLE] == role]
        return sum(pod["status"]["phase"] == "Running" for pod in pods)

    def workload(self, name: str) -> dict[str, tuple[str, str]]:
        """The conditions of the Workload of a TrainJob."""
        return conditions_of(self.workload_of(name))

    def workload_of(self, name: str) -> Json:
        """The Workload of a TrainJob; an empty one if there is none yet."""
        for one in self.cluster.stored.list("workloads", self.namespace):
            if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences", ())):
                return one
        return {}

    @contextmanager
    def conditions_seen(self, name: str) -> Iterator[set[str]]:
        """The types of the conditions that a TrainJob has had, complete at the end of the block."""
        seen: set[str] = set()
        types = "{.status.conditions[*].type} "
        whose = [f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.namespace}"]
        what = ["get", "trainjob", name, "--watch", f"--output=jsonpath={types}"]
        watch = [str(self.cluster.kubectl_path), *whose, *what]
        with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield seen
            finally:
                process.terminate()
                seen.update(process.communicate()[0].split())


def test_a_job_waits_for_quota_and_runs_where_kueue_says(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=4)
    queue.runtime("plain")
    queue.queued("first", 3)
    queue.runs("first")
    queue.queued("second", 2)
    queue.waits("second")
    queue.told("second", "queue queue", "1 more cpu must become free")
    queue.end("first")
    eventually_sync(lambda: queue.workload("first").get("Finished"), bool, seconds=SECONDS)
    queue.runs("second")
    queue.end("second")


def test_the_page_for_admins_is_right(cluster: ControlPlane) -> None:
    page = {block.title: block.text for block in blocks_of(ROOT / "docs" / "admins" / "kueue.md") if block.title}
    documents = [*yaml.safe_load_all(page["queues.yaml"]), yaml.safe_load(page["queued.yaml"])]
    queue = Queue(cluster, cpus=0)
    for document in documents:
        if "namespace" in document["metadata"] or document["kind"] == "TrainJob":
            document["metadata"]["namespace"] = queue.namespace
        cluster.stored.create(document)
    queue.runs("queued")
    assert queue.workload("queued")["Admitted"][0] == "True"


def test_trials_of_a_search_wait_for_quota_and_none_fails(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=2)
    queue.runtime("plain")
    spec = {
        "objectives": [{"metric": "loss"}],
        "parameters": [{"name": "lr", "searchSpace": {"categorical": {"choices": ["0.1", "0.2", "0.3"]}}}],
        "searchAlgorithm": {"grid": {}},
        "numTrials": 3,
        "parallelTrials": 2,
        "trainJobTemplate": {
            "metadata": {"labels": {QUEUE: "queue"}},
            "spec": {
                "runtimeRef": {"kind": "TrainingRuntime", "name": "plain"},
                "trainer": {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "1"}}},
            },
        },
    }
    queue.create("OptimizationJob", "search", spec)
    left = {f"search-{number}" for number in (1, 2, 3)}
    while left:
        # Two are made in one second, so either can be the first in the queue.
        name = eventually_sync(lambda: next((one for one in sorted(left) if queue.pods_of(one)), ""), seconds=SECONDS)
        queue.runs(name)
        left.remove(name)
        for other in sorted(left):
            if queue.get("trainjob", other) is not None:
                queue.waits(other)
        report = {"lastUpdatedTime": format_time(wall_clock()), "progressPercentage": 100}
        metrics = [{"name": "loss", "value": name[-1]}]
        status = {"trainerStatus": {**report, "metrics": metrics}}
        queue.patch("trainjob", name, {"status": status}, subresource="status")
        queue.end(name)

    def ended() -> Any:
        return conditions_of(queue.get("optimizationjob", "search") or {}).get("Complete")

    eventually_sync(ended, lambda found: found == ("True", "MaxTrialsReached"), seconds=SECONDS)
    search = queue.get("optimizationjob", "search")
    assert search is not None
    assert search["status"]["result"]["trainJobName"] == "search-1"
    assert conditions_of(search)["TrialsFailed"][0] == "False"


def test_what_can_never_be_admitted_is_said(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=4)
    queue.runtime("plain")
    queue.queued("large", 5)
    queue.queued("lost", 1, queue="absent")
    queue.told("large", "at most 4")
    queue.told("lost", "LocalQueue absent does not exist")
    # Without a queue, a job is nothing to Kueue.
    queue.job("free", "plain")
    eventually_sync(lambda: queue.pods_of("free"), bool, seconds=SECONDS)


@pytest.mark.parametrize("annotations", [{}, RECOVERY], ids=["plain", "recovering"])
def test_a_job_gives_way_and_resumes(cluster: ControlPlane, annotations: Json) -> None:
    queue = Queue(cluster, cpus=4, preemption={"withinClusterQueue": "LowerPriority"})
    queue.runtime("plain")
    low, high = queue.priority("low", 1), queue.priority("high", 10)
    queue.queued("patient", 3, priority=low, annotations=annotations)
    queue.runs("patient")
    assert queue.patch_of_kueue("patient")["replicatedJobs"]
    queue.queued("urgent", 3, priority=high)
    queue.waits("patient")
    queue.told("patient", "preempted by a job of higher priority")
    eventually_sync(lambda: queue.patch_of_kueue("patient").get("replicatedJobs"), lambda left: not left)
    queue.runs("urgent")
    queue.end("urgent")
    queue.runs("patient")
    # Nobody's fault: no retry was spent.
    record = queue.get("configmap", "patient-failures")
    assert record is None or not any('"charged"' in text for text in record["data"].values())
    queue.end("patient")


def test_a_gang_of_which_a_rank_has_ended_resumes_whole(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=4, preemption={"withinClusterQueue": "LowerPriority"})
    queue.runtime("plain")
    low, high = queue.priority("low", 1), queue.priority("high", 10)
    queue.queued("gang", 3, priority=low, annotations=RECOVERY)
    queue.runs("gang")
    queue.becomes("gang", "1", "Succeeded")
    queue.queued("urgent", 3, priority=high)
    queue.waits("gang")
    queue.runs("urgent")
    queue.end("urgent")
    queue.runs("gang")
    queue.end("gang")


def test_quota_of_an_initializer_is_free_once_and_the_job_can_still_be_evicted(cluster: ControlPlane) -> None:
    """JobSet runs initializers again when a gang restarts, without quota; the preemption does not wait for that."""
    queue = Queue(cluster, cpus=4, preemption={"withinClusterQueue": "LowerPriority"})
    before = replicated_job(INITIALIZER, pod={"containers": [_TWO_CPUS]}, step=INITIALIZER)
    node = {**replicated_job(), "dependsOn": [{"name": INITIALIZER, "status": "Complete"}]}
    queue.create("TrainingRuntime", "staged", runtime_document("staged", before, node)["spec"])
    queue.runtime("plain")
    low, high = queue.priority("low", 1), queue.priority("high", 10)
    queue.queued("staged", 2, runtime="staged", priority=low, annotations=RECOVERY)
    eventually_sync(lambda: queue.running("staged", INITIALIZER), bool, seconds=SECONDS)
    queue.queued("small", 2, priority=low)
    queue.waits("small")
    queue.becomes("staged", "0", "Succeeded")
    queue.runs("small")
    eventually_sync(lambda: queue.running("staged"), lambda found: found == 2, seconds=SECONDS)
    queue.becomes("staged", "1", "Failed")
    eventually_sync(lambda: queue.running("staged", INITIALIZER), bool, seconds=SECONDS)
    queue.queued("urgent", 4, priority=high)
    queue.waits("staged")
    queue.runs("urgent")


def test_a_job_that_waited_and_is_resumed_is_not_stuck(cluster: ControlPlane) -> None:
    """Its Job has had no pod for a minute, which is long for a Job that runs."""
    queue = Queue(cluster, cpus=4)
    queue.runtime("plain")
    queue.queued("first", 3)
    queue.runs("first")
    queue.queued("second", 2)
    with queue.conditions_seen("second") as seen:
        queue.waits("second")
        made = datetime.fromisoformat((queue.get("trainjob", "second") or {})["metadata"]["creationTimestamp"])
        eventually_sync(lambda: datetime.now(UTC) - made, lambda age: age > timedelta(seconds=65), seconds=SECONDS)
        queue.end("first")
        queue.runs("second")
        queue.end("second")
    assert "Waiting" in seen
    assert "Stuck" not in seen


def test_a_rank_that_fails_while_its_job_is_evicted_costs_nothing(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=4)
    queue.runtime("plain")
    queue.queued("evicted", 3, annotations=RECOVERY)
    queue.runs("evicted")
    (rank, _) = (pod["metadata"]["name"] for pod in queue.pods_of("evicted"))
    workload = queue.workload_of("evicted")["metadata"]["name"]
    queue.patch("workloads", workload, {"spec": {"active": False}})
    eventually_sync(lambda: queue.spec("evicted")["suspend"], bool, seconds=SECONDS)
    with suppress(ControlPlaneError):  # it may be gone already
        queue.patch("pods", rank, {"status": {"phase": "Failed"}}, subresource="status")
    queue.waits("evicted")
    queue.patch("workloads", workload, {"spec": {"active": True}})
    queue.runs("evicted")
    told = eventually_sync(
        lambda: queue.get("configmap", "evicted-failures"), lambda found: found is not None, seconds=SECONDS
    )
    record = "".join((told or {})["data"].values())
    assert "Suspended" in record
    assert "Infrastructure" not in record
    queue.end("evicted")


def test_pauses_between_attempts_cost_no_place(cluster: ControlPlane) -> None:
    """The second failure is followed by a pause, and Kueue deactivates jobs here whose pods are not ready for 30 s."""
    queue = Queue(cluster, cpus=4)
    queue.runtime("plain")
    queue.queued("failing", 3, annotations=RECOVERY)
    with queue.conditions_seen("failing") as seen:
        for number in range(3):
            queue.runs("failing")
            attempts = {pod["metadata"]["labels"][ATTEMPT] for pod in queue.pods_of("failing")}
            assert attempts == {str(number)}
            queue.becomes("failing", "0", "Failed")
            # Also in the pause: Kueue has resumed the job, and recovery holds it.
            assert "Stuck" not in queue.explain("failing")
        queue.runs("failing")
        assert queue.workload("failing").get("Evicted", ("False",))[0] == "False"
        queue.end("failing")
    assert "Stuck" not in seen


def test_mpi_has_quota_for_launcher_and_nodes(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=4)
    queue.queued("ranks", 4, runtime="deepspeed-distributed", kind="ClusterTrainingRuntime")
    queue.runs("ranks")
    patched = [one["name"] for one in queue.patch_of_kueue("ranks")["replicatedJobs"]]
    assert sorted(patched) == ["launcher", "node"]
    queue.end("ranks", "launcher")


def test_shipped_runtimes_are_admitted(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=100)
    jobs = []
    for runtime in cluster.stored.list("clustertrainingruntimes"):
        steps = {one["name"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
        name = runtime["metadata"]["name"]
        spec: Json = {"runtimeRef": {"name": name}}
        if "dataset-initializer" in steps:
            spec["initializer"] = {"dataset": {"storageUri": "hf://a/b"}, "model": {"storageUri": "hf://c/d"}}
        jobs.append(queue.queued(name.replace(".", "-"), 1, **spec))
    assert len(jobs) > 5
    resumed: set[str] = set()

    def left() -> set[str]:
        # Later, those whose initializers do not end lose their place again.
        for one in cluster.stored.list("jobsets", queue.namespace):
            if not one["spec"].get("suspend") and _pooled(one["spec"]):
                resumed.add(one["metadata"]["name"])
        return {*jobs} - resumed

    # Kueue wants to change spec.trainer of a job of Flux when it resumes it, which Kubeflow Trainer refuses, too.
    eventually_sync(left, lambda names: names == {"flux-distributed"}, seconds=SECONDS)
    log = (cluster.folder / f"{kueue.PROGRAM}.log").read_text()
    assert 'TrainJob.trainer.kubeflow.org \\"flux-distributed\\" is invalid: spec.trainer' in log


def _pooled(jobset: Json) -> bool:
    """Whether all pods that ask for processors go to nodes of the pool; to the others, Kueue gives no flavor."""
    pods = [job["template"]["spec"]["template"]["spec"] for job in jobset["replicatedJobs"]]
    asking = [
        pod for pod in pods if any("cpu" in one.get("resources", {}).get("requests", {}) for one in pod["containers"])
    ]
    return bool(asking) and all(POOL.items() <= pod.get("nodeSelector", {}).items() for pod in asking)


def test_pods_that_are_never_ready_cost_the_place(cluster: ControlPlane) -> None:
    queue = Queue(cluster, cpus=4)
    queue.runtime("nowhere", **NOWHERE)
    queue.queued("unready", 1, runtime="nowhere")
    queue.told("unready", "is deactivated", "spec.active")
    queue.waits("unready")
