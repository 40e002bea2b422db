# SPDX-License-Identifier: Apache-2.0
"""A TrainJob of every shipped runtime, to Complete and to Failed: the local cluster does what the real one does.

The manager is the same, with the same configuration; API server, JobSet's manager, Job controller and scheduler differ.
No pod finds a node: the test writes in both clusters how pods end.
"""

import asyncio
import difflib
import json
import re
from collections.abc import Iterator
from functools import partial

import pytest

from tests.e2e.test_e2e_patches import runtimes
from tests.integration.local.controllers.comparison import EVENT, shown
from tests.local_chain import LocalChain
from tests.program_versions import AS_LOCALLY
from trainwright.api.base import Resource
from trainwright.api.conditions import is_true
from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import Document, labels_of, name_of
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.local.controllers.objects import CONFIG_MAP, JOB, JOBSET, NAMESPACE, POD, SERVICE
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = [
    pytest.mark.parity,
    pytest.mark.only_where(AS_LOCALLY, "the local cluster does as the newest versions do"),
]
KINDS = (TrainJob.RESOURCE, JOBSET, JOB, SERVICE, CONFIG_MAP, Secret.RESOURCE, POD)
CONTROLLERS = {"trainwright", "job-controller", "jobset"}
AT_ONCE = 4
SECONDS = 180.0
_VERSION = re.compile(r"  resourceVersion: '\d+'\n")


class Plain(LocalChain):
    """The local cluster with the features that an installation has."""

    gates = False


@pytest.fixture(scope="module")
def ours() -> Iterator[ControlPlane]:
    with Plain() as running:
        yield running


class World:
    """One TrainJob in one cluster."""

    def __init__(self, client: Client, namespace: str, runtime: Document) -> None:
        self._client, self._namespace, self._runtime = client, namespace, runtime

    async def notes(self, *, fails: bool) -> tuple[list[str], list[str]]:
        """All objects and all that was said when the job has ended."""
        kind = TrainingRuntime.RESOURCE
        await self._client.create({"apiVersion": kind.api_version, "kind": kind.kind, **self._runtime}, kind=kind)
        spec: Document = {"runtimeRef": {"kind": kind.kind, "name": name_of(self._runtime)}, "trainer": {"numNodes": 2}}
        replicated = self._runtime["spec"]["template"]["spec"]["replicatedJobs"]
        if any(one["name"] == "dataset-initializer" for one in replicated):
            spec["initializer"] = {"dataset": {"storageUri": "hf://a/b"}, "model": {"storageUri": "hf://c/d"}}
        metadata = {"name": "job", "namespace": self._namespace}
        await self._client.create({"metadata": metadata, "spec": spec}, kind=TrainJob.RESOURCE)
        await eventually(partial(self._step, fails=fails), seconds=SECONDS, what=f"the end of {self._namespace}")
        # The last of all changes: pods are released, counters and events are written.
        notes = await eventually(self._settled, seconds=SECONDS)
        assert notes is not None
        return notes

    async def _step(self, *, fails: bool) -> bool:
        """Let pods end; returns whether the job has."""
        for pod in await self._all(POD):
            initializes = "initializer" in labels_of(pod)["jobset.sigs.k8s.io/replicatedjob-name"]
            if pod["status"]["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
                continue
            status: Document = {"phase": "Succeeded"}
            if fails and not initializes:
                status = {"phase": "Running", "containerStatuses": [_crashed(one) for one in pod["spec"]["containers"]]}
            try:
                await self._client.patch(POD, name_of(pod), self._namespace, {"status": status}, subresource="status")
            except NotFound:
                continue  # its Job has just ended
        job = await self._client.get(TrainJob.RESOURCE, "job", self._namespace)
        conditions = (job.get("status") or {}).get("conditions")
        return is_true(conditions, "Complete") or is_true(conditions, "Failed")

    async def _settled(self) -> tuple[list[str], list[str]] | None:
        found = await self._objects(), await self._events()
        await asyncio.sleep(2.0)
        return found if found == (await self._objects(), await self._events()) else None

    async def _objects(self) -> list[str]:
        return shown([_comparable(one) for kind in KINDS for one in await self._all(kind)])

    async def _events(self) -> list[str]:
        found = set()
        for event in (await self._client.list(EVENT, self._namespace)).items:
            source = event.get("reportingController") or (event.get("deprecatedSource") or {}).get("component")
            if source in CONTROLLERS and "already exists" not in (event.get("note") or ""):
                found.add(f"{source} {event['regarding']['kind']} {event['type']} {event['reason']}")
        return sorted(found)

    async def _all(self, kind: Resource) -> list[Document]:
        found: list[Document] = [
            {"kind": kind.kind, **one} for one in (await self._client.list(kind, self._namespace)).items
        ]
        return found


def _crashed(container: Document) -> Document:
    """As a kubelet reports a container that crashes for the last time."""
    status = {"name": container["name"], "image": "i", "imageID": "", "ready": False, "restartCount": 6}
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
    return {**status, **waiting}


def _comparable(one: Document) -> Document:
    """Without what differs on purpose.

    That is the token of the service account, which only the local cluster gives to pods, key material, and what the
    schedulers say of the nodes.
    """
    copied: Document = json.loads(json.dumps(one))
    copied.pop("apiVersion", None)
    data: dict[str, str] = copied.get("data") or {}
    if copied["kind"] == "Secret" or name_of(copied) == "kube-root-ca.crt":
        copied["data"] = sorted(data)
    if name_of(copied).endswith("-runtime-snapshot"):
        copied["data"] = {name: _VERSION.sub("", text) for name, text in data.items()}
    if copied["kind"] == "Pod":
        copied["status"] = {"phase": copied["status"]["phase"]}
        spec = copied["spec"]
        for name in ("serviceAccount", "serviceAccountName"):
            spec.pop(name, None)
        spec["volumes"] = [one for one in spec.get("volumes") or () if not one["name"].startswith("kube-api-access")]
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            mounts = container.get("volumeMounts") or ()
            container["volumeMounts"] = [one for one in mounts if not one["name"].startswith("kube-api-access")]
    return copied


def _differences(real: list[str], local: list[str]) -> str:
    before, after = ("\n".join(part).splitlines() for part in (real, local))
    return "\n".join(difflib.unified_diff(before, after, "real", "local", lineterm="", n=5))


@pytest.mark.timeout(900)
async def test_they_do_the_same(manager: ControlPlane, ours: ControlPlane) -> None:
    clients = [Client(HTTPTransport(load_config(one.kubeconfig)), user_agent="test") for one in (manager, ours)]
    limit = asyncio.Semaphore(AT_ONCE)
    shipped = [one for one in runtimes("") if name_of(one) != "everything"]
    assert len(shipped) >= 9
    found: dict[str, str] = {}

    async def compare(runtime: Document, *, fails: bool) -> None:
        name = f"{name_of(runtime).replace('.', '-')}-{'fails' if fails else 'completes'}"
        async with limit:
            placed = {**runtime, "metadata": {"name": name_of(runtime), "namespace": name}}
            for client in clients:
                await client.create({"metadata": {"name": name}}, kind=NAMESPACE)
            theirs, mine = await asyncio.gather(*(World(client, name, placed).notes(fails=fails) for client in clients))
        found[name] = "\n".join(_differences(*pair) for pair in zip(theirs, mine, strict=True)).strip()

    try:
        async with asyncio.TaskGroup() as tasks:
            for runtime in shipped:
                for fails in (False, True):
                    tasks.create_task(compare(runtime, fails=fails))
    finally:
        for client in clients:
            await client.close()
    differing = {name: text for name, text in found.items() if text}
    assert not differing, "\n\n".join(f"{name}:\n{text}" for name, text in differing.items())
