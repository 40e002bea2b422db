# SPDX-License-Identifier: Apache-2.0
"""Random writes: the real API server and ours tell the same of them, as of the rows of `writes.json`."""

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.integration.local.random_writes import Patches, groups, random_object
from tests.integration.local.writes import NAMESPACE, Document, Server
from trainwright.controller.local.cluster import api_server
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually


class Both:
    """Both servers, with the definitions of the rows."""

    def __init__(self, real: Server, ours: Server) -> None:
        self.servers = (real, ours)

    async def prepare(self) -> None:
        for server in self.servers:
            await server.send("POST", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            for group in groups().values():
                if "definition" in group:
                    await server.define(group["definition"])

    async def create(self, document: Document) -> list[Document] | None:
        """The object as each stores it; None if it is refused."""
        made = [await server.send("POST", document) for server in self.servers]
        assert len({one["kind"] for one in made}) == 1, (document, made)
        return None if made[0]["kind"] == "Status" else made

    async def differences(self, method: str, documents: list[Document], path: str = "", **how: str) -> list[Any]:
        """What they tell of a write that is only tried, if that differs; each has a document of its own."""
        pairs = zip(self.servers, documents, strict=True)
        told = [await server.told(method, one, path, **how) for server, one in pairs]
        for one in told:
            # Of warnings about pods we have few: docs/local-differences.md.
            if method == "PATCH" and isinstance(one, dict):
                one.pop("warnings", None)
        return [] if told[0] == told[1] else [*told, documents[0], how]


@pytest.fixture
async def both(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Both]:
    real = HTTPTransport(load_config(control_plane.kubeconfig))
    async with api_server(tmp_path, memory=True, service_accounts=False) as ours:
        made = Both(Server(real), Server(ours.transport()))
        await made.prepare()
        yield made
        await real.close()


async def created(both: Both, random: Random, group: str, wildness: float = 0.0) -> list[Document]:
    """A stored object."""
    while True:
        document = random_object(random, group, wildness)
        document["metadata"]["name"] = f"r{random.randrange(10**9)}"
        if (made := await both.create(document)) is not None:
            return made


def updated(random: Random, group: str, stored: list[Document], *, status: bool = False) -> list[Document]:
    """The same change of the object that each has stored."""
    spec = random_object(random, group)["spec"]
    made = []
    for one in stored:
        new = copy.deepcopy(one)
        new.pop("warnings", None)
        new |= {"status": spec} if status else {"spec": {**one.get("spec", {}), **spec}}
        made.append(new)
    return made


@pytest.mark.parametrize("group", ["shapes", "rules"])
@pytest.mark.parametrize("seed", range(4))
async def test_documents_and_updates(both: Both, group: str, seed: int) -> None:
    random = Random(seed)
    for _ in range(25):
        document = random_object(random, group)
        assert await both.differences("POST", [document, document]) == []
    stored = await created(both, random, group)
    name = stored[0]["metadata"]["name"]
    for _ in range(8):
        assert await both.differences("PUT", updated(random, group, stored), name) == []
        new = updated(random, group, stored, status=True)
        assert await both.differences("PUT", new, f"{name}/status") == []


@pytest.mark.parametrize("seed", range(4))
async def test_values_that_were_valid_once(both: Both, seed: int) -> None:
    """A schema that takes anything stores what the next one refuses: unchanged, it stays."""
    random = Random(seed)
    narrow = json.loads(json.dumps(groups()["shapes"]["definition"]).replace("shapes.", f"relics{seed}s."))
    names = narrow["spec"]["names"]
    names |= {"plural": f"relics{seed}s", "singular": f"relics{seed}", "kind": f"Relics{seed}"}
    wide = copy.deepcopy(narrow)
    fields = wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields["spec"] = fields["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for server in both.servers:
        await server.define(wide)
    old = random_object(random, "shapes", 0.5)
    old["kind"] = names["kind"]
    assert await both.create(old) is not None
    probe = {**old, "metadata": {"name": "probe"}, "spec": {"choice": "none of them"}}
    for server in both.servers:
        await server.send("PATCH", narrow, narrow["metadata"]["name"], "application/merge-patch+json")
        # The real server goes over to a new schema a moment after it has stored it.
        await eventually(lambda server=server: server.told("POST", probe), lambda told: isinstance(told, list))  # type: ignore[misc]
    # What is stored is pruned and defaulted when it is read.
    stored = [await server.send("GET", old, old["metadata"]["name"]) for server in both.servers]
    for _ in range(10):
        assert await both.differences("PUT", updated(random, "shapes", stored), old["metadata"]["name"]) == []


async def test_strategic_merge_patches(both: Both) -> None:
    document = {**groups()["patches of podtemplates"]["object"], "metadata": {"name": "random"}}
    stored = await both.create(document)
    assert stored is not None
    patches, alike = Patches(Random(1)), 0
    for _ in range(200):
        text = json.dumps(patches.patch())
        how = {"media": "application/strategic-merge-patch+json", "text": text}
        found = await both.differences("PATCH", stored, "random", **how)
        # Ours takes patches with orders that do not match, and templates that nothing makes pods of.
        assert not found or isinstance(found[0], list), found
        alike += not found
    assert alike > 50
