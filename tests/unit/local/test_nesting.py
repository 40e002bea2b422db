# SPDX-License-Identifier: Apache-2.0
"""Documents that are nested deeply: taken up to a limit, refused beyond it, and never a defect."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.identity.conftest import Asker, Document
from tests.unit.local.test_definitions import settled
from trainwright.api.manifest import DEEPEST
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.cluster import api_server
from trainwright.controller.local.values import is_too_deep

MAPS, FREES = "/api/v1/namespaces/default/configmaps", "/apis/example.com/v1/namespaces/default/frees"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
DEPTHS = (250, 500, 950, 3000, 9000, 10_001, 100_000)


def objects(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def lists(levels: int) -> str:
    return "[" * levels + "]" * levels


def definition(schema: Document, plural: str = "frees") -> Document:
    names = {"plural": plural, "singular": plural[:-1], "kind": plural.title(), "listKind": f"{plural.title()}List"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    """Asks a server that has a kind without a schema, and an object `d` of it and of ConfigMap."""
    async with api_server(tmp_path, memory=True) as api:
        asker = Asker(api)
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        assert (await asker("POST", DEFINITIONS, definition(free)))[0] == 201
        await settled()
        made = {"apiVersion": "example.com/v1", "kind": "Frees", "metadata": {"name": "d"}}
        assert (await asker("POST", FREES, made))[0] == 201
        assert (await asker("POST", MAPS, {"metadata": {"name": "d"}}))[0] == 201
        yield asker


async def sent(ask: Asker, method: str, path: str, body: str, media: str = JSON) -> tuple[int, str]:
    """Status, and the message of a refusal."""
    answer = await ask.api.server.handle(
        ServerRequest(
            method=method,
            path=path,
            query=[("fieldManager", "me")] if media == APPLY else [],
            headers={"authorization": f"Bearer {ask.admin}", "content-type": media},
            body=body.encode(),
        )
    )
    return answer.status, json.loads(answer.body).get("message", "")


def custom(inner: str) -> str:
    return '{"apiVersion":"example.com/v1","kind":"Frees","metadata":{"name":"e"},"x":' + inner + "}"


CASES: dict[str, tuple[str, str, str, str]] = {
    "create": ("POST", MAPS, '{"metadata":{"name":"e"},"x":%s}', JSON),
    "create a custom resource": ("POST", FREES, custom("%s"), JSON),
    "update": ("PUT", f"{FREES}/d", custom("%s").replace('"e"', '"d"'), JSON),
    "apply": ("PATCH", f"{FREES}/e", custom("%s"), APPLY),
    "merge patch": ("PATCH", f"{FREES}/d", '{"x":%s}', MERGE),
    "strategic patch": ("PATCH", f"{MAPS}/d", '{"metadata":{"annotations":{"x":%s}}}', STRATEGIC),
    "JSON patch": ("PATCH", f"{FREES}/d", '[{"op":"add","path":"/x","value":%s}]', PATCH),
    "managed fields": (
        "POST",
        MAPS,
        '{"metadata":{"name":"e","managedFields":[{"manager":"a","fieldsV1":%s}]}}',
        JSON,
    ),
    "options of a deletion": ("DELETE", f"{MAPS}/d", '{"x":%s}', JSON),
    "review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", '{"spec":{"x":%s}}', JSON),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("nested", [objects, lists])
async def test_what_is_too_deep_is_refused(ask: Asker, case: str, nested: Any) -> None:
    method, path, body, media = CASES[case]
    for levels in DEPTHS:
        status, message = await sent(ask, method, path, body % nested(levels), media)
        assert status == 400, (levels, status, message[-200:])
        assert "depth" in message or "deep" in message, message[-200:]


@pytest.mark.parametrize("case", ["create a custom resource", "apply", "merge patch", "JSON patch"])
@pytest.mark.parametrize("nested", [objects, lists])
async def test_what_is_less_deep_is_kept(ask: Asker, case: str, nested: Any) -> None:
    method, path, body, media = CASES[case]
    levels = DEEPEST - 10
    status, message = await sent(ask, method, path, body % nested(levels), media)
    assert status in (200, 201), message[-200:]
    found = ask.api.server.store.get("frees.example.com", ObjectName("default", "e" if '"e"' in body else "d"))
    assert found is not None
    assert found.document()["x"] == json.loads(nested(levels))
    assert (await ask("GET", FREES))[0] == 200
    assert (await ask("GET", FREES, accept="application/json;as=Table;v=v1;g=meta.k8s.io"))[0] == 200


async def test_a_patch_may_not_make_an_object_deeper_than_that(ask: Asker) -> None:
    levels = DEEPEST - 10
    assert (await sent(ask, "PATCH", f"{FREES}/d", CASES["merge patch"][2] % objects(levels), MERGE))[0] == 200
    path = "/x" + "/a" * levels
    status, message = await sent(
        ask, "PATCH", f"{FREES}/d", json.dumps([{"op": "add", "path": path, "value": json.loads(objects(20))}]), PATCH
    )
    assert (status, message) == (400, f"the result of the patch exceeded max depth of {DEEPEST} levels")


@pytest.mark.parametrize("levels", [30, 60, 90, 120, 200, 450, 2000])
async def test_schemas(ask: Asker, levels: int) -> None:
    objects_: Document = {"type": "string"}
    lists_: Document = {"type": "string"}
    for _ in range(min(levels, 400)):
        objects_ = {"type": "object", "properties": {"a": objects_}}
        lists_ = {"type": "array", "items": lists_}
    for schema in (objects_, {"type": "object", "properties": {"a": lists_}}):
        status, answer = await ask("POST", DEFINITIONS, definition(schema, "deeps"))
        assert status == (400 if is_too_deep(definition(schema)) else 201), answer.get("message", "")[-200:]
        if status == 201:
            assert (await ask("DELETE", f"{DEFINITIONS}/deeps.example.com"))[0] == 200
            await settled()


@pytest.mark.parametrize("levels", DEPTHS[:-1])
async def test_texts_in_documents(ask: Asker, levels: int) -> None:
    """Such as an annotation that holds JSON, and keys of managed fields."""
    last = {"kubectl.kubernetes.io/last-applied-configuration": objects(levels)}
    body: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "t", "annotations": last}}
    assert (await ask("POST", MAPS, body))[0] == 201
    body["metadata"]["annotations"] = None
    assert (await sent(ask, "PATCH", f"{MAPS}/t", json.dumps(body), APPLY))[0] in (200, 409)
    fields: Document = {f"v:{lists(levels)}": {}, f'k:{{"a":{lists(levels)}}}': {}}
    entry = {"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    answer = await ask("POST", MAPS, {"metadata": {"name": f"f{levels}", "managedFields": [entry]}})
    assert answer[0] in (201, 400)
    content = base64.b64encode(objects(levels).encode()).decode()
    secret = {
        "metadata": {"name": f"s{levels}"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": content},
    }
    assert (await ask("POST", "/api/v1/namespaces/default/secrets", secret))[0] in (201, 422)


@pytest.mark.parametrize("levels", DEPTHS)
async def test_tokens(ask: Asker, levels: int) -> None:
    part = base64.urlsafe_b64encode(objects(levels).encode()).decode().rstrip("=")
    assert (await ask("GET", MAPS, token=f"{part}.{part}.{part}"))[0] == 401
    assert (await ask.review(f"{part}.{part}.{part}")).get("authenticated") is None
