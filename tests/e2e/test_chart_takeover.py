# SPDX-License-Identifier: Apache-2.0
"""From Kubeflow Trainer's chart to ours and back, in mid-job, with the commands of docs/admins/upgrade.md."""

import asyncio
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from tests.e2e import kubeflow_chart
from tests.e2e.chart_admin import UPGRADE, Admin, commands
from tests.e2e.conftest import NOWHERE, Trainer
from tests.e2e.test_takeover import Original, Recorded, recorded
from tests.installation import CONFIG, NAME, NAMESPACE, Document, Installation, forbidden
from tests.managers import MANAGER
from tests.repository import ROOT
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually_sync

pytestmark = pytest.mark.parity

RELEASE = "kubeflow-trainer"
CASES = (
    "001-plain-minimal",
    "022-torch-four-nodes",
    "085-mpi-three-nodes",
    "126-jax-three-nodes",
    "149-cosched-basic",
    "182-init-both",
)
"""One of each kind: nodes that find each other, keys, a gang, jobs that wait for others."""
THEIRS = "oci://ghcr.io/kubeflow/charts/kubeflow-trainer --version 2.3.0"
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """The whole chain, and nothing of ours or theirs in it."""
    with ControlPlane.complete(crds=[ROOT / "tests" / "conformance" / "crds"], audit=True) as plane:
        yield plane


def items(plane: ControlPlane, kind: str) -> list[Document]:
    return plane.stored.list(kind)


def work(plane: ControlPlane) -> dict[tuple[str, str, str], tuple[str, int, str]]:
    """Identity, generation and version of each JobSet, Job and pod of a TrainJob: any write changes one of them."""
    return {
        (kind, metadata["namespace"], metadata["name"]): (
            metadata["uid"],
            metadata.get("generation", 0),
            metadata["resourceVersion"],
        )
        for kind in ("jobsets", "jobs", "pods")
        for metadata in (one["metadata"] for one in items(plane, kind))
        if kind == "jobsets" or JOBSET_NAME in metadata.get("labels", {})
    }


def unsettled(plane: ControlPlane) -> list[str]:
    """What is still on its way: Jobs and pods that are missing or have not been looked at, and statuses."""
    jobs = [one for one in items(plane, "jobs") if JOBSET_NAME in one["metadata"].get("labels", {})]
    pods = [one for one in items(plane, "pods") if JOBSET_NAME in one["metadata"].get("labels", {})]
    found = [
        f"Job {one['metadata']['namespace']}/{one['metadata']['name']}: {one['status']}"
        for one in jobs
        if one["status"].get("active", 0) != one["spec"]["parallelism"]
    ]
    found += [f"Pod {one['metadata']['name']}" for one in pods if not one["status"].get("conditions")]
    if len(pods) != (wanted := sum(one["spec"]["parallelism"] for one in jobs)):
        found.append(f"{len(pods)} of {wanted} pods")
    for one in items(plane, "jobsets"):
        namespace = one["metadata"]["namespace"]
        active = sum(job.get("active", 0) for job in one.get("status", {}).get("replicatedJobsStatus", ()))
        if not active or active != sum(job["metadata"]["namespace"] == namespace for job in jobs):
            found.append(f"JobSet {namespace}/{one['metadata']['name']}: {one.get('status')}")
    return found


def settled(plane: ControlPlane) -> dict[tuple[str, str, str], tuple[str, int, str]]:
    """The work, once all of it waits for a node."""
    eventually_sync(lambda: unsettled(plane), lambda found: not found)
    return work(plane)


def waiting(case: Recorded) -> Recorded:
    """The case with pods that no node takes, so that it stays in the midst of its work."""
    copy = deepcopy(case)
    for document in [*copy.given, *copy.made]:
        spec = document.get("spec", {})
        for job in spec.get("template", {}).get("spec", spec).get("replicatedJobs", ()):
            pod = job["template"]["spec"]["template"]["spec"]
            pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **NOWHERE["nodeSelector"]}
    return copy


async def leave(plane: ControlPlane) -> None:
    """Jobs as Kubeflow Trainer leaves them."""
    client = Client(HTTPTransport(load_config(plane.kubeconfig)))
    try:
        for case in (one for one in recorded() if one.name in CASES):
            namespace = await Original(client).namespace(f"taken-{case.name}")
            assert await Original(client).leave(waiting(case), namespace)
    finally:
        await client.close()


def test_a_release_of_kubeflow_trainer_becomes_ours_and_goes_back(plane: ControlPlane, tmp_path: Path) -> None:
    admin = Admin(plane, tmp_path)
    home = f"--namespace={NAMESPACE}"
    admin.helm(
        "install",
        RELEASE,
        kubeflow_chart.write(tmp_path / "theirs"),
        home,
        "--create-namespace",
        "--set=manager.replicas=1",
    )
    # The Job that would install the runtimes only pretends to run here.
    plane.kubectl("apply", "--server-side", f"--kustomize={CONFIG}/overlays/runtimes")
    asyncio.run(leave(plane))
    running = settled(plane)
    assert {namespace for kind, namespace, _ in running if kind == "pods"} == {f"taken-{case}" for case in CASES}

    keep, jobset, upgrade, runtimes = commands(UPGRADE, "To our chart")
    admin.types(keep + jobset + upgrade)
    Installation(plane).start()
    admin.types(runtimes)
    names = plane.kubectl("get", "deployments", home, "--output=name").split()
    assert sorted(names) == [f"deployment.apps/{kubeflow_chart.JOBSET}", f"deployment.apps/{NAME}"]
    assert plane.kubectl("get", "crd", kubeflow_chart.ONLY_THEIRS)
    assert plane.kubectl("get", "networkpolicy", NAME, home)
    selector = "jsonpath={.spec.selector.matchLabels.app\\.kubernetes\\.io/name}"
    assert plane.kubectl("get", "deployment", NAME, home, "-o", selector) == "trainer"
    # That the manager works on something new shows that it has looked at everything that was there.
    trainer = Trainer(plane, plane.create_namespace())
    trainer.job("new", trainer.runtime("waits", **NOWHERE))
    eventually_sync(trainer.pods)
    assert {key: one for key, one in work(plane).items() if key[1] != trainer.namespace} == running
    running = settled(plane)
    assert forbidden(plane) == []

    plane.stop_program(MANAGER)
    (back,) = commands(UPGRADE, "Back to Kubeflow Trainer's chart")
    assert THEIRS in back
    admin.types(back.replace(THEIRS, "theirs"))
    assert work(plane) == running
    assert plane.kubectl("get", "deployment", NAME, home, "-o", selector) == "kubeflow-trainer"
    assert plane.kubectl("get", "networkpolicies", home, "--output=name") == ""
    assert plane.kubectl("get", "clustertrainingruntimes", "--output=name")
    history = json.loads(admin.helm("list", home, "--output=json"))
    assert {one["name"]: one["chart"] for one in history} == {RELEASE: f"kubeflow-trainer-{kubeflow_chart.VERSION}"}
