# SPDX-License-Identifier: Apache-2.0
"""Seeded faults on the real control plane: each is caused as it would be, and the first sentence must be right.

All faults are planted side by side, each in a namespace of its own; those that stop what others need come last.
What a kubelet would report, and what Kueue and Volcano would write, is written by hand. A clock that is ahead skips the
patience of checks.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e.faults import made, parts, pods
from tests.e2e.faults.place import Document, Faults, Place, U
from tests.installation import WITHOUT_ADMISSION, install
from tests.managers import MANAGER
from tests.repository import ROOT
from trainwright.api.times import wall_clock
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually
from trainwright.controller.trainer.why import Explanation, Reader
from trainwright.controller.views.explanation import explaining_plugins
from trainwright.plugins.contract.picture import Picture

pytestmark = pytest.mark.parity

FAULTS = Faults({**made.FAULTS, **pods.FAULTS, **parts.FAULTS})


def anything(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> Document:
    """A definition of a foreign kind that takes any object."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{**served, "subresources": {}}],
        },
    }


KUEUE = [
    anything("kueue.x-k8s.io", "v1beta2", "Workload", "workloads"),
    anything("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
    anything("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False),
]


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    transport = HTTPTransport(load_config(kubeconfig))
    try:
        yield Client(transport)
    finally:
        await transport.close()


Told = tuple[Picture, Explanation]


async def told(place: Place, number: str) -> Told:
    """Plant one fault, and ask until the sentence is the expected one."""
    plant, sentence, _, patience = FAULTS[number]
    await plant(place)
    reader = Reader(
        place.client, explaining_plugins(), now=lambda: wall_clock() + timedelta(seconds=patience and patience + 1)
    )
    name = "j" * 60 if number == "15" else "j"

    async def look() -> Told:
        return await reader.picture(place.namespace, name)

    return await eventually(look, lambda found: said(found[1]).startswith(sentence), seconds=60, what=f"fault {number}")


def said(found: Explanation) -> str:
    return f"{found.cause.reason}: {found.cause.message}"


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> Iterator[dict[str, Told | BaseException]]:
    """What is said of each fault that a test of this run asks for."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = {str(item.callspec.params["number"]) for item in items if "number" in item.fixturenames}
    with everything() as control_plane:
        yield asyncio.run(all_told(control_plane, asked))


@contextmanager
def everything() -> Iterator[ControlPlane]:
    """The whole chain, with the definitions of Kueue and of both gang schedulers."""
    crds = [ROOT / "config" / "crd", *sorted((ROOT / "tests" / "conformance" / "crds").glob("*.yaml"))]
    with ControlPlane.complete(crds=crds) as control_plane:
        control_plane.apply(*KUEUE)
        install(control_plane).start()
        yield control_plane


async def all_told(control_plane: ControlPlane, asked: Collection[str]) -> dict[str, Told | BaseException]:
    async with connected(control_plane.kubeconfig) as client:

        async def one(number: str) -> Told:
            labels = {WITHOUT_ADMISSION: "true"}
            namespace = await asyncio.to_thread(control_plane.create_namespace, f"fault-{number}", labels=labels)
            try:
                return await told(Place(control_plane, client, namespace), number)
            except GaveUp as error:
                # What the manager did meanwhile; its other lines are about the other faults.
                log = control_plane.components[MANAGER].log.read_text(errors="replace")
                about = [line for line in log.splitlines() if namespace in line]
                error.add_note("\n".join(["the manager has logged of it:", *(about or ["nothing"])]))
                raise

        first = [number for number in FAULTS if number in asked and number not in parts.LAST]
        limit = asyncio.Semaphore(8)

        async def limited(number: str) -> Told:
            async with limit:
                return await one(number)

        found = await asyncio.gather(*map(limited, first), return_exceptions=True)
        answers = dict(zip(first, found, strict=True))
        for number in [number for number in parts.LAST if number in asked]:
            (answers[number],) = await asyncio.gather(one(number), return_exceptions=True)
        return answers


@pytest.mark.parametrize("number", list(FAULTS))
def test_the_first_sentence_is_right(answers: dict[str, Told | BaseException], number: str) -> None:
    answer = answers[number]
    if isinstance(answer, BaseException):
        raise answer
    _, found = answer
    assert said(found).startswith(FAULTS[number].sentence)
    assert found.exit_code == FAULTS[number].code, said(found)
    assert found.unread == ()


def test_jobset_is_not_installed(without_jobsets: ControlPlane, namespace: str) -> None:
    async def explained() -> Explanation:
        async with connected(without_jobsets.kubeconfig) as client:
            place = Place(without_jobsets, client, namespace)
            await place.runtime(U)
            await place.job()
            return await Reader(client).explain(namespace, "j")

    found = asyncio.run(explained())
    assert said(found).startswith("JobSetMissing: JobSet is not installed in this cluster")
    assert found.exit_code == 1
