# SPDX-License-Identifier: Apache-2.0
"""The schema engine answers documents as the real API server does: same code, same errors, same stored object."""

import copy
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.api.documents import ALL
from tests.integration.local.compared import Answer, Document, Kind
from tests.integration.local.shapes import (
    FIELDS,
    NUMBER,
    RULED_VALUES,
    VALUES,
    definition,
    ruled_definition,
    ruled_spec,
    rules,
    spec,
)
from trainwright.api.manifest import load
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

_BOUNDED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


@pytest.fixture
async def shapes(transport: HTTPTransport, namespace: str) -> Kind:
    kind = Kind(transport, definition("shapes", FIELDS), namespace)
    await kind.install()
    return kind


@pytest.fixture
async def ruled(transport: HTTPTransport, namespace: str) -> Kind:
    kind = Kind(transport, ruled_definition("ruleds"), namespace)
    await kind.install()
    return kind


async def differences(kind: Kind, specs: list[Any]) -> list[str]:
    """The documents to which the answers differ."""
    found: list[str] = []
    for one in specs:
        theirs, ours = await kind.try_create(kind.document(one))
        if theirs != ours:
            found.append(f"{json.dumps(one)}\n  server {theirs}\n  engine {ours}")
    return found


@pytest.mark.parametrize("field", sorted(VALUES))
async def test_fields(shapes: Kind, field: str) -> None:
    assert await differences(shapes, [{field: value} for value in VALUES[field]]) == []


async def test_wrong_values_of_several_fields(shapes: Kind) -> None:
    both = [{"text": "a", "small": 11, "deep": {}, "names": [1], "x": 1}, {"text": 1, "choice": "c"}, 5, None, "a", []]
    assert await differences(shapes, both) == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "UPPER"},
        {"name": "a" * 254},
        {"labels": {"a b": "c", "d": "e f"}, "annotations": {"x/y/z": ""}},
        {"labels": {"a" * 64: "b" * 64, f"{'c' * 254}/d": "", "/e": "", "f/": ""}},
        {"annotations": {"a" * 64: "b" * 64}},
        {"labels": {"a": 1}},
        {"labels": []},
        {"finalizers": ["a b", "example.com/good"]},
        {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "", "name": "", "uid": ""}]},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": True}
                for name in "ab"
            ]
        },
        {"unknown": 1, "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "x": 1}]},
        {"labels": {}, "annotations": None, "creationTimestamp": None},
    ],
)
async def test_metadata(shapes: Kind, metadata: Document) -> None:
    document = shapes.document({})
    document["metadata"] |= metadata
    theirs, ours = await shapes.try_create(document)
    assert ours == theirs


@_BOUNDED
@given(random=st.randoms(use_true_random=False))
async def test_any_documents(shapes: Kind, random: Random) -> None:
    document = shapes.document(spec(random))
    theirs, ours = await shapes.try_create(document)
    assert ours == theirs


async def created(kind: Kind, random: Random, make: Callable[[Random], Document]) -> Document:
    """A stored object."""
    while True:
        document = kind.document(make(random), f"r{random.randrange(10**9)}")
        answer = await kind.send("POST", document)
        if answer.status == 201:
            made: Document = json.loads(answer.body)
            return made


async def test_rules(ruled: Kind) -> None:
    specs: list[Any] = [{field: value} for field, values in RULED_VALUES.items() for value in values]
    assert await differences(ruled, [*specs, {"number": 4}]) == []
    theirs, ours = await ruled.try_create(ruled.document({}, "bad"))
    assert ours == theirs
    assert ours.code == 422


_NUMBERS = {"type": "array", "items": NUMBER}
_LONG: dict[str, Document] = {
    "deep": {
        **NUMBER,
        "maximum": 9,
        "x-kubernetes-validations": rules(f"{'(' * 12}self > 1{')' * 12}", f"{'self + ' * 20}1 < 300"),
    },
    "pairs": {
        "type": "object",
        "properties": {"a": {**_NUMBERS, "maxItems": 200}, "b": {**_NUMBERS, "maxItems": 200}},
        "x-kubernetes-validations": rules("self.a.all(x, self.b.all(y, x + y < 300))", "true", message="too much"),
    },
    "many": {
        **_NUMBERS,
        "maxItems": 250_000,
        "x-kubernetes-validations": rules("self.all(x, x >= 0)"),
    },
}


async def test_rules_that_are_deep_or_long(transport: HTTPTransport, namespace: str) -> None:
    kind = Kind(transport, definition("longs", _LONG), namespace)
    await kind.install()
    pairs = [{"a": list(range(60)), "b": [*range(149), last]} for last in (149, 250)]
    assert await differences(kind, [{"deep": 1}, {"deep": 2}, {"deep": 8}]) == []
    assert await differences(kind, [*({"pairs": one} for one in pairs), {"many": [0] * 9_000}]) == []
    theirs, _ = await kind.try_create(kind.document({"pairs": pairs[0]}))
    assert theirs.code == 200


@pytest.mark.parametrize("seed", range(12))
async def test_rules_at_updates(ruled: Kind, seed: int) -> None:
    random = Random(seed)
    old = await created(ruled, random, ruled_spec)
    for _ in range(5):
        new = {**copy.deepcopy(old), "spec": {**copy.deepcopy(old["spec"]), **ruled_spec(random)}}
        theirs, ours = await ruled.try_update(new, old)
        assert ours == theirs
        await_status = {**copy.deepcopy(old), "status": ruled_spec(random)}
        theirs, ours = await ruled.try_update(await_status, old, "/status")
        assert ours == theirs


_WIDE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize("seed", range(6))
async def test_values_that_were_valid_once(transport: HTTPTransport, namespace: str, seed: int) -> None:
    """A schema that takes anything stores what the next one refuses: unchanged, it stays."""
    random = Random(seed)
    group = definition(f"relics{seed}s", {})
    root = group["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    root["spec"] = root["status"] = _WIDE
    before = Kind(transport, group, namespace)
    await before.install()
    old = await created(before, random, lambda random: spec(random, wildness=0.5))
    narrow = definition(f"relics{seed}s", FIELDS)
    after = Kind(transport, narrow, namespace)
    await after.install()

    async def narrowed() -> str:
        # The server goes over to a new schema a moment after it has stored it.
        theirs, _ = await after.try_create(after.document({"choice": "none of them"}))
        return "" if theirs.code == 422 else "the old schema is in use"

    await eventually(narrowed, is_empty)
    # What is stored is pruned and defaulted when it is read.
    old = json.loads((await after.send("GET", {}, f"/{old['metadata']['name']}")).body)
    answers: list[tuple[Answer, Answer]] = []
    for _ in range(8):
        new = copy.deepcopy(old)
        new["metadata"]["labels"] = {"changed": "yes"}
        for name, value in spec(random).items():
            if random.random() < 0.5:
                new.setdefault("spec", {})[name] = value
        answers.append(await after.try_update(new, old))
    assert [ours for _, ours in answers] == [theirs for theirs, _ in answers]


async def test_rules_that_a_stored_value_breaks_are_warned_of(transport: HTTPTransport, namespace: str) -> None:
    fields: dict[str, Any] = {
        "number": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5", "message": "too small"}]},
        "text": {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        "list": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
    }
    before = Kind(transport, definition("remains", copy.deepcopy(fields)), namespace)
    del fields["number"]["x-kubernetes-validations"]
    wide = Kind(transport, definition("remains", fields), namespace)
    await wide.install()
    stored = {"number": 1, "text": "a", "list": [1]}
    old = json.loads((await wide.send("POST", wide.document(stored))).body)
    await before.install()

    async def narrowed() -> str:
        theirs, _ = await before.try_create(before.document({"number": 1}))
        return "" if theirs.code == 422 else "the old schema is in use"

    await eventually(narrowed, is_empty)
    for changed, warned in (({"list": [2]}, 1), ({"number": 2}, 0), ({"number": 6}, 0), ({"text": "b"}, 1)):
        theirs, ours = await before.try_update({**old, "spec": {**stored, **changed}}, old)
        assert ours == theirs
        assert len(theirs.warnings) == warned


async def test_a_status_is_only_written_by_its_endpoint(shapes: Kind) -> None:
    old = json.loads((await shapes.send("POST", shapes.document({"text": "ab"}, "status"))).body)
    statuses: tuple[Any, ...] = (
        {"text": "ab"},
        {"text": "a", "nothing": 1},
        {"items": [{"name": "a"}] * 2},
        1,
        {"deep": {}},
    )
    for status in statuses:
        theirs, ours = await shapes.try_update({**old, "status": status}, old, "/status")
        assert ours == theirs
        theirs, ours = await shapes.try_update({**old, "status": status}, old)
        assert ours == theirs


_CONFIG = Path(__file__).resolve().parents[3] / "config/crd"


@pytest.mark.parametrize("plural", ["trainjobs", "trainingruntimes"])
async def test_documents_of_the_trainer(transport: HTTPTransport, namespace: str, plural: str) -> None:
    """The documents that offline validation is tested with, of kinds with large schemas and many rules."""
    crd = load((_CONFIG / f"trainer.kubeflow.org_{plural}.yaml").read_text(encoding="utf-8"))
    kind = Kind(transport, crd, namespace)
    await kind.install()
    found: list[str] = []
    cases = [case for case in ALL if case.document["kind"] == crd["spec"]["names"]["kind"]]
    for number, case in enumerate(cases):
        document = _in_namespace(case.document, namespace)
        if case.old is None:
            theirs, ours = await kind.try_create(document)
        else:
            before = _in_namespace(case.old, namespace)
            before["metadata"]["name"] = f"case-{number}"
            old = json.loads((await kind.send("POST", before)).body)
            document["metadata"] |= {**old["metadata"], "labels": document["metadata"].get("labels", {})}
            endpoint = f"/{case.subresource}" if case.subresource else ""
            theirs, ours = await kind.try_update(document, old, endpoint)
        if ours != theirs:
            found.append(f"{case.name}\n  server {theirs}\n  engine {ours}")
    assert len(cases) > 50
    assert found == []


def _in_namespace(document: Document, namespace: str) -> Document:
    made = copy.deepcopy(document)
    made.setdefault("metadata", {})["namespace"] = namespace
    return made
