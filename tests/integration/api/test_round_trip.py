# SPDX-License-Identifier: Apache-2.0
"""Any object that an API server sends is the same after decoding and encoding, for the fields that we know."""

import json
from typing import Any

import msgspec
import pytest

import trainwright.api.kubernetes.admissionregistration.v1 as admissionregistration_v1
import trainwright.api.kubernetes.authorization.v1 as authorization_v1
import trainwright.api.kubernetes.batch.v1 as batch_v1
import trainwright.api.kubernetes.coordination.v1 as coordination_v1
import trainwright.api.kubernetes.core.v1 as core_v1
import trainwright.api.kubernetes.events.v1 as events_v1
import trainwright.api.kubernetes.node.v1 as node_v1
import trainwright.api.kubernetes.scheduling.v1 as scheduling_v1
from tests.cases import cases
from trainwright.api.base import Object
from trainwright.controller.runtime.testing import ControlPlane

Json = dict[str, Any]
MODULES = (
    admissionregistration_v1,
    authorization_v1,
    batch_v1,
    coordination_v1,
    core_v1,
    events_v1,
    node_v1,
    scheduling_v1,
)
ITS_OWN = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that the API server itself makes."""
KINDS: dict[str, type[Object]] = {
    kind.RESOURCE.kind: kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Object)
}


def set_fields(value: Any) -> Any:
    """What an object says in fields that are set: null is not."""
    if isinstance(value, dict):
        return {name: set_fields(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [set_fields(item) for item in value]
    return value


@pytest.mark.parametrize("document", cases(__file__)["created"], ids=lambda document: document["kind"])
def test_created_objects(control_plane: ControlPlane, namespace: str, document: Json) -> None:
    kind = KINDS[document["kind"]]
    metadata: Json = {"name": f"round-trip-{namespace}"}
    if kind.RESOURCE.namespaced:
        metadata["namespace"] = namespace
    text = json.dumps({**document, "apiVersion": kind.RESOURCE.api_version, "metadata": metadata})
    stored = control_plane.stored
    made = stored.create(json.loads(text.replace("NAMESPACE", namespace)))
    read = stored.get(called(kind), metadata["name"], namespace)
    for sent in (made, read):
        decoded = msgspec.convert(sent, kind)
        assert json.loads(msgspec.json.encode(decoded)) == set_fields(sent)
        assert decoded.deepcopy() == decoded
    if not kind.RESOURCE.namespaced:
        stored.delete(called(kind), metadata["name"], wait=False)


def called(kind: Any) -> str:
    """The name of a kind with its group: there are two kinds of events."""
    return f"{kind.RESOURCE.plural}.{kind.RESOURCE.group}".rstrip(".")


def test_everything_that_is_there(control_plane: ControlPlane) -> None:
    count = 0
    for kind in KINDS.values():
        if kind.RESOURCE.kind == "SubjectAccessReview":
            continue  # is only created, never stored
        for item in control_plane.stored.list(called(kind)):
            if item["metadata"].get("namespace", "default") not in ITS_OWN:
                continue  # other tests share the server, and some write what no client would: null for a list
            decoded = msgspec.convert(item, kind)
            assert json.loads(msgspec.json.encode(decoded)) == set_fields(item), kind
            count += 1
    assert count > 5


def test_events_without_a_time(control_plane: ControlPlane, namespace: str) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "old", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": namespace},
        "reason": "Old",
        "type": "Normal",
    }
    control_plane.stored.create(event)
    sent = control_plane.stored.get(called(events_v1.Event), "old", namespace)
    assert sent is not None
    assert sent["eventTime"] is None
    decoded = msgspec.convert(sent, events_v1.Event)
    assert decoded.event_time is None
    assert decoded.reason == "Old"
