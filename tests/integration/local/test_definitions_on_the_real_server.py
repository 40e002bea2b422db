# SPDX-License-Identifier: Apache-2.0
"""Definitions are refused by the schema engine in the words of the real API server, and built-in kinds decoded."""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.local.compared import DEFINITIONS, Answer, Document, of_errors, of_server
from tests.integration.local.definitions import CHANGES, Change, field, good, names, spec, version
from trainwright.controller.local.apiserver.schema import unknown_field
from trainwright.controller.local.apiserver.schema.definitions import (
    accepted_names,
    set_defaults,
    unrecognized_formats,
    validate_definition,
)
from trainwright.controller.local.types.go_json import DocumentDecodeError, decode
from trainwright.controller.local.types.model import Types
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually, is_empty


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def post(transport: HTTPTransport, path: str, document: Document, **query: str) -> Response:
    headers = {"Content-Type": "application/json"}
    return await transport.send(Request("POST", path, query, headers, json.dumps(document).encode()))


async def test_what_is_said_of_definitions(transport: HTTPTransport) -> None:
    found: list[str] = []
    for name, change in CHANGES.items():
        crd = good()
        change(crd)
        theirs = of_server(await post(transport, DEFINITIONS, crd, dryRun="All"))
        set_defaults(crd)
        errors = validate_definition(crd)
        schemas = [one["schema"]["openAPIV3Schema"] for one in crd["spec"].get("versions", ()) if "schema" in one]
        warnings = tuple(f'unrecognized format "{form}"' for form in unrecognized_formats(*schemas[:1] or ({},)))
        ours = of_errors(errors, warnings) if errors else Answer(200, warnings=warnings)
        said = (theirs.code, theirs.errors, theirs.warnings if theirs.code == 200 else warnings)
        if (ours.code, ours.errors, ours.warnings) != said:
            found.append(f"{name}\n  server {theirs}\n  engine {ours}")
    assert not found, "\n".join(found)


async def status_of(transport: HTTPTransport, crd: Document) -> Document:
    """The status of a definition once the server has looked at its names."""
    assert (await post(transport, DEFINITIONS, crd)).status == 201
    path = f"{DEFINITIONS}/{crd['metadata']['name']}"

    async def status() -> Document:
        found: Document = json.loads((await transport.send(Request("GET", path))).body)["status"]
        return found

    async def settled() -> str:
        conditions = {one["type"]: one for one in ((await status())["conditions"] or ())}
        wanted = {"InitialNamesAccepted", "NotAccepted"}
        return "" if conditions.get("Established", {}).get("reason") in wanted else f"conditions are {conditions}"

    await eventually(settled, is_empty)
    return await status()


async def test_names_and_conditions(transport: HTTPTransport) -> None:
    others: list[Document] = []
    wanted: list[tuple[str, Document]] = [
        ("firsts", {"shortNames": ["ft"], "categories": ["all"]}),
        ("seconds", {"shortNames": ["ft", "first", "sd"], "kind": "First"}),
        ("thirds", {"singular": "first", "listKind": "FirstList"}),
        ("fourths", {"kind": "FirstList", "listKind": "Fourths"}),
    ]
    for plural, more in wanted:
        crd = good(plural)
        crd["spec"]["names"] |= more
        theirs = await status_of(transport, crd)
        set_defaults(crd)
        accepted = accepted_names(crd, others)
        conditions = [{**one, "lastTransitionTime": ""} for one in theirs["conditions"]]
        assert [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "lastTransitionTime": "",
            }
            for one in accepted.conditions
        ] == [{name: value for name, value in one.items() if name != "observedGeneration"} for one in conditions]
        assert {name: value for name, value in accepted.names.items() if value} == {
            name: value for name, value in theirs["acceptedNames"].items() if value
        }
        others.append({**crd, "status": {"acceptedNames": accepted.names}})


def pod(metadata: Document | None = None, spec: Document | None = None, **container: Any) -> Document:
    whole = {"containers": [{"name": "a", "image": "b", **container}], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **(metadata or {})}, "spec": whole}


PODS: list[Document] = [
    pod(),
    pod({"labels": {"a": 1}}),
    pod({"labels": []}),
    pod({"labels": {"a": None}, "unknown": {"a": 1}}),
    pod({"ownerReferences": {"a": 1}}),
    pod({"creationTimestamp": "soon"}),
    pod({"creationTimestamp": 5}),
    pod({"creationTimestamp": "2026-01-01T00:00:00"}),
    pod(name=1),
    pod(imagePullPolicy=5),
    pod(nonsense=1, ports=[{"containerPort": 1, "bar": 1}]),
    pod(ports=[{"containerPort": "x", "bar": 1}]),
    pod(ports=[{"containerPort": 1.5}]),
    pod(ports=[{"containerPort": 3000000000}]),
    pod(ports={}),
    pod(resources={"limits": {"cpu": "lots"}}),
    pod(resources={"limits": {"cpu": {}}}),
    pod(resources={"limits": {"cpu": "1x"}}),
    pod(resources={"limits": {"cpu": True}}),
    pod(resources={"limits": []}),
    pod(resources={"limits": {"cpu": 1, "memory": "1Gi"}}),
    pod(livenessProbe={"httpGet": {"port": True}}),
    pod(livenessProbe={"httpGet": {"port": 1.5}}),
    pod(livenessProbe={"httpGet": {"port": 80, "x": 1}, "y": 2}),
    pod(env=[{"name": "a", "valueFrom": {"secretKeyRef": {"name": 1}}}]),
    pod(env=[{"name": "a", "x.y": 1}]),
    pod(spec={"containers": "x"}),
    pod(spec={"containers": [7]}),
    pod(spec={"hostNetwork": "x"}),
    pod(spec={"terminationGracePeriodSeconds": "x"}),
    pod(spec={"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "x y"}}]}),
    pod(spec={"volumes": [{"name": "v", "configMap": {"name": 1}}]}),
    pod(spec={"volumes": [{"name": "v", "emptyDir": []}]}),
    pod(spec={"nodeSelector": {"a": True}}),
    pod(spec={"unknown": None, "affinity": {"nodeAffinity": {"wrong": []}}}),
    {**pod(), "spec": []},
    {**pod(), "metadata": []},
    {**pod(), "status": "x", "other": 1},
    {**pod(), "other": {"a": 1}},
]


def job(**spec: Any) -> Document:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


JOBS: list[Document] = [
    job(),
    job(parallelism="x"),
    job(unknown=1, template={"metadata": {"labels": {"a": 1}}}),
    job(completionMode=1),
    job(selector={"matchLabels": []}),
    job(podFailurePolicy={"rules": [{"onExitCodes": {"values": ["a"]}}]}),
    job(ttlSecondsAfterFinished=1.5),
    job(template=[]),
]


def hook(**words: Any) -> Document:
    client = {"url": "https://127.0.0.1/x"}
    whole = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": client, **words}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
        "webhooks": [whole],
    }


HOOKS: list[Document] = [
    hook(),
    hook(failurePolicy=1),
    hook(rules=[{"operations": "x"}]),
    hook(rules=[{"operations": ["*"], "apiGroups": [1]}]),
    hook(clientConfig={"caBundle": "!"}),
    hook(namespaceSelector={"matchExpressions": [{"operator": 1}]}),
    hook(unknown=1),
]


def lease(**spec: Any) -> Document:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "w"}, "spec": spec}


LEASES: list[Document] = [
    lease(),
    lease(renewTime="x"),
    lease(renewTime="2026-01-01T00:00:00.123456Z"),
    lease(renewTime="2026-01-01T00:00:00Z"),
    lease(leaseDurationSeconds="a", y=1),
    lease(acquireTime=5),
]


def _definition(change: Change) -> Document:
    crd = good()
    change(crd)
    return crd


_TEXT = {"type": "string"}
CRDS: list[Document] = [
    _definition(change)
    for change in (
        field({**_TEXT, "unknown": 1}),
        field({"type": 1}),
        field({"type": "array", "items": {**_TEXT, "unknown": 1}}),
        field({"type": "object", "additionalProperties": {**_TEXT, "unknown": 1}}),
        field({"type": "object", "additionalProperties": 5}),
        field({**_TEXT, "enum": "x"}),
        field({**_TEXT, "default": {"a": None}}),
        field({**_TEXT, "minLength": "a"}),
        field({"type": "number", "maximum": "a"}),
        field({**_TEXT, "x-kubernetes-validations": [{"rule": 1}]}),
        spec(versions={}),
        spec(scope=5),
        names(shortNames="x"),
        version(served="true"),
    )
]


@pytest.mark.parametrize(
    ("group", "model", "path", "documents"),
    [
        ("api/v1", "core.v1.Pod", "/api/v1/namespaces/{}/pods", PODS),
        ("apis/batch/v1", "batch.v1.Job", "/apis/batch/v1/namespaces/{}/jobs", JOBS),
        (
            "apis/admissionregistration.k8s.io/v1",
            "admissionregistration.v1.ValidatingWebhookConfiguration",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            HOOKS,
        ),
        (
            "apis/coordination.k8s.io/v1",
            "coordination.v1.Lease",
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            LEASES,
        ),
        (
            "apis/apiextensions.k8s.io/v1",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            DEFINITIONS,
            CRDS,
        ),
    ],
)
async def test_built_in_kinds_are_decoded_alike(
    transport: HTTPTransport, namespace: str, group: str, model: str, path: str, documents: list[Document]
) -> None:
    published = json.loads((await transport.send(Request("GET", f"/openapi/v3/{group}"))).body)
    types = Types(published["components"]["schemas"])
    name = model if model.startswith("io.") else f"io.k8s.api.{model}"
    found: list[str] = []
    for document in documents:
        answer = await post(transport, path.format(namespace), document, dryRun="All")
        warnings = tuple(text for text in answer.warnings if text.startswith("unknown field"))
        theirs: Any = 400 if answer.status == 400 else warnings
        try:
            dropped = decode(types.named(name), copy.deepcopy(document))
            ours: Any = tuple(map(unknown_field, dropped))
        except DocumentDecodeError:
            # In other words: docs/local-differences.md.
            ours = 400
        if ours != theirs:
            found.append(f"{json.dumps(document)}\n  server {theirs}\n  engine {ours}")
    assert not found, "\n".join(found)
