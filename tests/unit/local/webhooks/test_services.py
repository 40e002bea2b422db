# SPDX-License-Identifier: Apache-2.0
"""Where the Services that webhooks name are reached."""

from typing import Any

import pytest

from trainwright.controller.local.apiserver.admission.calling import CallError, ServiceAddresses
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore

Document = dict[str, Any]

READY = {"podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}]}
CONTAINER = {"name": "c", "ports": [{"name": "hooks", "containerPort": 9443}]}


def store_of(**objects: Document) -> ObjectStore:
    store = ObjectStore()
    for collection, document in objects.items():
        made = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "s", "labels": {"a": "b"}}, **document}
        store.write(collection, ObjectName("n", "s"), made, None)
    return store


def service(**spec: Any) -> Document:
    return {"spec": {"ports": [{"port": 443}], "selector": {"a": "b"}, **spec}}


POD = {"spec": {"containers": [CONTAINER]}, "status": READY}
ENDPOINTS = {"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 8443}]}]}


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        ({}, 'service "s" not found'),
        ({"services": service(ports=[{"port": 80}])}, 'no service port 443 found for service "s"'),
        ({"services": service()}, 'no endpoints available for service "s"'),
        ({"services": service(), "pods": {**POD, "status": {**READY, "conditions": []}}}, "no endpoints available"),
        ({"services": service(selector={"a": "c"}), "pods": POD}, "no endpoints available"),
        ({"services": service(), "pods": POD}, "10.0.0.7:443"),
        ({"services": service(ports=[{"port": 443, "targetPort": "hooks"}]), "pods": POD}, "10.0.0.7:9443"),
        ({"services": service(ports=[{"port": 443, "targetPort": 8000}]), "pods": POD}, "10.0.0.7:8000"),
        ({"services": service(), "pods": POD, "endpoints": ENDPOINTS}, "10.0.0.9:8443"),
    ],
)
async def test_where_a_service_is(objects: dict[str, Document], found: str) -> None:
    addresses = ServiceAddresses(store_of(**objects))
    if found.startswith("10."):
        assert addresses.find("n", "s", 443) == found
    else:
        with pytest.raises(CallError, match=found):
            addresses.find("n", "s", 443)
    addresses.route("n", "s", "127.0.0.1:1")
    assert addresses.find("n", "s", 443) == "127.0.0.1:1"
