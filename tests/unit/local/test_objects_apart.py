# SPDX-License-Identifier: Apache-2.0
"""What an object becomes depends neither on other objects nor on earlier attempts: requests share nothing."""

import itertools
import json
import random
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tests.repository import ROOT
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.identity.tokens import SigningKey
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, recorded
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore, StoredObject
from trainwright.controller.local.cluster import assembled
from trainwright.controller.runtime.client.transport import Request

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
_TEXT = {"type": "string"}
_PART = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _TEXT, "size": {"type": "integer", "default": 1}},
}
_SPEC: Document = {
    "type": "object",
    "default": {"mode": "fast", "parts": [{"name": "a"}]},
    "properties": {
        "mode": {"type": "string", "default": "slow"},
        "table": {"type": "object", "additionalProperties": _TEXT, "default": {"a": "b"}},
        "parts": {
            "type": "array",
            "items": _PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    },
}
_GADGETS = RecordedKind("example.com", "v1", "Gadget", "gadgets", True, (), "")
_DEFINITIONS = RecordedKind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, (), ""
)
_KINDS = [_GADGETS, *recorded().kinds]
_SAMPLES: list[Document] = [
    *yaml.safe_load((ROOT / "hack" / "built_in_kinds" / "samples.yaml").read_text()),
    {"apiVersion": "example.com/v1", "kind": "Gadget"},
    {"apiVersion": "example.com/v1", "kind": "Gadget", "spec": {"parts": [{"name": "b"}]}},
]
_GIVEN = re.compile(r"10\.96\.\d+\.\d+|\b3\d{4}\b|\d{4}-\d\d-\d\dT[\d:.]+Z")
"""Addresses and ports of Services, which hang on the uid, and times."""
_numbers = itertools.count()


def definition() -> Document:
    """The same one each time, but for a text, so that no server takes another one's compiled form."""
    schema = {"type": "object", "description": str(next(_numbers)), "properties": {"spec": _SPEC}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Gadget", "plural": "gadgets"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]},
    }


class ContendedStore(ObjectStore):
    """Where `contended`, another write comes before the next change of an object."""

    contended = False

    def write(
        self, collection: str, name: ObjectName, document: Document, expected: StoredObject | None
    ) -> StoredObject:
        """See ObjectStore."""
        if self.contended and expected is not None:
            self.label(collection, name)
        return super().write(collection, name, document, expected)

    def label(self, collection: str, name: ObjectName) -> None:
        """The other write."""
        self.contended = False
        one = self.get(collection, name)
        assert one is not None
        labelled = one.document()
        labelled["metadata"]["labels"] = {**(labelled["metadata"].get("labels") or {}), "other": "writer"}
        super().write(collection, name, labelled, one)


class Wanted(NamedTuple):
    """An object and how it is written: `post`, `put` or `apply`."""

    kind: RecordedKind
    name: str
    way: str
    document: Document


class Server:
    """An API server alone, with the definition of Gadgets."""

    def __init__(self, transport: InProcessTransport, store: ContendedStore) -> None:
        self._transport = transport
        self.store = store

    @classmethod
    async def new(cls) -> "Server":
        store = ContendedStore(None, now=_NOW.timestamp)
        made = await assembled(
            store, token="t", signing_key=_KEY, for_others=True, address=lambda: "https://x", now=lambda: _NOW
        )
        server = cls(InProcessTransport(made.server, "t"), store)
        await server.send("POST", _DEFINITIONS, "", definition())
        made.definitions.load()
        return server

    async def send(self, method: str, kind: RecordedKind, name: str, document: Document) -> Document:
        """The answer, without what differs from server to server."""
        path = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
        path += f"/namespaces/default/{kind.plural}" if kind.namespaced else f"/{kind.plural}"
        media, query = "json", {"fieldManager": "n"}
        if method == "PATCH":
            media, query = "apply-patch+yaml", {"fieldManager": "m", "force": "true"}
        headers, body = {"Content-Type": f"application/{media}"}, json.dumps(document).encode()
        request = Request(method, f"{path}/{name}".rstrip("/"), query, headers, body)
        answer = json.loads((await self._transport.send(request)).body)
        assert answer.get("reason") != "InternalError", answer
        metadata: dict[str, Any] = answer.get("metadata") or {}
        metadata.pop("resourceVersion", None)
        text = _GIVEN.sub("0", json.dumps(answer))
        made: Document = json.loads(text.replace(metadata["uid"], "uid") if "uid" in metadata else text)
        return made

    async def write(self, wanted: Wanted) -> Document:
        """Write an object under its name."""
        metadata = {**(wanted.document.get("metadata") or {}), "name": wanted.name, "labels": {"way": wanted.way}}
        method, name = {"apply": ("PATCH", wanted.name), "put": ("PUT", wanted.name)}.get(wanted.way, ("POST", ""))
        return await self.send(method, wanted.kind, name, {**wanted.document, "metadata": metadata})


def samples_of(kind: RecordedKind) -> list[Document]:
    """All objects of a kind that the recorder of built-in kinds knows."""
    return [one for one in _SAMPLES if (one["apiVersion"], one["kind"]) == (kind.api_version, kind.kind)]


def wanted_of(kind: RecordedKind, *ways: str) -> list[Wanted]:
    """Each object in each way."""
    numbered = enumerate(samples_of(kind))
    return [Wanted(kind, f"{way}{number}", way, sample) for number, sample in numbered for way in ways]


def named_kind(kind: RecordedKind) -> str:
    return f"{kind.api_version} {kind.kind}"


@pytest.mark.parametrize("kind", _KINDS, ids=named_kind)
async def test_objects_do_not_see_each_other(kind: RecordedKind) -> None:
    wanted = wanted_of(kind, "apply", "post", "put")
    random.shuffle(wanted)
    together, first = await Server.new(), samples_of(kind)[0]
    for one in wanted:
        for server in (together, alone := await Server.new()):
            if one.way == "put":
                await server.write(one._replace(way="post", document=first))
        assert await together.write(one) == await alone.write(one)


@pytest.mark.parametrize("kind", _KINDS, ids=named_kind)
async def test_an_attempt_that_met_another_write_leaves_nothing(kind: RecordedKind) -> None:
    met = 0
    meeting, following = await Server.new(), await Server.new()
    for one in wanted_of(kind, "apply", "put"):
        for server in (meeting, following):
            await server.write(one._replace(way="post", document=samples_of(kind)[0]))
        meeting.store.contended = True
        answer = await meeting.write(one)
        if not meeting.store.contended:
            met += 1
            following.store.label(kind.collection, ObjectName("default" if kind.namespaced else "", one.name))
            assert answer == await following.write(one)
    assert met


@pytest.mark.parametrize(("size", "code"), [(1_400_000, None), (1_600_000, 500)])
async def test_objects_have_the_size_that_etcd_takes(size: int, code: int | None) -> None:
    server = await Server.new()
    new = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}}
    await server.send("POST", _GADGETS, "", new)
    large = {**new, "spec": {"mode": "x" * size}}
    answer = await server.send("PATCH", _GADGETS, "a", large)
    assert answer.get("code") == code
    assert (answer.get("message") == "etcdserver: request is too large") == bool(code)
