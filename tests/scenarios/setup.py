# SPDX-License-Identifier: Apache-2.0
"""What is there before a scenario: its namespace, and what it names under `needs` (documents of `needs/`)."""

import asyncio
import json
from typing import Any

import yaml

from tests.scenarios.model import FOLDER, Scenario
from tests.scenarios.sides import Side
from trainwright.controller.runtime.client.transport import Request, Transport

_TRIES = 600
_PAUSE_SECONDS = 0.05


async def prepare(side: Side, scenario: Scenario) -> None:
    """Create the namespace and what the scenario needs."""
    transport = side.transport()
    await _create(transport, "/api/v1/namespaces", {"metadata": {"name": scenario.namespace}})
    for name in scenario.needs:
        for document in yaml.safe_load_all((FOLDER / "needs" / f"{name}.yaml").read_text()):
            if document["kind"] == "CustomResourceDefinition":
                await _define(transport, document)
            else:
                await _create(transport, f"/api/v1/namespaces/{scenario.namespace}/{_plural(document)}", document)


def _plural(document: dict[str, Any]) -> str:
    return f"{document['kind'].lower()}s"


async def _create(transport: Transport, path: str, document: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "setup/1.0"}
    answer = await transport.send(Request("POST", path, headers=headers, body=json.dumps(document).encode()))
    # What is not in the namespace may be there from an earlier scenario.
    assert answer.status in (201, 409), answer.body


async def _define(transport: Transport, document: dict[str, Any]) -> None:
    await _create(transport, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
    spec = document["spec"]
    served = [one["name"] for one in spec["versions"] if one["served"]]
    paths = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in served]
    for path in paths:
        for _ in range(_TRIES):
            if (await transport.send(Request("GET", path))).status == 200:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            raise AssertionError(f"{path} is not served")
