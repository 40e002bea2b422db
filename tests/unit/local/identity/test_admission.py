# SPDX-License-Identifier: Apache-2.0
"""Built-in admission in the chain of a server, and evictions."""

import asyncio
from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.local.identity.conftest import ACCOUNTS, PODS, Asker, Create, Document
from trainwright.controller.local.apiserver.admission import plugins
from trainwright.controller.local.cluster import api_server
from trainwright.controller.runtime.testing.clock import ManualClock

POD: Document = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
EVICTION: Document = {"metadata": {"name": "p"}}


async def test_pods_need_no_account_unless_asked(ask: Asker) -> None:
    _, pod = await ask("POST", PODS, POD)
    assert "volumes" not in pod["spec"]


async def test_a_pod_waits_a_moment_for_the_account_of_a_new_namespace(
    tmp_path: Path, clock: ManualClock[datetime]
) -> None:
    """It is made by a controller, and whoever made the namespace may be faster."""
    async with api_server(tmp_path / "state", memory=True, service_accounts=True, now=clock) as api:
        ask = Asker(api)
        creating = asyncio.create_task(ask("POST", PODS, POD))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not creating.done()
        await ask("POST", ACCOUNTS, {"metadata": {"name": "default"}})
        assert (await creating)[0] == 201


async def test_a_pod_waits_for_no_account_that_nobody_makes(
    tmp_path: Path, clock: ManualClock[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that it names, or one of a namespace that is not there."""
    monkeypatch.setattr(plugins, "_ACCOUNT_SECONDS", 1e6)
    named = {**POD, "spec": {**POD["spec"], "serviceAccountName": "mine"}}
    async with api_server(tmp_path / "state", memory=True, service_accounts=True, now=clock) as api:
        ask = Asker(api)
        assert (await ask("POST", PODS, named))[0] == 403
        assert (await ask("POST", "/api/v1/namespaces/nope/pods", POD))[0] == 404


async def test_an_eviction_deletes_with_grace(ask: Asker, create_pod: Create) -> None:
    await create_pod(nodeName="n")
    status, answer = await ask("POST", f"{PODS}/p/eviction?dryRun=All", EVICTION)
    assert (status, answer["status"]) == (201, "Success")
    assert "deletionTimestamp" not in (await ask("GET", f"{PODS}/p"))[1]["metadata"]
    status, _ = await ask("POST", f"{PODS}/p/eviction", {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 7}})
    _, pod = await ask("GET", f"{PODS}/p")
    assert (status, pod["metadata"]["deletionGracePeriodSeconds"]) == (201, 7)
    (condition,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["reason"], condition["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")
    # Once more changes nothing.
    assert (await ask("POST", f"{PODS}/p/eviction", EVICTION))[0] == 201
    assert (await ask("GET", f"{PODS}/p"))[1] == pod


async def test_evictions_that_are_refused(ask: Asker, create_pod: Create) -> None:
    assert (await ask("POST", f"{PODS}/p/eviction", EVICTION))[1]["message"] == 'pods "p" not found'
    pod = await create_pod(nodeName="n")
    status, answer = await ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
    assert (status, answer["message"]) == (400, "name in URL does not match name in Eviction object")
    options = {"preconditions": {"uid": "x"}}
    status, answer = await ask("POST", f"{PODS}/p/eviction", {**EVICTION, "deleteOptions": options})
    assert status == 409
    assert answer["message"].startswith(
        'Operation cannot be fulfilled on Pod "p": the UID in the precondition (x) does not match the UID in record '
        f"({pod['metadata']['uid']})"
    )
    assert (await ask("GET", f"{PODS}/p"))[1]["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]
