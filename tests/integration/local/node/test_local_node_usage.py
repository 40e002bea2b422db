# SPDX-License-Identifier: Apache-2.0
"""What containers use, as the cluster serves it: a container that works, one that waits, one that has ended."""

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.local.node.conftest import Pods, laptop
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.objects import Document
from trainwright.controller.dashboard.pods import PODS, Usage, usage_of
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.only_where(sys.platform == "linux", "there is no /proc"),
]
# The work is done by a child, which is left behind by its parent.
WORKS = "(python -c 'held = bytearray(50_000_000)\nwhile True: pass' &) ; exec sleep 600"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """Of a cluster with a pod that works, one that waits and one that has ended."""
    async with laptop(tmp_path_factory.mktemp("cluster")) as made:
        pods = Pods(made, "default", "laptop")
        for name, script in (("works", WORKS), ("waits", "sleep 600"), ("ended", "true")):
            main: Document = {"name": "main", "image": "python", "command": ["sh", "-c", script]}
            labels = {LABEL_JOBSET: "job" if name == "works" else "other"}
            more = {"terminationGracePeriodSeconds": 0, "restartPolicy": "Never"}
            await pods.create(name, containers=[main], metadata={"labels": labels}, **more)
        await pods.reach("works", "Running")
        await pods.reach("waits", "Running")
        await pods.reach("ended", "Succeeded")
        yield made


async def test_a_container_that_works_and_one_that_waits(client: Client) -> None:
    async def measured() -> dict[str, Document]:
        return {one["metadata"]["name"]: one for one in (await client.list(PODS, "default")).items}

    found = await eventually(
        measured, lambda found: (usage_of(found["works"]).memory or 0) > 50_000_000, what="the memory is held"
    )
    assert found.keys() == {"works", "waits"}
    works, waits = usage_of(found["works"]), usage_of(found["waits"])
    assert works.cpu is not None
    assert waits.cpu is not None
    assert works.cpu > waits.cpu
    assert (works.gpu, works.gpu_memory) == (None, None)
    assert 0 < (waits.memory or 0) < 50_000_000
    assert found["works"]["containers"][0]["name"] == "main"


async def test_the_pods_of_one_job(client: Client) -> None:
    assert (await Usage(client).read("default", "job")).keys() == {"works"}
    assert await Usage(client).read("elsewhere", "job") == {}


async def test_what_is_not_served(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.get(PODS, "works", "default")
    with pytest.raises(ApiError) as refused:
        await client.create({"metadata": {"name": "x", "namespace": "default"}}, kind=PODS)
    assert refused.value.status == 405
    with pytest.raises(ApiError) as wrong:
        await client.list(PODS, "default", label_selector="a in (")
    assert wrong.value.status == 400
