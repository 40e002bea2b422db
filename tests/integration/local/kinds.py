# SPDX-License-Identifier: Apache-2.0
"""Creations and updates of built-in kinds on the real server and by our strategies, side by side.

Ours do what the request handler does, in its order. Writes to the real server are dry runs where that is possible.
"""

import copy
import json
import re
from datetime import UTC, datetime
from typing import Any

from deepdiff import DeepDiff

from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import builtin_admission, errors, metadata
from trainwright.controller.local.apiserver.built_in import serve_built_in
from trainwright.controller.local.apiserver.builtin_admission import Write
from trainwright.controller.local.apiserver.resources import Registry, ServedResource
from trainwright.controller.local.apiserver.schema import DecodeError
from trainwright.controller.local.apiserver.strategies.built_in import BUILT_IN, BuiltIn
from trainwright.controller.runtime.client.transport import Request, Transport

Document = dict[str, Any]

KINDS = {(built_in.api_version, built_in.kind): built_in for built_in in BUILT_IN}
_SYSTEM = ("creationTimestamp", "uid", "resourceVersion", "managedFields")
_PROTECTION = (["kubernetes.io/pvc-protection"], ["kubernetes.io/pv-protection"])
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _Empty:
    """A cluster with namespaces and accounts, and without anything else that admission looks up."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Document | None:  # noqa: ARG002
        # The server of the test kit does not give pods an account.
        if plural == "serviceaccounts":
            return {"automountServiceAccountToken": False}
        return {} if plural == "namespaces" else None

    def listed(self, group: str, plural: str, namespace: str) -> list[Document]:  # noqa: ARG002
        return []


class Sides:
    """Both sides, with a namespace of the real one."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self.namespace = namespace
        self._registry = Registry()
        serve_built_in(self._registry)

    def _served(self, kind: BuiltIn) -> ServedResource:
        served = self._registry.find(kind.group, kind.version, kind.plural)
        assert served is not None
        return served

    async def create(self, document: Document) -> tuple[Document, Document]:
        """The answers of the real server and of ours to a creation: the object or the Status."""
        kind = KINDS[document["apiVersion"], document["kind"]]
        real = await self.send("POST", kind, "", document, dry_run=True)
        return _comparable(real), _comparable(self.ours_created(document))

    async def update(self, change: Document, old: Document, subresource: str = "") -> tuple[Document, Document]:
        """The answers to an update of an object that the real server has."""
        kind = KINDS[old["apiVersion"], old["kind"]]
        document = {"apiVersion": old["apiVersion"], "kind": old["kind"], **change}
        name = old["metadata"]["name"]
        path = f"{name}/{subresource}" if subresource else name
        real = await self.send("PUT", kind, path, document, dry_run=True)
        return _comparable(real), _comparable(self._updated(kind, document, old, subresource))

    async def store(self, document: Document) -> Document:
        """Create an object on the real server for good."""
        kind = KINDS[document["apiVersion"], document["kind"]]
        made = await self.send("POST", kind, "", document, dry_run=False)
        assert made["kind"] != "Status", made
        made.pop("warnings", None)
        return made

    async def send(self, method: str, kind: BuiltIn, path: str, document: Document, *, dry_run: bool) -> Document:
        """Ask the real server; the decoded answer."""
        prefix = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        if kind.namespaced:
            prefix += f"/namespaces/{self.namespace}"
        query = {"dryRun": "All"} if dry_run else {}
        request = Request(
            method,
            f"{prefix}/{kind.plural}" + (f"/{path}" if path else ""),
            query=query,
            body=json.dumps(document).encode(),
            headers={"Content-Type": "application/json"},
        )
        answer = await self._transport.send(request)
        decoded: Document = json.loads(answer.body)
        return {**decoded, "warnings": list(answer.warnings)} if answer.warnings else decoded

    def ours_created(self, document: Document) -> Document:
        """What ours make of a creation."""
        kind = KINDS[document["apiVersion"], document["kind"]]
        made = copy.deepcopy(document)
        if kind.namespaced:
            metadata.metadata_of(made)["namespace"] = self.namespace
        try:
            told = self._served(kind).decode(made)
        except DecodeError as error:
            what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            return errors.bad_request(f"{what}: {error}").document()
        kind.strategy.default(made)
        write = Write("CREATE", kind.group, kind.plural, self.namespace if kind.namespaced else "")
        try:
            builtin_admission.mutate(made, write, _Empty())
        except errors.StatusError as error:
            return error.document()
        metadata.begin(metadata.metadata_of(made), datetime.now(UTC))
        kind.strategy.prepare_create(made)
        found = metadata.validate(made["metadata"], namespaced=kind.namespaced, name_rule=kind.strategy.name_rule)
        found += kind.strategy.validate(made)
        return _answer(kind, made, None, found, told)

    def _updated(self, kind: BuiltIn, document: Document, old: Document, subresource: str) -> Document:
        new = copy.deepcopy(document)
        told = self._served(kind).decode(new)
        kind.strategy.default(new)
        write = Write("UPDATE", kind.group, kind.plural, self.namespace if kind.namespaced else "", subresource, old)
        builtin_admission.mutate(new, write, _Empty())
        metadata.keep_system_fields(metadata.metadata_of(new), old["metadata"])
        new["metadata"].setdefault("generation", old["metadata"].get("generation"))
        if new["metadata"]["generation"] is None:
            del new["metadata"]["generation"]
        kind.strategy.prepare_update(new, old, subresource)
        found = kind.strategy.validate_update(new, old, subresource)
        return _answer(kind, new, old, found, told)


def _answer(
    kind: BuiltIn, new: Document, old: Document | None, found: list[DocumentError], told: list[str]
) -> Document:
    name = new["metadata"].get("name") or ""
    made = errors.invalid(kind.error_group, kind.kind, name, found).document() if found else new
    told = told if found else [*told, *kind.strategy.warnings(new, old)]
    return {**made, "warnings": told} if told else made


def _comparable(document: Document) -> Document:
    """Without what differs each time."""
    made: Document = json.loads(_UID.sub("uid", json.dumps(document)))
    for field in _SYSTEM:
        (made.get("metadata") or {}).pop(field, None)
    if (made.get("metadata") or {}).get("finalizers") in _PROTECTION:
        # Nothing here takes off what protects volumes in use, so it is not put on.
        del made["metadata"]["finalizers"]
    if made["kind"] == "Node":
        # Nothing here takes off the taint of a new node, so it is not put on.
        made["spec"].pop("taints", None)
    if made["kind"] == "Pod" and made["spec"].get("serviceAccountName") == "default":
        for field in ("serviceAccountName", "serviceAccount"):
            del made["spec"][field]
    return made


def differences(real: Document, ours: Document) -> str:
    """What is not the same, for a message; empty if nothing is."""
    return str(DeepDiff(real, ours, ignore_order=False).pretty())
