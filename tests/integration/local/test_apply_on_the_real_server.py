# SPDX-License-Identifier: Apache-2.0
"""Our field manager says beforehand what the real API server makes of applies and updates of a custom resource.

What the comparison with the library alone does not show: how the server makes its models from a CRD, which fields its
endpoints reset, what a create starts from, and how errors are answered.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from tests.integration.local.gadgets import Gadgets, definition
from tests.integration.local.replay import Replay
from trainwright.controller.local.apiserver.merge.fieldmanager import ANNOTATION, custom_resource_managers
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

Document = dict[str, Any]
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def install(transport: HTTPTransport, crd: Document) -> None:
    """Create or change a definition, and wait until it is served in this form."""
    name = crd["metadata"]["name"]
    query = {"fieldManager": "test", "force": "true"}
    headers = {"Content-Type": "application/apply-patch+yaml"}
    body = json.dumps(crd).encode()
    answer = await transport.send(Request("PATCH", f"{_DEFINITIONS}/{name}", query, headers, body))
    assert answer.status in (200, 201), answer.body
    spec = crd["spec"]

    async def served() -> str:
        path = f"/apis/{spec['group']}/v2/{spec['names']['plural']}"
        answer = await transport.send(Request("GET", path))
        return "" if answer.status == 200 else f"{path}: {answer.status}"

    await eventually(served, is_empty)


@pytest.fixture
async def replay(transport: HTTPTransport, namespace: str) -> Replay:
    crd = definition("gadgets")
    await install(transport, crd)
    return Replay(transport, custom_resource_managers(crd["spec"]), "gadgets", namespace, "it")


def told(answer: Document) -> tuple[int, str, str]:
    return answer["code"], answer.get("reason", ""), answer["message"]


def owners(answer: Document) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in answer["metadata"].get("managedFields", [])}


async def test_a_conflict_names_managers_and_fields(replay: Replay) -> None:
    await replay.apply("one", {"spec": {"text": "a", "number": 1, "items": [{"name": "n", "value": "v"}]}})
    await replay.update("two", {"spec": {"text": "b", "number": 1, "items": [{"name": "n", "value": "v"}]}})
    answer = await replay.apply("three", {"spec": {"text": "c"}})
    assert told(answer) == (
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "two" using apply.example.com/v1: .spec.text',
    )
    answer = await replay.apply("three", {"spec": {"text": "c", "number": 2, "items": [{"name": "n", "value": "w"}]}})
    assert told(answer)[2] == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.number\n- .spec.items[name="n"].value\n'
        'conflicts with "two" using apply.example.com/v1:\n- .spec.text'
    )
    await replay.apply("three", {"spec": {"text": "c", "number": 2}}, force=True)


async def test_a_conflict_over_the_status_names_the_endpoint(replay: Replay) -> None:
    await replay.apply("one", {"spec": {"text": "a"}, "status": {"phase": "ignored"}})
    await replay.apply("two", {"status": {"phase": "p"}, "spec": {"text": "ignored"}}, subresource="status")
    answer = await replay.apply("three", {"status": {"phase": "q"}}, subresource="status")
    assert told(answer)[2] == (
        'Apply failed with 1 conflict: conflict with "two" with subresource "status": .status.phase'
    )
    await replay.update("four", {"status": {"phase": "r"}, "spec": {"text": "ignored"}}, subresource="status")


async def test_fields_without_an_owner_are_removed(replay: Replay) -> None:
    both = {"spec": {"tags": ["a", "b"], "items": [{"name": "n", "value": "v"}], "table": {"x": 1}}}
    await replay.apply("one", both)
    await replay.apply("two", {"spec": {"tags": ["b", "c"], "items": [{"name": "n"}], "table": {"y": 2}}})
    answer = await replay.apply("one", {"spec": {"tags": ["d"]}})
    assert answer["spec"] == {"tags": ["b", "c", "d"], "items": [{"name": "n"}], "table": {"y": 2}}
    answer = await replay.apply("two", {"spec": {}})
    assert answer["spec"] == {"tags": ["d"]}
    # What is left of the list, and of the spec, is null, and that does not pass validation.
    answer = await replay.apply("one", {"spec": {}})
    assert answer["code"] == 422


async def test_keys_with_defaults_and_several_fields(replay: Replay) -> None:
    await replay.apply("one", {"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}})
    answer = await replay.apply("two", {"spec": {"ports": [{"port": 80, "protocol": "TCP", "note": "n"}]}})
    assert len(answer["spec"]["ports"]) == 2
    answer = await replay.apply("two", {"spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}})
    assert told(answer)[:2] == (500, "")
    assert told(answer)[2].endswith('.spec.ports: duplicate entries for key [port=80,protocol="TCP"]')


@pytest.mark.parametrize(
    ("spec", "end"),
    [
        ({"nothing": 1}, ".spec.nothing: field not declared in schema"),
        ({"text": 1}, ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        ({"tags": ["a", "a"]}, '.spec.tags: duplicate entries for key [="a"]'),
        (
            {"items": [{"value": "v"}]},
            'omits all key fields ["name"] (and doesn\'t have default values for any key fields)',
        ),
        ({"items": [{"name": "a"}, {"name": "a"}]}, '.spec.items: duplicate entries for key [name="a"]'),
    ],
)
async def test_a_document_that_does_not_fit(replay: Replay, spec: Document, end: str) -> None:
    answer = await replay.apply("one", {"spec": spec})
    assert told(answer)[:2] == (500, "")
    assert told(answer)[2].endswith(end)
    assert "failed to create typed patch object" in told(answer)[2]


async def test_a_document_with_managed_fields(replay: Replay) -> None:
    answer = await replay.apply("one", {"metadata": {"managedFields": []}, "spec": {}})
    assert told(answer) == (400, "BadRequest", "metadata.managedFields must be nil")


async def test_a_second_applier_of_the_same_has_no_time(replay: Replay) -> None:
    await replay.apply("one", {"spec": {"text": "a"}})
    answer = await replay.apply("two", {"spec": {"text": "a"}})
    assert {entry["manager"]: "time" in entry for entry in answer["metadata"]["managedFields"]} == {
        "one": True,
        "two": False,
    }
    again = await replay.apply("one", {"spec": {"text": "a"}})
    assert again["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]


async def test_managed_fields_that_are_reset(replay: Replay) -> None:
    await replay.update("one", {"spec": {"text": "a", "number": 1}})
    # An empty list is gone once the server has decoded a custom resource's metadata.
    answer = await replay.update("one", {"metadata": {"managedFields": []}, "spec": {"text": "a", "number": 1}})
    assert owners(answer).keys() == {"one"}
    answer = await replay.update("one", {"metadata": {"managedFields": [{}]}, "spec": {"text": "a", "number": 1}})
    assert owners(answer) == {}
    answer = await replay.apply("two", {"spec": {"text": "b"}})
    assert told(answer)[2].startswith('Apply failed with 1 conflict: conflict with "before-first-apply" using')
    answer = await replay.apply("two", {"spec": {"text": "a"}})
    assert owners(answer).keys() == {"before-first-apply", "two"}


async def test_from_client_side_apply(replay: Replay) -> None:
    document = {"apiVersion": replay.version, "kind": "Gadget", "metadata": {"name": "it"}, "spec": {"text": "a"}}
    annotations = {ANNOTATION: json.dumps(document)}
    await replay.update("kubectl-client-side-apply", {"metadata": {"annotations": annotations}, "spec": {"text": "a"}})
    answer = await replay.apply("kubectl", {"spec": {"text": "b"}})
    assert "kind" in json.loads(answer["metadata"]["annotations"][ANNOTATION])
    await replay.update("other", {"metadata": {"annotations": annotations}, "spec": {"text": "c"}})
    answer = await replay.apply("kubectl", {"spec": {"text": "d"}})
    assert answer["code"] == 409


async def test_null_and_empty_values(replay: Replay) -> None:
    await replay.apply("one", {"spec": {"empty": None, "table": {}, "tags": [], "plain": [], "unit": {}, "items": []}})
    await replay.apply("two", {"spec": {"table": {"a": 1}, "tags": ["t"], "items": [{"name": "n"}]}}, force=True)
    await replay.apply("one", {"spec": {"empty": "now", "table": {}, "tags": [], "items": []}})
    await replay.apply("one", {"spec": {}})


async def test_embedded_resources_and_free_fields(replay: Replay) -> None:
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"x": [1]}}
    await replay.apply("one", {"spec": {"template": template, "free": {"a": {"b": 1}, "l": [1, {"c": 2}]}}})
    await replay.apply("two", {"spec": {"template": {**template, "metadata": {"labels": {"b": "2"}}}}})
    answer = await replay.apply("two", {"spec": {"template": {**template, "metadata": {"strange": 1}}}})
    assert told(answer)[2].endswith(".spec.template.metadata.strange: field not declared in schema")
    await replay.apply("one", {"spec": {"free": {"a": {"d": 1}}}})


async def test_versions(replay: Replay) -> None:
    await replay.apply("one", {"spec": {"text": "a", "number": 1}})
    await replay.apply("two", {"spec": {"flag": True}}, version="apply.example.com/v2")
    await replay.apply("one", {"spec": {"text": "b"}}, version="apply.example.com/v2")
    await replay.update("three", {"spec": {"text": "c", "flag": True}}, version="apply.example.com/v2")
    await replay.apply("two", {"spec": {}})


@pytest.mark.parametrize("seed", range(4))
async def test_random_managers(replay: Replay, seed: int) -> None:
    random = Random(seed)
    gadgets = Gadgets(random)
    for _ in range(60):
        document = gadgets.document()
        subresource = "status" if await replay.live() is not None and random.random() < 0.2 else ""
        if random.random() < 0.7:
            manager, force = random.choice(["one", "two", "kubectl"]), random.random() < 0.5
            await replay.apply(manager, document, force=force, subresource=subresource)
        else:
            manager = random.choice(["one", "three", "updater"])
            await replay.update(manager, document, subresource=subresource)
        await asyncio.sleep(0)
