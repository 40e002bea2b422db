# SPDX-License-Identifier: Apache-2.0
"""`make soak SOAK_ARGS=kueue_beside`: our manager and Kubeflow Trainer's beside Kueue, in one run.

Each has a control plane of its own, with Kueue, the real controllers and pods that pretend. They take turns, so that
what else the machine does concerns both: lives of jobs in a queue (the writes are counted in the audit log),
preemptions, and a burst of jobs that Kueue admits one after the other (`blockAdmission`). Prints figures and ratios.
Exit code 1 if a job does not get as far as it should, not for a slow run.
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests import kueue
from tests.builders import train_job
from tests.managers import MANAGER, start_manager
from tests.pretending import pods_run_on
from tests.repository import ROOT
from tests.soak._kueue_build import DEFINITIONS, ORIGINAL, WEBHOOKS, built
from trainwright.api.objects import wire
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.component import answers
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.programs import Authority, webhooks_by_url
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually_sync
from trainwright.plugins.testing import replicated_job, runtime_document

SECONDS = 180.0
SETTLE_SECONDS = 4.0
"""How long writes may still follow what they are about: counters wait for company for 1.7 s."""
BURST, BURSTS = 20, 3
"""Jobs of a burst, and bursts."""
_POOL = {"pool": "gpu"}
_UNCOUNTED = frozenset({"leases", "events"})
"""Of elections and for people; the managers differ in what they say."""

Document = dict[str, Any]


class Side:
    """One manager on its control plane."""

    def __init__(self, name: str, agent: str, plane: ControlPlane) -> None:
        self.name, self.plane, self._agent = name, plane, agent
        self.freed: list[float] = []
        """Seconds from the creation of a job of high priority until the quota of the other one was free."""
        self.runs: list[float] = []
        """The same until its pods ran."""
        self.bursts: list[float] = []
        """Seconds until the pods of all jobs of a burst ran."""
        self.writes: dict[str, list[Counter[str]]] = {}
        """What the manager wrote, by what happened."""

    def namespace(self, cpus: int) -> str:
        """A namespace with a runtime, and with a queue for so many processors."""
        space = self.plane.create_namespace()
        flavors = [{"name": "pool", "resources": [{"name": "cpu", "nominalQuota": cpus}]}]
        queue = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        self._make("ClusterQueue", space, queue)
        self._make("LocalQueue", "queue", {"clusterQueue": space}, namespace=space)
        self.plane.stored.create(runtime_document("plain", replicated_job(), namespace=space))
        return space

    def prepare(self) -> None:
        """What all namespaces share."""
        self._make("ResourceFlavor", "pool", {"nodeLabels": _POOL})
        for name, value in (("low", 1), ("high", 10)):
            document = {"apiVersion": kueue.API_VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
            self.plane.stored.create({**document, "value": value})

    def _make(self, kind: str, name: str, spec: Document, **metadata: Any) -> None:
        document = {"apiVersion": kueue.API_VERSION, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
        self.plane.stored.create(document)

    def job(self, space: str, name: str, cpus: int, priority: str = "low") -> None:
        """Create a job of two nodes."""
        labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/priority-class": priority}
        each = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": f"{cpus * 500}m"}}}
        reference = {"kind": "TrainingRuntime", "name": "plain"}
        made = train_job(name, space, uid="", labels=labels, runtimeRef=reference, trainer=each)
        self.plane.stored.create(wire(made))

    def pods(self, space: str, name: str = "") -> list[Document]:
        """Pods that run, of one job or of all."""
        pods = [pod for pod in self.plane.stored.list("pods", space) if pod["status"]["phase"] == "Running"]
        return [pod for pod in pods if name in ("", pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"])]

    def wait_for_pods(self, space: str, name: str = "", count: int = 2) -> None:
        eventually_sync(lambda: len(self.pods(space, name)), lambda found: found == count, seconds=SECONDS)

    def end(self, space: str, name: str) -> None:
        """Let the pods of a job succeed, and wait until Kueue says that it has finished."""
        for pod in self.pods(space, name):
            patch = {"status": {"phase": "Succeeded"}}
            self.plane.stored.patch("pods", pod["metadata"]["name"], patch, space, subresource="status")
        eventually_sync(lambda: self._workload(space, name).get("Finished") == "True", seconds=SECONDS)

    def _workload(self, space: str, name: str) -> dict[str, str]:
        for one in self.plane.stored.list("workloads", space):
            if one["metadata"]["ownerReferences"][0]["name"] == name:
                return {each["type"]: each["status"] for each in one.get("status", {}).get("conditions", ())}
        return {}

    @contextmanager
    def counted(self, space: str, what: str) -> Iterator[None]:
        """Count what the manager writes in a namespace in the block and shortly after it."""
        before = self._written(space)
        yield
        time.sleep(SETTLE_SECONDS)
        self.writes.setdefault(what, []).append(self._written(space) - before)

    def _written(self, space: str) -> Counter[str]:
        calls = [call for call in self.plane.audit_log.calls(user_agent=self._agent) if call.is_write]
        return Counter(
            f"{call.resource}{f'/{call.subresource}' if call.subresource else ''}"
            + (f" ({call.code})" if call.code >= 400 else "")
            for call in calls
            if call.namespace == space and call.resource not in _UNCOUNTED
        )

    def live(self, number: int) -> None:
        """A job that is admitted at once, and one that waits first."""
        space, name = self.namespace(4), f"life-{number}"
        with self.counted(space, "admitted at once, ends"):
            self.job(space, name, 2)
            self.wait_for_pods(space, name)
            self.end(space, name)
        self.plane.stored.patch("clusterqueues", space, {"spec": {"stopPolicy": "Hold"}})
        with self.counted(space, "waits, is admitted, ends"):
            self.job(space, f"{name}-waits", 2)
            eventually_sync(lambda: self.plane.stored.get("jobset", f"{name}-waits", space), seconds=SECONDS)
            self.plane.stored.patch("clusterqueues", space, {"spec": {"stopPolicy": "None"}})
            self.wait_for_pods(space, f"{name}-waits")
            self.end(space, f"{name}-waits")

    def preempt(self, number: int) -> None:
        """A job that makes place for another one."""
        space = self.namespace(4)
        self.job(space, f"patient-{number}", 3)
        self.wait_for_pods(space, f"patient-{number}")
        time.sleep(SETTLE_SECONDS)
        with self.counted(space, "preemption, both jobs"):
            began = time.monotonic()
            self.job(space, f"urgent-{number}", 3, "high")
            eventually_sync(
                lambda: self._workload(space, f"patient-{number}").get("QuotaReserved") == "False", seconds=SECONDS
            )
            self.freed.append(time.monotonic() - began)
            self.wait_for_pods(space, f"urgent-{number}")
            self.runs.append(time.monotonic() - began)
        self.plane.stored.delete("namespace", space, wait=False)

    def block(self) -> None:
        """A burst of jobs that all have place, each admitted when the pods of those before are ready."""
        space = self.namespace(2 * BURST)
        began = time.monotonic()
        for number in range(BURST):
            self.job(space, f"burst-{number}", 2)
        self.wait_for_pods(space, count=2 * BURST)
        self.bursts.append(time.monotonic() - began)
        self.plane.stored.delete("namespace", space, wait=False)


@contextmanager
def side(name: str, agent: str, definitions: Path, start: Callable[[ControlPlane], None]) -> Iterator[Side]:
    """A control plane with Kueue and a manager."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True, kwok_nodes=1, audit=True) as plane:
        pods_run_on(plane)
        plane.stored.patch("nodes", "pretend-0", {"metadata": {"labels": _POOL}})
        plane.install_crds(definitions)
        kueue.install(plane)
        start(plane)
        kueue.start(plane)
        made = Side(name, agent, plane)
        made.prepare()
        yield made


def start_ours(plane: ControlPlane) -> None:
    """As it is configured when it is installed, with its webhooks."""
    start_manager(plane, webhooks=True)


def start_original(folder: Path, plane: ControlPlane) -> None:
    """With the configuration of its manifests but for addresses, certificates and the election, which ours lacks."""
    files = plane.folder / ORIGINAL
    files.mkdir()
    authority = Authority(files / "k8s-webhook-server")  # where it looks, below TMPDIR
    authority.server("serving-certs")
    port, health = free_port(), f"127.0.0.1:{free_port()}"
    configuration = files / "configuration.json"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
                "kind": "Configuration",
                "health": {"healthProbeBindAddress": health},
                "metrics": {"bindAddress": "0"},
                "webhook": {"port": port, "host": "127.0.0.1"},
                "leaderElection": {"leaderElect": False},
                "controller": {"groupKindConcurrency": {"TrainJob.trainer.kubeflow.org": 5}},
                "certManagement": {"enable": False},
                "clientConnection": {"qps": 50, "burst": 100},
            }
        )
    )
    plane.apply(*webhooks_by_url(folder / WEBHOOKS / "manifests.yaml", "original", port=port, authority=authority.pem))
    environment = ["env", f"TMPDIR={files}", f"KUBECONFIG={plane.kubeconfig}"]
    command = [*environment, str(folder / ORIGINAL), f"--config={configuration}"]
    plane.launch(ORIGINAL, command, ready=lambda: answers(f"http://{health}/readyz"))


def compare(rounds: int) -> None:
    """Measure and print."""
    folder = built()
    original = side(ORIGINAL, ORIGINAL, folder / DEFINITIONS, partial(start_original, folder))
    with ExitStack() as stack:
        sides = [
            stack.enter_context(one) for one in (side(MANAGER, MANAGER, ROOT / "config" / "crd", start_ours), original)
        ]
        for number in range(rounds):
            for one in sides:
                one.live(number)
            for one in reversed(sides) if number % 2 else sides:
                one.preempt(number)
            print(f"round {number + 1}: " + ", ".join(f"{one.name} {one.freed[-1]:.2f} s" for one in sides), flush=True)
        for one in sides:
            one.plane.stop_program(kueue.PROGRAM)
            kueue.start(one.plane, waitForPodsReady={"timeout": "5m", "blockAdmission": True})
        for number in range(BURSTS):
            for one in reversed(sides) if number % 2 else sides:
                one.block()
        show(*sides)


def show(ours: Side, original: Side) -> None:
    """Print the figures side by side."""
    print(f"\n{'':44} {ours.name:>12} {original.name:>28} ratio")
    rows = [
        ("preemption: quota is free, median, s", statistics.median(ours.freed), statistics.median(original.freed)),
        ("preemption: other pods run, median, s", statistics.median(ours.runs), statistics.median(original.runs)),
        (
            f"{BURST} jobs under blockAdmission, median, s",
            statistics.median(ours.bursts),
            statistics.median(original.bursts),
        ),
    ]
    for what, found in ours.writes.items():
        both = (found, original.writes[what])
        mine, its = (statistics.mean(one.total() for one in counts) for counts in both)
        rows.append((f"writes: {what}", mine, its))
    for label, mine, its in rows:
        print(f"{label:44} {mine:12.2f} {its:28.2f} {mine / its:5.2f}")
    for one in (ours, original):
        for what, counts in one.writes.items():
            mean = {name: number / len(counts) for name, number in sorted(sum(counts, Counter[str]()).items())}
            print(f"{one.name}: {what}: " + ", ".join(f"{number:.1f} {name}" for name, number in mean.items()))


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of lives and preemptions (default: 5)")
    arguments = parser.parse_args()
    try:
        provide([kueue.PROGRAM])
        compare(arguments.rounds)
    except (ControlPlaneError, GaveUp) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
