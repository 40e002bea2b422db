# SPDX-License-Identifier: Apache-2.0
"""The installation of `make deploy` as an admin uses it, and the image that `make build-image` has made."""

import json
import subprocess
import tarfile
import threading
import time
from collections import Counter
from typing import Any

import pytest

from hack.node import images
from hack.node.cluster import NODE, NodeCluster
from tests.installation import NAME, NAMESPACE
from tests.node.conftest import RESTRICTED, Containers, managers
from trainwright.controller.runtime.testing import ControlPlaneError
from trainwright.controller.runtime.testing.component import has_condition
from trainwright.controller.runtime.testing.waiting import eventually_sync

PROBE = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "probe", "namespace": "default"},
    "spec": {"runtimeRef": {"name": "xgboost-distributed"}, "trainer": {"command": ["true"]}},
}


def test_the_image_says_who_it_is() -> None:
    with tarfile.open(images.ours()) as archive:

        def read(name: str) -> Any:
            file = archive.extractfile(name)
            assert file is not None
            return json.load(file)

        (manifest,) = read("manifest.json")
        config = read(manifest["Config"])["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/opt/trainwright/bin/trainwright"]


def test_the_image_holds_what_the_lock_says_and_no_more(node: NodeCluster) -> None:
    pod = managers(node)[0]["metadata"]["name"]
    inside = ["exec", f"--namespace={NAMESPACE}", pod, "--", "/opt/trainwright/bin/python", "-I", "-c"]
    listing = "import importlib.metadata as m; print(*sorted(d.metadata['Name'].lower() for d in m.distributions()))"
    names = set(node.kubectl(*inside, listing).split())
    assert {"aiohttp", "trainwright", "uvloop"} <= names
    assert not names & {"pip", "setuptools", "pytest", "ruff", "mypy"}


def test_a_rollout_refuses_no_request(node: NodeCluster) -> None:
    answers: Counter[str] = Counter()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                node.stored.create(PROBE, dry_run=True)
                answers["admitted"] += 1
            except ControlPlaneError as error:
                answers[str(error)] += 1
            time.sleep(0.1)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        node.kubectl("rollout", "restart", f"deployment/{NAME}", f"--namespace={NAMESPACE}")
        node.kubectl("rollout", "status", f"deployment/{NAME}", f"--namespace={NAMESPACE}", "--timeout=180s")
    finally:
        stop.set()
        asking.join()
    assert set(answers) == {"admitted"}
    assert answers["admitted"] > 10


def test_process_1_ends_within_its_grace(node: NodeCluster) -> None:
    """Also when the signal comes early. A process that ignores it is killed after 40 s, and ends with code 137."""
    victim = managers(node)[0]["metadata"]["name"]
    code = "{.status.containerStatuses[*].state.terminated.exitCode}"
    watch = subprocess.Popen(
        [
            *(str(node.kubectl_path), f"--kubeconfig={node.folder}/admin.kubeconfig", f"--namespace={NAMESPACE}"),
            *("get", "pod", victim, "--watch", f'--output=jsonpath={code}{{"\\n"}}'),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None
    watch.stdout.readline()  # of a pod that runs: from here on the watch misses nothing
    node.kubectl("delete", "pod", victim, f"--namespace={NAMESPACE}")
    ended = next((line for line in watch.stdout if line.strip()), "")
    watch.terminate()
    rest, _ = watch.communicate()
    assert {*ended.split(), *rest.split()} == {"0"}
    ready = eventually_sync(
        lambda: [pod for pod in managers(node) if has_condition(pod, "Ready")], lambda pods: len(pods) == 2, seconds=120
    )
    assert len(ready) == 2


def test_a_drain_waits_for_one_replica_at_a_time(node: NodeCluster) -> None:
    try:
        with pytest.raises(ControlPlaneError, match="disruption budget"):
            node.kubectl(
                *("drain", NODE, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=30s"),
                "--pod-selector=app.kubernetes.io/name=trainer",
            )
    finally:
        node.kubectl("uncordon", NODE)


def test_the_managers_run_where_restricted_pods_are_admitted_only(node: NodeCluster) -> None:
    namespace = node.stored.get("namespace", NAMESPACE)
    assert namespace is not None
    assert namespace["metadata"]["labels"][RESTRICTED] == "restricted"
    assert len(managers(node)) == 2
    with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
        node.kubectl("run", "root", f"--namespace={NAMESPACE}", "--image=python:3.13-slim", "--dry-run=server")


def test_doctor_finds_nothing_wrong(containers: Containers) -> None:
    def healthy(told: str) -> bool:
        return "problem" not in told.lower() or "no problem" in told.lower()

    # Another test may have ended the leader: until the Lease runs out, no manager works, and doctor says so.
    eventually_sync(lambda: containers.trainwright("doctor"), healthy, seconds=60)
