# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server and to our field manager side by side.

Before each request our field manager says what will become of the object that is stored; afterwards the answer is
compared with that.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deepdiff import DeepDiff

from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.runtime.client.transport import Request, Transport

Document = dict[str, Any]

# What the server sets, and what differs by the moment.
CONFLICT = 409
"""Clients match on the texts of conflicts; those of other errors are not compared."""
_SYSTEM = ("creationTimestamp", "generation", "resourceVersion", "uid")


@dataclass
class Replay:
    """One object.

    Attributes:
        transport: to the API server.
        managers: ours, by apiVersion and subresource; the first is of the version to use if none is named.
        plural: of the kind.
        namespace: of the object.
        name: of the object.
        entries_only: compare the managed fields alone, where the server gives defaults that are not ours to give.
    """

    transport: Transport
    managers: dict[tuple[str, str], FieldManager]
    plural: str
    namespace: str
    name: str
    entries_only: bool = False
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.version, _ = next(iter(self.managers))
        self._kind = self.managers[self.version, ""].kind

    async def live(self, version: str | None = None) -> Document | None:
        """The stored object in a version; None if there is none."""
        answer = await self._send("GET", version or self.version, "")
        return None if answer["kind"] == "Status" else answer

    async def apply(
        self,
        manager: str,
        document: Document,
        *,
        force: bool = False,
        subresource: str = "",
        version: str | None = None,
    ) -> Document:
        """Apply on both sides and compare; the server's answer."""
        version = version or self.version
        field_manager = self.managers[version, subresource]
        live = await self.live(version)
        document = {"apiVersion": version, "kind": self._kind, **document}
        document["metadata"] = {"name": self.name, "namespace": self.namespace, **document.get("metadata", {})}
        now = datetime.now(UTC)
        try:
            ours = field_manager.apply(live, document, manager, force=force, now=now)
        except StatusError as error:
            expected = _status(error)
        else:
            stored = _as_stored(ours, live, subresource)
            expected = {"managedFields": _entries(stored)} if self.entries_only else _object(stored)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        answer = await self._send("PATCH", version, subresource, query, document, "application/apply-patch+yaml")
        self._compare(f"{manager} applies {json.dumps(document)}", expected, answer, entries_only=self.entries_only)
        return answer

    async def update(
        self, manager: str, document: Document, *, subresource: str = "", version: str | None = None
    ) -> Document:
        """Create or replace on both sides and compare the managed fields; the server's answer."""
        version = version or self.version
        field_manager = self.managers[version, subresource]
        live = await self.live(version)
        new = {"apiVersion": version, "kind": self._kind, **document}
        metadata = {} if live is None else {**live["metadata"], "managedFields": live["metadata"].get("managedFields")}
        new["metadata"] = {
            **{key: metadata[key] for key in (*_SYSTEM, "managedFields") if metadata.get(key) is not None},
            "name": self.name,
            "namespace": self.namespace,
            **document.get("metadata", {}),
        }
        ours = field_manager.update(live, _decoded(new), manager, now=datetime.now(UTC))
        method, query = ("POST" if live is None else "PUT"), {"fieldManager": manager}
        answer = await self._send(method, version, subresource, query, new, "application/json")
        expected = {"managedFields": _entries(ours)}
        self._compare(f"{manager} updates to {json.dumps(new)}", expected, answer, entries_only=True)
        return answer

    def _compare(self, step: str, expected: Document, answer: Document, *, entries_only: bool = False) -> None:
        self.steps.append(step)
        told: Document
        if answer["kind"] == "Status" and answer["code"] == 422:
            # Merged, and then refused by validation: what lost its last item is null, and an embedded object may have
            # lost its kind.
            assert "code" not in expected, answer
            return
        if answer["kind"] == "Status":
            causes = (answer.get("details") or {}).get("causes") or []
            told = {
                "code": answer["code"],
                "reason": answer.get("reason", ""),
                "message": answer["message"] if answer["code"] == CONFLICT else "",
                "causes": sorted(causes, key=lambda cause: cause["message"]),
            }
        else:
            told = {"managedFields": _entries(answer)} if entries_only else _object(answer)
        difference = DeepDiff(expected, told)
        assert not difference, "\n".join([*self.steps, f"from ours to the server's: {difference}"])

    async def _send(
        self,
        method: str,
        version: str,
        subresource: str,
        query: dict[str, str] | None = None,
        document: Document | None = None,
        content_type: str = "",
    ) -> Document:
        root = "apis" if "/" in version else "api"
        path = f"/{root}/{version}/namespaces/{self.namespace}/{self.plural}"
        if method != "POST":
            path += f"/{self.name}" + (f"/{subresource}" if subresource else "")
        body = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": content_type} if content_type else {}
        answer = await self.transport.send(Request(method, path, query or {}, headers, body))
        decoded: Document = json.loads(answer.body)
        return decoded


def _status(error: StatusError) -> Document:
    told = sorted((error.details or {}).get("causes", ()), key=lambda cause: str(cause["message"]))
    message = str(error) if error.code == CONFLICT else ""
    return {"code": error.code, "reason": error.reason, "message": message, "causes": told}


def _decoded(document: Document) -> Document:
    """The document as the server decodes it: metadata goes through a Go struct, which forgets what is empty.

    That of built-in kinds keeps an empty list of managed fields.
    """
    metadata = {key: value for key, value in document["metadata"].items() if value not in ({}, [], None)}
    return {**document, "metadata": metadata}


def _as_stored(made: Document, live: Document | None, subresource: str) -> Document:
    """The object after what the server does to it before it stores it: an endpoint writes its own half alone."""
    kept: Document = live or {}
    if subresource:
        stored = {**kept, "metadata": {**kept["metadata"], "managedFields": made["metadata"].get("managedFields")}}
        stored.pop("status", None)
        return stored | ({"status": made["status"]} if "status" in made else {})
    stored = {key: value for key, value in made.items() if key != "status"}
    return stored | ({"status": kept["status"]} if "status" in kept else {})


def _object(document: Document) -> Document:
    kept = _decoded(document)["metadata"].items()
    metadata = {key: value for key, value in kept if key not in (*_SYSTEM, "managedFields")}
    return {**document, "metadata": metadata, "managedFields": _entries(document)}


def _entries(document: Document) -> list[Document]:
    """Without times and their order, because the two clocks may stand at different seconds."""
    entries = document["metadata"].get("managedFields") or []
    told = [{key: entry[key] for key in entry if key != "time"} | {"timed": "time" in entry} for entry in entries]
    return sorted(told, key=lambda entry: json.dumps(entry, sort_keys=True))
