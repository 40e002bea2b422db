# SPDX-License-Identifier: Apache-2.0
"""A definition whose versions a webhook converts, on the real API server and on ours; webhooks behind a Service.

The webhook serves `v1`, whose spec has `size: "3 cm"`, and the stored `v2`, whose spec has `length: 3` and `unit: cm`.
"""

import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.programs import Authority
from trainwright.controller.runtime.testing.waiting import eventually

Document = dict[str, Any]

GROUP = "conversion.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_LISTENS = "0A"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def convert(document: Document, wanted: str) -> Document:
    """As an operator does it."""
    spec = document["spec"]
    if wanted.endswith("/v2"):
        length, _, unit = spec["size"].partition(" ")
        made = {"length": int(length), "unit": unit}
    else:
        made = {"size": f"{spec['length']} {spec['unit']}"}
    return {**document, "apiVersion": wanted, "spec": made}


class Webhook:
    """Serves conversions and one validating webhook, which is for `v2` alone."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder / "authority")
        self._folder = folder
        self.conversions = 0
        self.judged: list[Document] = []
        self.fails = False
        self.code = convert
        self.port = 0

    @property
    def bundle(self) -> str:
        return base64.b64encode(self._authority.pem).decode()

    def client(self, path: str) -> Document:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}

    async def convert(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        self.conversions += 1
        response: Document = {"uid": asked["uid"], "result": {"status": "Success"}}
        if self.fails:
            response["result"] = {"status": "Failure", "message": "out of order"}
        else:
            response["convertedObjects"] = [self.code(one, asked["desiredAPIVersion"]) for one in asked["objects"]]
        return web.json_response({**{key: review[key] for key in ("kind", "apiVersion")}, "response": response})

    async def judge(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        self.judged.append(asked["object"])
        return web.json_response({**review, "response": {"uid": asked["uid"], "allowed": True}})

    async def serve(self, hosts: tuple[str, ...] = ("127.0.0.1",)) -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/convert", self.convert)
        application.router.add_post("/judge", self.judge)
        # An API server must know that a connection is closed: else it uses it for its next request.
        application.on_response_prepare.append(self._close_after)
        runner = web.AppRunner(application)
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._authority.server("webhook", hosts=hosts))
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _close_after(self, _: web.Request, response: web.StreamResponse) -> None:
        response.force_close()
        response.headers["Connection"] = "close"

    async def stop(self, runner: web.AppRunner) -> None:
        """End the server, and its connections, also one that an API server opens at that moment."""
        server = runner.server
        await runner.cleanup()

        def is_over() -> bool:
            for handler in server.connections if server is not None else ():
                if handler.transport is not None:
                    handler.transport.abort()
            return not connections_at(self.port)

        await eventually(is_over)


def connections_at(port: int) -> list[str]:
    """Connections whose end at the port a process still has; see proc_net_tcp(5)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] != _LISTENS and row[9] != "0"]


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    made = Webhook(tmp_path)
    runner = await made.serve()
    yield made
    await made.stop(runner)


def definition(plural: str, client: Document) -> Document:
    def version(name: str, **spec: Document) -> Document:
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
        columns = [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}] if name == "v1" else []
        return {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": columns,
            "selectableFields": [{"jsonPath": f".spec.{next(iter(spec))}"}],
        }

    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": plural[:-1], "kind": "Rod", "listKind": "RodList"},
        "versions": [version("v1", size=TEXT), version("v2", length=NUMBER, unit=TEXT)],
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        },
    }
    metadata = {"name": f"{plural}.{GROUP}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


class API:
    """Requests about rods."""

    def __init__(self, transport: HTTPTransport, namespace: str, plural: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self.plural = plural

    async def send(self, method: str, path: str, body: Document | None = None, **how: Any) -> tuple[int, Document]:
        headers = {
            "Content-Type": how.pop("media", "application/json"),
            "Accept": how.pop("accept", "application/json"),
        }
        data = None if body is None else json.dumps(body).encode()
        answer = await self._transport.send(Request(method, path, how.pop("query", {}), headers, data))
        # Until a definition is served, its paths are pages that are not found.
        return answer.status, json.loads(answer.body) if answer.body.startswith(b"{") else {}

    async def rods(self, method: str, version: str, name: str = "", body: Document | None = None, **how: Any) -> Any:
        path = f"/apis/{GROUP}/{version}/namespaces/{self._namespace}/{self.plural}"
        return await self.send(method, f"{path}/{name}" if name else path, body, **how)

    async def create(self, version: str, name: str, **spec: Any) -> Document:
        document = {"apiVersion": f"{GROUP}/{version}", "kind": "Rod", "metadata": {"name": name}, "spec": spec}
        code, made = await self.rods("POST", version, body=document)
        assert code == 201, made
        found: Document = made
        return found


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


@pytest.fixture
async def api(transport: HTTPTransport, webhook: Webhook, namespace: str) -> AsyncIterator[API]:
    plural = f"rods{namespace.replace('-', '')}"
    made = API(transport, namespace, plural)
    code, answer = await made.send("POST", DEFINITIONS, definition(plural, webhook.client("/convert")))
    assert code == 201, answer
    await eventually(lambda: made.rods("GET", "v1"), lambda answer: answer[0] == 200)
    yield made
    await made.send("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_objects_are_read_and_written_in_both_versions(api: API) -> None:
    old = await api.create("v1", "a", size="3 cm")
    assert (old["apiVersion"], old["spec"]) == (f"{GROUP}/v1", {"size": "3 cm"})
    _, new = await api.rods("GET", "v2", "a")
    assert new["spec"] == {"length": 3, "unit": "cm"}
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    await api.create("v2", "b", length=5, unit="m")
    _, listed = await api.rods("GET", "v1")
    assert [one["spec"]["size"] for one in listed["items"]] == ["3 cm", "5 m"]
    _, chosen = await api.rods("GET", "v1", query={"fieldSelector": "spec.size=5 m"})
    assert [one["metadata"]["name"] for one in chosen["items"]] == ["b"]
    _, table = await api.rods("GET", "v1", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"] for row in table["rows"]] == [["a", "3 cm"], ["b", "5 m"]]


async def test_changes_in_one_version_are_seen_in_the_other(api: API) -> None:
    await api.create("v2", "a", length=5, unit="m")
    code, made = await api.rods("PATCH", "v1", "a", {"spec": {"size": "6 m"}}, media="application/merge-patch+json")
    assert (code, made["spec"]) == (200, {"size": "6 m"})
    _, made = await api.rods("GET", "v2", "a")
    assert made["spec"] == {"length": 6, "unit": "m"}
    applied = {"apiVersion": f"{GROUP}/v1", "kind": "Rod", "metadata": {"name": "a"}, "spec": {"size": "7 km"}}
    how: Document = {"media": "application/apply-patch+yaml", "query": {"fieldManager": "m", "force": "true"}}
    code, made = await api.rods("PATCH", "v1", "a", applied, **how)
    assert code == 200, made
    _, made = await api.rods("GET", "v2", "a")
    assert made["spec"] == {"length": 7, "unit": "km"}
    made["spec"]["length"] = 8
    code, made = await api.rods("PUT", "v2", "a", made)
    assert code == 200, made
    _, gone = await api.rods("DELETE", "v1", "a")
    assert gone["status"] == "Success"


async def test_watches_are_of_one_version(api: API, transport: HTTPTransport, namespace: str) -> None:
    made = await api.create("v2", "a", length=5, unit="m")
    await api.rods("PATCH", "v2", "a", {"spec": {"length": 6}}, media="application/merge-patch+json")
    query = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": made["metadata"]["resourceVersion"]}
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{api.plural}"
    async with transport.open(Request("GET", path, query)) as stream:
        frames = (await stream.read()).splitlines()
    found = [json.loads(frame) for frame in frames]
    assert [(one["type"], one["object"]["spec"]) for one in found] == [("MODIFIED", {"size": "6 m"})]


async def test_webhooks_of_another_version_see_their_own(api: API, webhook: Webhook, namespace: str) -> None:
    rule = {"apiGroups": [GROUP], "apiVersions": ["v2"], "resources": ["*"], "operations": ["CREATE"]}
    hook = {
        "name": "judge.example.com",
        "clientConfig": webhook.client("/judge"),
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    name = f"judge-{namespace}"
    code, answer = await api.send("POST", HOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    assert code == 201, answer

    async def asked() -> bool:
        await api.create("v1", f"a{time.monotonic_ns()}", size="3 cm")
        return bool(webhook.judged)

    try:
        await eventually(asked)
    finally:
        await api.send("DELETE", f"{HOOKS}/{name}")
    assert webhook.judged[0]["spec"] == {"length": 3, "unit": "cm"}
    assert webhook.judged[0]["apiVersion"] == f"{GROUP}/v2"


@pytest.mark.parametrize(
    ("strategy", "judged", "used", "spec"),
    [("Webhook", "v2", "v1", {"size": "3 cm"}), ("None", "v1", "v2", {"length": 3, "unit": "cm"})],
)
async def test_policies_of_another_version_change_nothing(
    api: API, namespace: str, strategy: str, judged: str, used: str, spec: Document
) -> None:
    if strategy == "None":
        change = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        path = f"{DEFINITIONS}/{api.plural}.{GROUP}"
        code, answer = await api.send("PATCH", path, change, media="application/merge-patch+json")
        assert code == 200, answer
    rule = {"apiGroups": [GROUP], "apiVersions": [judged], "resources": [api.plural], "operations": ["CREATE"]}
    expression = f"object.apiVersion.endsWith('{judged}') && object.metadata.name != 'refused'"
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    name = f"judge-{namespace}-{judged}"
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for path, document in ((POLICIES, policy), (BINDINGS, binding)):
        code, answer = await api.send("POST", path, {"metadata": {"name": name}, "spec": document})
        assert code == 201, answer
    refused: Document = {"apiVersion": f"{GROUP}/{used}", "kind": "Rod", "metadata": {"name": "refused"}, "spec": spec}
    try:
        await eventually(
            lambda: api.rods("POST", used, body=refused, query={"dryRun": "All"}), lambda answer: answer[0] == 422
        )
        assert (await api.create(used, "a", **spec))["spec"] == spec
    finally:
        for path in (POLICIES, BINDINGS):
            await api.send("DELETE", f"{path}/{name}")


async def test_a_webhook_with_new_code_is_asked_again(api: API, webhook: Webhook) -> None:
    await api.create("v2", "a", length=5, unit="m")
    _, made = await api.rods("GET", "v1", "a")
    assert made["spec"] == {"size": "5 m"}
    webhook.code = lambda document, wanted: convert({**document, "spec": {"length": 6, "unit": "m"}}, wanted)
    _, made = await eventually(lambda: api.rods("GET", "v1", "a"), lambda answer: answer[1]["spec"] == {"size": "6 m"})
    assert made["metadata"]["name"] == "a"


async def test_a_webhook_that_fails_is_said(api: API, webhook: Webhook) -> None:
    await api.create("v2", "a", length=5, unit="m")
    webhook.fails = True
    code, answer = await api.rods("GET", "v1", "a")
    assert (code, answer["kind"]) == (500, "Status")
    assert "out of order" in answer["message"]
    code, _ = await api.rods("GET", "v2", "a")
    assert code == 200


async def test_a_definition_with_a_webhook_behind_a_service(local_cluster: LocalCluster, tmp_path: Path) -> None:
    """As manifests of kubebuilder have it; the certificate is for the name of the Service."""
    webhook = Webhook(tmp_path)
    runner = await webhook.serve(("hooks.system.svc",))
    service = {"service": {"name": "hooks", "namespace": "system", "path": "/convert"}, "caBundle": webhook.bundle}
    transport = HTTPTransport(load_config(local_cluster.kubeconfig))
    api = API(transport, "default", "rods")
    code, answer = await api.send("POST", DEFINITIONS, definition("rods", service))
    assert code == 201, answer
    try:
        await eventually(lambda: api.rods("GET", "v2"), lambda answer: answer[0] == 200)
        await api.create("v2", "a", length=5, unit="m")
        code, answer = await api.rods("GET", "v1", "a")
        assert (code, 'service "hooks" not found' in answer["message"]) == (500, True)
        local_cluster.route_service("system/hooks", f"127.0.0.1:{webhook.port}")
        code, made = await api.rods("GET", "v1", "a")
        assert (code, made["spec"]) == (200, {"size": "5 m"})
    finally:
        await transport.close()
        await webhook.stop(runner)
