# SPDX-License-Identifier: Apache-2.0
"""Our manager starts in a cluster that Kubeflow Trainer has left: running JobSets are not touched, others resume.

Kubeflow Trainer leaves the objects of the recorded cases, applied as it applies them. JobSet's webhooks are real.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.managers import MANAGER, start_manager
from tests.repository import ROOT
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.manifest import dump
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.real_control_plane("JobSet's manager")

CONFORMANCE = ROOT / "tests" / "conformance"
AT_ONCE = 8
LEAST = 60
SECONDS = 60.0
NAMESPACE = Resource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
Json = dict[str, Any]


def resource(document: Json) -> Resource:
    """By the rule for plurals that all these kinds follow."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = document["kind"]
    return Resource(group=group, version=version, kind=kind, plural=f"{kind.lower()}s", namespaced=True)


@dataclass(frozen=True)
class Recorded:
    """What a case creates, and what Kubeflow Trainer made of it."""

    name: str
    given: list[Json]
    job: Json
    made: list[Json]


def recorded() -> list[Recorded]:
    """The cases in which nothing happens after the creation, and whose objects all live in the namespace."""
    found = []
    for folder in sorted((CONFORMANCE / "cases").iterdir()):
        expected = yaml.safe_load((folder / "expected.yaml").read_text())
        case = yaml.safe_load((folder / "case.yaml").read_text())
        made = expected.get("objects", [])
        if (folder / "steps.yaml").exists() or case.get("featureGates") or all(m["kind"] != "JobSet" for m in made):
            continue
        runtime = folder / "runtime.yaml"
        given = [*yaml.safe_load_all(runtime.read_text())] if runtime.exists() else []
        if all(document["kind"] in {"TrainingRuntime", "ConfigMap", "Secret"} for document in given):
            found.append(Recorded(folder.name, given, yaml.safe_load((folder / "trainjob.yaml").read_text()), made))
    return found


class Original:
    """Leaves a cluster as Kubeflow Trainer does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def namespace(self, name: str) -> str:
        """A new one."""
        metadata = {"name": name}
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, kind=NAMESPACE)
        return name

    async def leave(self, case: Recorded, namespace: str, *, suspended: bool = False) -> bool:
        """Gives whether JobSet's webhooks let the case be as it was recorded, where they were not asked."""
        runtime: Json = {}
        for document in case.given:
            created = await self._create(document, namespace)
            if document["kind"] == "TrainingRuntime":
                runtime = created
        spec = {**case.job["spec"], **({"suspend": True} if suspended else {})}
        job = await self._create({**case.job, "spec": spec}, namespace)
        try:
            for document in sorted(case.made, key=lambda document: document["kind"] == "JobSet"):
                await self._apply(document, namespace, job, runtime, suspended=suspended)
        except ApiError:
            await self.client.delete(TrainJob.RESOURCE, job["metadata"]["name"], namespace)
            return False
        return True

    async def _create(self, document: Json, namespace: str) -> Json:
        metadata = {**document["metadata"], "namespace": namespace}
        return await self.client.create({**document, "metadata": metadata}, kind=resource(document))

    async def _apply(self, document: Json, namespace: str, job: Json, runtime: Json, *, suspended: bool) -> None:
        text = json.dumps(document).replace("<namespace>", namespace)
        document = json.loads(text)
        for owner in document["metadata"].get("ownerReferences", ()):
            owner["uid"] = job["metadata"]["uid"]
        if document["kind"] == "ConfigMap" and "runtime" in document.get("data", {}):
            document["data"]["runtime"] = dump(runtime)
        if document["kind"] == "Secret":
            # What was recorded of generated keys is a word for them.
            document["data"] = {name: base64.b64encode(b"key").decode() for name in document["data"]}
        if document["kind"] == "JobSet" and suspended:
            document["spec"]["suspend"] = True
        await self.client.apply(document, kind=resource(document), field_manager="trainer", force=True)


async def until(client: Client, namespace: str, holds: Callable[[list[Json]], bool]) -> None:
    """Wait until the JobSets of the namespace are so."""

    async def jobsets() -> list[Json]:
        return (await client.list(JobSet.RESOURCE, namespace)).items

    await eventually(jobsets, holds, seconds=SECONDS)


@pytest.fixture(scope="module")
def shared_plane() -> Iterator[ControlPlane]:
    """An API server with JobSet's manager, and nothing of ours but the definitions."""
    crds: list[Path] = [ROOT / "config" / "crd", CONFORMANCE / "crds"]
    with ControlPlane(crds=crds, jobset=True, audit=True) as plane:
        yield plane


@pytest.fixture
def plane(shared_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same; the manager that a test starts ends with it."""
    yield shared_plane
    if MANAGER in shared_plane.components:
        shared_plane.stop_program(MANAGER)


async def test_no_running_jobset_is_touched(plane: ControlPlane) -> None:
    client = Client(HTTPTransport(load_config(plane.kubeconfig)))
    gate = asyncio.Semaphore(AT_ONCE)

    async def leave(case: Recorded) -> str:
        async with gate:
            namespace = await Original(client).namespace(f"taken-{case.name}")
            return namespace if await Original(client).leave(case, namespace) else ""

    try:
        cases = [case for case in recorded() if not case.job["spec"].get("suspend")]
        namespaces = await asyncio.gather(*map(leave, cases))
        running = dict(zip(namespaces, cases, strict=True))
        assert len([namespace for namespace in namespaces if namespace]) > LEAST
        await asyncio.to_thread(start_manager, plane)
        # That it works on something new shows that it has looked at everything that was there.
        last = await Original(client).namespace("last")
        await Original(client).leave(Recorded("", cases[0].given, cases[0].job, []), last)
        await until(client, last, bool)
    finally:
        await client.close()
    writes = [
        f"{running[call.namespace].name}: {call.verb} {call.resource} {call.name} {call.code}"
        for call in plane.audit_log.calls(user_agent="trainwright")
        if call.is_write
        and call.namespace in running
        and call.user_agent.endswith("trainwright")
        # Their status is ours to write, and an obsolete finalizer of runtimes ours to remove.
        and call.resource not in {"trainjobs", "trainingruntimes"}
    ]
    assert writes == []


async def test_suspended_jobs_resume_whatever_order_kubeflow_trainer_wrote_things_in(plane: ControlPlane) -> None:
    client = Client(HTTPTransport(load_config(plane.kubeconfig)))
    try:
        namespaces = {}
        for case in recorded():
            if case.name in {"132-xgb-processors", "020-torch-defaults", "084-mpi-defaults"}:
                namespace = await Original(client).namespace(f"resumes-{case.name}")
                # Kubeflow Trainer's plugins, and with them the variables, are in another order in each process.
                made = [_backwards(document) if document["kind"] == "JobSet" else document for document in case.made]
                other = Recorded(case.name, case.given, case.job, made)
                assert await Original(client).leave(other, namespace, suspended=True)
                namespaces[namespace] = other
        assert len(namespaces) == 3
        await asyncio.to_thread(start_manager, plane)
        for namespace, case in namespaces.items():
            name = case.job["metadata"]["name"]
            await client.patch(TrainJob.RESOURCE, name, namespace, {"spec": {"suspend": False}})
            await until(client, namespace, lambda found: found[0]["spec"]["suspend"] is False)
            (jobset,) = (await client.list(JobSet.RESOURCE, namespace)).items
            (kept,) = (document for document in case.made if document["kind"] == "JobSet")
            assert _variables(jobset) == _variables(kept)
    finally:
        await client.close()


async def test_jobs_of_before_the_gate_go_on_without_reports(plane: ControlPlane) -> None:
    """JobSet lets the pods of a suspended JobSet get no other volume, so its job resumes as it was."""
    client = Client(HTTPTransport(load_config(plane.kubeconfig)))
    plane.kubectl("create", "namespace", "kubeflow-system")
    plane.kubectl(
        *("create", "secret", "generic", "kubeflow-trainer-webhook-cert", "--namespace=kubeflow-system"),
        "--from-literal=ca.crt=PEM",
    )
    try:
        (case,) = (case for case in recorded() if case.name == "020-torch-defaults")
        name = case.job["metadata"]["name"]
        namespaces = [await Original(client).namespace(one) for one in ("running", "suspended")]
        for namespace in namespaces:
            assert await Original(client).leave(case, namespace, suspended=namespace == "suspended")
        gate: Json = {"featureGates": {"TrainJobStatus": True}, "statusServer": {"port": free_port()}}
        await asyncio.to_thread(start_manager, plane, webhook={"host": "127.0.0.1"}, **gate)
        await client.patch(TrainJob.RESOURCE, name, "suspended", {"spec": {"suspend": False}})
        for namespace in namespaces:
            await until(client, namespace, lambda found: not found[0]["spec"].get("suspend"))
            (jobset,) = (await client.list(JobSet.RESOURCE, namespace)).items
            assert "KUBEFLOW_TRAINER_SERVER_URL" not in _variables(jobset)
        new = await Original(client).namespace("new")
        await Original(client).leave(Recorded("", case.given, case.job, []), new)
        await until(client, new, bool)
        (jobset,) = (await client.list(JobSet.RESOURCE, new)).items
        assert "KUBEFLOW_TRAINER_SERVER_URL" in _variables(jobset)
    finally:
        await client.close()


def _backwards(jobset: Json) -> Json:
    """The JobSet with all its variables in the opposite order."""
    found: Json = json.loads(json.dumps(jobset))
    for container in _containers(found):
        container.get("env", []).reverse()
    return found


def _variables(jobset: Json) -> list[str]:
    return [variable["name"] for container in _containers(jobset) for variable in container.get("env", ())]


def _containers(jobset: Json) -> list[Json]:
    jobs = jobset["spec"]["replicatedJobs"]
    return [container for job in jobs for container in job["template"]["spec"]["template"]["spec"]["containers"]]
