# SPDX-License-Identifier: Apache-2.0
"""Our patches beside those of the real API server: their results, and what is said of wrong ones.

A patch is sent to the server as a dry run. Ours is applied to the stored object, and what it makes is sent as a dry run
of an update, so that defaults, conversion and validation are the server's in both.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.scenarios.comparison import SENTENCES
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge.errors import PatchError
from trainwright.controller.local.apiserver.merge.patch import (
    json_patch,
    merge_patch,
    read_merge_patch,
    read_strategic_patch,
)
from trainwright.controller.local.apiserver.merge.strategic import strategic_merge_patch
from trainwright.controller.local.types.model import Types
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON, MERGE, STRATEGIC = "json-patch", "merge-patch", "strategic-merge-patch"
MODELS = {
    "configmaps": "io.k8s.api.core.v1.ConfigMap",
    "services": "io.k8s.api.core.v1.Service",
    "pods": "io.k8s.api.core.v1.Pod",
    "podtemplates": "io.k8s.api.core.v1.PodTemplate",
    "jobs": "io.k8s.api.batch.v1.Job",
}
POD: Document = {
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "c",
            "image": "example/c:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
            "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w"}],
        },
        {"name": "d", "image": "example/d:1", "args": ["a", "b"]},
    ],
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "a"}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
OBJECTS: dict[str, Document] = {
    "configmaps": {"metadata": {"labels": {"l": "1"}}, "data": {"a": "1", "b": "2", "h": "a<b"}},
    "services": {
        "metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]},
        "spec": {"clusterIP": "None", "ports": [{"name": "p", "port": 80}, {"name": "q", "port": 81}]},
    },
    "pods": {"spec": POD},
    "podtemplates": {"template": {"metadata": {"labels": {"l": "1"}}, "spec": POD}},
    "jobs": {"spec": {"suspend": True, "template": {"spec": POD}}},
}


def in_pod(**fields: Any) -> Document:
    return {"template": {"spec": fields}}


def container(**fields: Any) -> Document:
    return in_pod(containers=[{"name": "c", **fields}])


STRATEGIC_CASES: list[tuple[str, Any]] = [
    ("configmaps", {"data": {"b": None, "c": "3"}}),
    ("configmaps", {"data": {"$patch": "replace", "c": "3"}}),
    ("configmaps", {"data": {"$patch": "delete"}}),
    ("configmaps", {"data": {"$retainKeys": ["a"]}}),
    ("configmaps", {"data": None, "binaryData": {"x": "AA==", "y": None}}),
    ("configmaps", {"metadata": {"labels": {"m": "2"}, "annotations": {"a": None}}}),
    ("configmaps", {}),
    ("configmaps", {"data": {"$patch": "merge"}}),
    ("configmaps", {"$setElementOrder/foo": ["a"]}),
    ("configmaps", {"metadata": {"$setElementOrder/ownerReferences": [{"x": 1}]}}),
    ("configmaps", {"metadata": {"ownerReferences": [{"uid": "1", "apiVersion": "v1", "kind": "Pod", "name": "x"}]}}),
    ("services", {"metadata": {"finalizers": ["example.com/d"]}}),
    ("services", {"metadata": {"finalizers": ["example.com/c", "example.com/a"]}}),
    ("services", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b", "example.com/x"]}}),
    (
        "services",
        {
            "metadata": {
                "$setElementOrder/finalizers": ["example.com/d", "example.com/c"],
                "finalizers": ["example.com/d"],
                "$deleteFromPrimitiveList/finalizers": ["example.com/a"],
            }
        },
    ),
    ("services", {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}),
    ("services", {"metadata": {"$deleteFromPrimitiveListfinalizers": ["a"]}}),
    ("services", {"metadata": {"finalizers": [1]}}),
    ("services", {"metadata": {"finalizers": ["example.com/d"], "$setElementOrder/finalizers": ["example.com/a"]}}),
    ("services", {"spec": {"ports": [{"port": 80, "targetPort": "x"}, {"name": "r", "port": 82}]}}),
    ("services", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
    ("services", {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}]}}),
    ("services", {"spec": {"ports": [{"name": "p", "targetPort": 8}]}}),
    ("services", {"spec": {"selector": {"a": "b"}, "$retainKeys": ["selector", "ports", "clusterIP"]}}),
    ("services", {"spec": {"$retainKeys": ["ports"], "selector": {"a": "b"}}}),
    ("services", {"spec": {"$retainKeys": "ports"}}),
    ("podtemplates", container(image="example/c:2")),
    ("podtemplates", in_pod(containers=[{"name": "e", "image": "example/e:1"}, {"name": "d", "image": "x"}])),
    ("podtemplates", in_pod(containers=[{"name": "c", "$patch": "delete"}])),
    ("podtemplates", in_pod(containers=[{"$patch": "replace"}, {"name": "e", "image": "example/e:1"}])),
    ("podtemplates", in_pod(**{"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]})),
    (
        "podtemplates",
        in_pod(
            **{
                "$setElementOrder/containers": [{"name": "e"}, {"name": "c"}],
                "containers": [{"name": "e", "image": "i"}, {"name": "d", "$patch": "delete"}],
            }
        ),
    ),
    ("podtemplates", container(env=[{"name": "B", "value": None}, {"name": "D", "value": "4"}])),
    ("podtemplates", container(env=[{"name": "C"}, {"name": "A", "value": "9"}])),
    ("podtemplates", container(env=[{"name": "B", "$patch": "delete"}])),
    ("podtemplates", container(**{"$setElementOrder/env": [{"name": "C"}, {"name": "A"}]})),
    ("podtemplates", container(**{"$setElementOrder/env": [{"name": "D"}, {"name": "A"}], "env": [{"name": "D"}]})),
    ("podtemplates", container(ports=[{"containerPort": 80, "protocol": "UDP", "hostPort": 9}])),
    ("podtemplates", container(ports=[{"containerPort": 81, "name": "x"}, {"containerPort": 82}])),
    ("podtemplates", container(ports=[{"containerPort": 80, "$patch": "delete"}])),
    ("podtemplates", container(volumeMounts=[{"mountPath": "/w", "readOnly": True}])),
    ("podtemplates", in_pod(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}])),
    ("podtemplates", in_pod(volumes=[{"name": "v", "emptyDir": None, "hostPath": {"path": "/x"}}])),
    ("podtemplates", in_pod(volumes=[{"name": "v", "$retainKeys": ["name"], "hostPath": {"path": "/x"}}])),
    ("podtemplates", in_pod(tolerations=[{"key": "b", "operator": "Exists"}])),
    ("podtemplates", in_pod(containers=[{"name": "d", "args": ["c"]}], imagePullSecrets=[{"name": "s"}])),
    ("podtemplates", in_pod(securityContext={"runAsUser": 1}, nodeSelector={"a": "b"})),
    ("podtemplates", in_pod(containers=[{"image": "x"}])),
    ("podtemplates", in_pod(containers=[1])),
    ("podtemplates", in_pod(containers=[{"name": "c", "$patch": "foo"}])),
    ("podtemplates", in_pod(containers=[{"name": "c", "$patch": "merge"}])),
    ("podtemplates", in_pod(containers=[{"$patch": "delete"}])),
    ("podtemplates", in_pod(**{"$patch": "foo"})),
    ("podtemplates", in_pod(**{"$setElementOrder/containers": 1})),
    ("podtemplates", in_pod(**{"$setElementOrder/containers": [{"foo": "d"}, {"name": "c"}]})),
    ("podtemplates", in_pod(**{"$setElementOrder/foo": [{"name": "c"}]})),
    ("podtemplates", in_pod(**{"$setElementOrder/restartPolicy": ["c"]})),
    ("podtemplates", in_pod(**{"$setElementOrder/securityContext": ["c"]})),
    (
        "podtemplates",
        in_pod(
            **{
                "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
                "containers": [{"name": "c"}, {"name": "d"}],
            }
        ),
    ),
    ("pods", {"spec": {"containers": [{"name": "c", "image": "example/c:2"}]}}),
    ("pods", {"spec": {"containers": [{"name": "e", "image": "example/e:2"}]}}),
    ("pods", {"metadata": {"finalizers": ["example.com/a"], "labels": {"a": "b"}}}),
    ("pods", {"spec": {"tolerations": [*POD["tolerations"], {"key": "b", "operator": "Exists"}]}}),
    ("jobs", {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}, "suspend": False}}),
    ("jobs", {"spec": {"parallelism": 3, "backoffLimit": None}}),
    ("jobs", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
]
BODIES: list[tuple[str, str]] = [
    *((kind, body) for kind in (MERGE, STRATEGIC) for body in ("[]", "1", "{", "x", '"a"', "true", "null", "{}")),
    (MERGE, '{"data":{"b":null,"c":"3"}}'),
    (MERGE, '{"data":null,"binaryData":{"x":"AA==","y":null}}'),
    (MERGE, '{"metadata":{"labels":null,"finalizers":["example.com/a"]}}'),
    (MERGE, '{"metadata":{"name":"other"}}'),
    *(
        (JSON, body)
        for body in (
            "null",
            "[null]",
            "[1]",
            '{"a":1}',
            "[",
            "nul",
            '[{"op":1,"path":"/a"}]',
            '[{"op":"add","path":[]}]',
            '[{"op":"remove","path":"/data/zz"}]',
            '[{"op":"replace","path":"/data/zz","value":"1"}]',
            '[{"op":"add","path":"/data/b","value":null}]',
            '[{"op":"add","path":"/data/b/c","value":"1"}]',
            '[{"op":"add","path":"data","value":{}}]',
            '[{"op":"add","path":"x/data","value":{}}]',
            '[{"op":"copy","from":"/data/a","path":"/data/c"},{"op":"remove","path":"/data/a"}]',
            '[{"op":"copy","from":"/data/zz","path":"/data/c"}]',
            '[{"op":"move","from":"/data/a","path":"/data/c"}]',
            '[{"op":"move","from":"/data/zz","path":"/data/c"}]',
            '[{"op":"test","path":"/data/h","value":"a\\u003cb"}]',
            '[{"op":"test","path":"/data/a","value":"1"},{"op":"remove","path":"/data/a"}]',
            '[{"op":"test","path":"/data","value":{"a":"1"}}]',
            '[{"op":"test","path":"/data/zz","value":null}]',
            '[{"op":"test","path":"/data/zz"}]',
            (
                '[{"op":"add","path":"/metadata/finalizers","value":["example.com/a"]},'
                '{"op":"add","path":"/metadata/finalizers/-1","value":"example.com/b"}]'
            ),
            '[{"op":"foo","path":"/data"}]',
            '[{"path":"/data"}]',
            '[{"op":"add"}]',
        )
    ),
]


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def answer(transport: HTTPTransport, method: str, path: str, body: bytes, kind: str = "") -> Document:
    query = {} if method == "POST" else {"dryRun": "All"}
    content = {"Content-Type": f"application/{kind}+json" if kind else "application/json"}
    got = await transport.send(Request(method, path, query, headers=content, body=body))
    found: Document = json.loads(got.body)
    found.get("metadata", {}).pop("managedFields", None)
    return found


def ours(live: Document, kind: str, body: bytes, models: Document, model: str) -> Document:
    if kind == JSON:
        made: Document = json_patch(live, body)
        return made
    if kind == MERGE:
        return merge_patch(live, read_merge_patch(body))
    return strategic_merge_patch(live, read_strategic_patch(body), Types(models).named(model))


def without_sentence(answer: Document) -> Document:
    """Errors about what a client sent have other words here: docs/local-differences.md."""
    if answer["kind"] != "Status" or answer["code"] not in SENTENCES:
        return answer
    return {key: value for key, value in answer.items() if key != "message"}


async def compare(
    transport: HTTPTransport, namespace: str, cases: list[tuple[str, str, bytes]]
) -> list[tuple[str, Document, Document]]:
    """The cases in which the two differ, with our answer and the real one."""
    different: list[tuple[str, Document, Document]] = []
    models: Document = {}
    for group in ("api/v1", "apis/batch/v1"):
        got = await transport.send(Request("GET", f"/openapi/v3/{group}"))
        models |= json.loads(got.body)["components"]["schemas"]
    for plural in sorted({plural for plural, _, _ in cases}):
        group = "/apis/batch/v1" if plural == "jobs" else "/api/v1"
        folder = f"{group}/namespaces/{namespace}/{plural}"
        created = {**OBJECTS[plural], "metadata": {"name": "a", **OBJECTS[plural].get("metadata", {})}}
        live = await answer(transport, "POST", folder, json.dumps(created).encode())
        assert live["kind"] != "Status", live
        for _, kind, body in (case for case in cases if case[0] == plural):
            real = await answer(transport, "PATCH", f"{folder}/a", body, kind)
            try:
                made = ours(live, kind, body, models, MODELS[plural])
            except PatchError as error:
                found = StatusError(error.code, error.reason, str(error), error.details).document()
            else:
                found = await answer(transport, "PUT", f"{folder}/a", json.dumps(made).encode())
            if without_sentence(found) != without_sentence(real):
                different.append((f"{plural} {kind} {body.decode()}", found, real))
    return different


async def test_strategic_merge_patches(transport: HTTPTransport, namespace: str) -> None:
    cases = [(plural, STRATEGIC, json.dumps(patch).encode()) for plural, patch in STRATEGIC_CASES]
    assert not await compare(transport, namespace, cases)


async def test_bodies(transport: HTTPTransport, namespace: str) -> None:
    assert not await compare(transport, namespace, [("configmaps", kind, body.encode()) for kind, body in BODIES])
