# SPDX-License-Identifier: Apache-2.0
"""A webhook that converts, behind a Service, which no recording has: `8.8-conversion` of the scenarios has the rest."""

import json
from pathlib import Path
from typing import Any

from tests.scenarios.hooks import serving
from tests.scenarios.model import load
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.waiting import eventually

Document = dict[str, Any]


def connections_at(url: str) -> list[str]:
    """Connections of which a process still has an end; see proc_net_tcp(5)."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[9] for row in rows if port in (row[1][-5:], row[2][-5:]) and row[9] != "0"]


async def test_it_is_reached_once_the_service_is_and_asked_again_later(local_cluster: LocalCluster) -> None:
    [scenario, *_] = load("8.8-conversion")
    definition: Document = json.loads(json.dumps(scenario.steps[0].body))
    service = {"name": "hooks", "namespace": "system", "path": "/convert"}
    definition["spec"]["conversion"]["webhook"]["clientConfig"] = {"service": service}
    group = definition["spec"]["group"]
    transport = HTTPTransport(load_config(local_cluster.kubeconfig))

    async def send(method: str, path: str, body: Document | None = None) -> tuple[int, Document]:
        data = None if body is None else json.dumps(body).encode()
        answer = await transport.send(Request(method, path, {}, {"Content-Type": "application/json"}, data))
        return answer.status, json.loads(answer.body) if answer.body.startswith(b"{") else {}

    def rods(version: str, name: str = "") -> str:
        return f"/apis/{group}/{version}/namespaces/default/rods/{name}".rstrip("/")

    script: Document = {"converts": True}
    try:
        async with serving({"convert": script}) as hooks:
            code, answer = await send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            assert code == 201, answer
            await eventually(lambda: send("GET", rods("v2")), lambda answer: answer[0] == 200)
            rod = {"apiVersion": f"{group}/v2", "kind": "Rod", "metadata": {"name": "a"}}
            code, answer = await send("POST", rods("v2"), {**rod, "spec": {"length": 5, "unit": "m"}})
            assert code == 201, answer
            code, answer = await send("GET", rods("v1", "a"))
            assert (code, 'service "hooks" not found' in answer["message"]) == (500, True)
            local_cluster.route_service("system/hooks", hooks.url.removeprefix("https://"))
            code, answer = await send("GET", rods("v1", "a"))
            assert (code, answer["spec"]) == (200, {"size": "5 m"})
            script["converts"] = False
            await eventually(lambda: send("GET", rods("v1", "a")), lambda answer: answer[0] == 500)
        await eventually(lambda: not connections_at(hooks.url))
    finally:
        await transport.close()
