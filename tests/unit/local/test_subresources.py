# SPDX-License-Identifier: Apache-2.0
"""Subresources of built-in kinds: which verbs they have, which objects they take, and which webhooks are asked."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.local.identity.conftest import PODS, Asker, Document
from trainwright.controller.local.cluster import RunningServer, api_server

FINALIZE = "/api/v1/namespaces/default/finalize"
HOOK = "https://hook.example.com"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    """Asks a server with a pod `p`."""
    async with api_server(tmp_path / "state", memory=True) as api:
        asker = Asker(api)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert (await asker("POST", PODS, pod))[0] == 201
        yield asker


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "DELETE"])
async def test_finalize_can_only_be_updated(ask: Asker, method: str) -> None:
    status, answer = await ask(method, FINALIZE, {})
    assert (status, answer["reason"]) == (405, "MethodNotAllowed")
    assert (await ask("PUT", FINALIZE, {"metadata": {"name": "default"}}))[0] == 200


async def test_a_status_can_be_read(ask: Asker) -> None:
    assert (await ask("GET", f"{PODS}/p/status"))[0] == 200
    assert (await ask("DELETE", f"{PODS}/p/status"))[0] == 405


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
async def test_the_object_is_in_the_namespace_of_the_url(ask: Asker, subresource: str) -> None:
    target = {"kind": "Node", "name": "n"} if subresource == "binding" else None
    body = {"metadata": {"name": "p", "namespace": "other"}, **({"target": target} if target else {})}
    status, answer = await ask("POST", f"{PODS}/p/{subresource}", body)
    assert (status, answer["message"]) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )
    body["metadata"]["namespace"] = "default"
    assert (await ask("POST", f"{PODS}/p/{subresource}", body))[0] == 201


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            "sinceTime=x",
            400,
            "sinceTime: 'x' is not a time such as 2026-01-02T03:04:05Z",
        ),
        (
            "sinceTime=2026-01-01T00:00:00Z&sinceSeconds=1",
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
    ],
)
async def test_options_of_logs(ask: Asker, query: str, code: int, message: str) -> None:
    status, answer = await ask("GET", f"{PODS}/p/log?{query}")
    invalid = 'PodLogOptions "p" is invalid: ' if code == 422 else ""
    assert (status, answer["message"]) == (code, invalid + message)


class Webhook:
    """Answers reviews in the process of the server: it refuses, or sets a label."""

    def __init__(self, api: RunningServer) -> None:
        self.asked: list[Document] = []
        self.patch: list[Document] = []
        self.refuses = False
        api.webhooks.answer_here(HOOK, self._answer)

    async def _answer(self, path: str, body: bytes) -> bytes:
        request = json.loads(body)["request"]
        self.asked.append({name: request.get(name) for name in ("kind", "operation", "subResource", "object")})
        response: Document = {"uid": request["uid"], "allowed": not self.refuses}
        if path == "/mutate" and self.patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(self.patch).encode()).decode()}
        return json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()


async def configure(ask: Asker, kind: str, path: str) -> None:
    """Have the webhook asked about everything that is done to pods."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods", "pods/*"]}
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": f"{HOOK}{path}"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configurations = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    status, answer = await ask("POST", configurations, {"metadata": {"name": "c"}, "webhooks": [webhook]})
    assert status == 201, answer


async def test_webhooks_are_asked_about_evictions_and_not_about_the_deletion(ask: Asker) -> None:
    hook = Webhook(ask.api)
    await configure(ask, "validating", "/validate")
    hook.refuses = True
    status, answer = await ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert (status, answer["message"]) == (
        400,
        'admission webhook "hook.example.com" denied the request without explanation',
    )
    assert (await ask("GET", f"{PODS}/p"))[0] == 200
    hook.refuses = False
    assert (await ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}))[0] == 201
    assert [(one["operation"], one["subResource"]) for one in hook.asked] == [("CREATE", "eviction")] * 2
    assert hook.asked[0]["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert (hook.asked[0]["object"]["kind"], hook.asked[0]["object"]["apiVersion"]) == ("Eviction", "policy/v1")


async def test_webhooks_change_bindings(ask: Asker) -> None:
    hook = Webhook(ask.api)
    await configure(ask, "mutating", "/mutate")
    hook.patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await ask("POST", f"{PODS}/p/binding", binding))[0] == 201
    pod = (await ask("GET", f"{PODS}/p"))[1]
    assert (pod["spec"]["nodeName"], pod["metadata"]["labels"]) == ("n", {"a": "b"})
    (asked,) = hook.asked
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert asked["object"]["kind"] == "Binding"
