# SPDX-License-Identifier: Apache-2.0
"""Definitions are refused by the schema engine in the words of the real API server, and built-in kinds decoded."""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cases import cases
from tests.integration.local.compared import DEFINITIONS, Answer, Document, of_errors, of_server
from tests.integration.local.definitions import CHANGES, good
from trainwright.controller.local.apiserver.schema.crd import unknown_field
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

CASES = cases(__file__)


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


@pytest.mark.parametrize(
    ("group", "model", "path", "documents"),
    [
        ("api/v1", "core.v1.Pod", "/api/v1/namespaces/{}/pods", CASES["pods"]),
        ("apis/batch/v1", "batch.v1.Job", "/apis/batch/v1/namespaces/{}/jobs", CASES["jobs"]),
        (
            "apis/admissionregistration.k8s.io/v1",
            "admissionregistration.v1.ValidatingWebhookConfiguration",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            CASES["hooks"],
        ),
        (
            "apis/coordination.k8s.io/v1",
            "coordination.v1.Lease",
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            CASES["leases"],
        ),
        (
            "apis/apiextensions.k8s.io/v1",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            DEFINITIONS,
            CASES["definitions"],
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
