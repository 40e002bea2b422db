# SPDX-License-Identifier: Apache-2.0
"""The plugins that kube-apiserver runs by default: what they make of a pod, or of another `object`, `of` a kind.

`with` has objects that are there, each a second younger than the one before. `made` has values at paths of the answer
(true: something is there, false: nothing is), `refused` the end of its message.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.identity.conftest import ACCOUNTS, PODS, Asker, Document
from trainwright.controller.local.cluster import api_server
from trainwright.controller.runtime.testing.clock import ManualClock

CASES: list[Document] = cases(__file__)["admission"]
CLUSTER = ("priorityclasses", "runtimeclasses", "storageclasses")
MOUNTED = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture
def clock() -> ManualClock[datetime]:
    return ManualClock(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
async def ask(tmp_path: Path, clock: ManualClock[datetime]) -> AsyncIterator[Asker]:
    """Asks a server that gives pods an account."""
    async with api_server(tmp_path / "state", memory=True, service_accounts=True, now=clock) as api:
        yield Asker(api)


def path_of(name: str) -> str:
    version, _, plural = name.rpartition("/")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/{plural}" if plural in CLUSTER else f"{root}/namespaces/default/{plural}"


def pod(spec: Document | None = None) -> Document:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **(spec or {})}}


def at(document: Document, path: str) -> Any:
    here: Any = document
    for step in path.split("."):
        here = here[int(step)] if isinstance(here, list) else (here or {}).get(step)
    return here


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_admission(ask: Asker, clock: ManualClock[datetime], case: Document) -> None:
    await ask("POST", ACCOUNTS, {"metadata": {"name": "default"}, **case.get("account", {})})
    for kind, document in case.get("with", ()):
        clock.now += timedelta(seconds=1)
        status, answer = await ask("POST", path_of(kind), document)
        assert status == 201, answer
    status, answer = await ask("POST", path_of(case.get("of", "v1/pods")), case.get("object") or pod(case.get("spec")))
    if "refused" in case:
        assert (status, answer["message"][-len(case["refused"]) :]) == (403, case["refused"])
        return
    assert status == 201, answer
    for path, value in case["made"].items():
        found = at(answer, path)
        assert (found is not None) == value if isinstance(value, bool) else found == value, path


async def test_a_pod_gets_its_token_and_an_update_keeps_all(ask: Asker) -> None:
    await ask("POST", ACCOUNTS, {"metadata": {"name": "default"}})
    _, made = await ask("POST", PODS, pod({"initContainers": [{"name": "i", "image": "i"}]}))
    spec = made["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    [volume] = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    namespace = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [namespace]}},
        ],
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": MOUNTED}
    for field in ("initContainers", "containers"):
        assert spec[field][0]["volumeMounts"] == [mount]
    silent = {
        **made,
        "spec": {key: value for key, value in spec.items() if key not in ("priority", "preemptionPolicy")},
    }
    assert await ask("PUT", f"{PODS}/p", silent) == (200, made)
    again = {**made, "metadata": {"name": "q"}}
    assert (await ask("POST", PODS, again))[1]["spec"] == spec
