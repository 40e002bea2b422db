# SPDX-License-Identifier: Apache-2.0
"""The same writes of built-in kinds to the real API server and to ours."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

from deepdiff import DeepDiff

from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds
from trainwright.controller.runtime.client.transport import Request, Transport

Document = dict[str, Any]

KINDS = {(one.api_version, one.kind): one for one in built_in_kinds(for_others=True)}
_SYSTEM = ("creationTimestamp", "uid", "resourceVersion", "managedFields")
_PROTECTION = (["kubernetes.io/pvc-protection"], ["kubernetes.io/pv-protection"])
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Sides:
    """Both servers, with a namespace of the same name on each."""

    def __init__(self, real: Transport, ours: Transport, namespace: str) -> None:
        self._transports = (real, ours)
        self.namespace = namespace

    async def prepare(self) -> None:
        """Make the namespace on our side; the real one has it."""
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self._stored(self._transports[1], document)

    async def created(self, document: Document) -> str:
        """How the answers to a creation differ; empty if they do not. Nothing is stored."""
        real, ours = [await self._send(one, "POST", document, dry_run=True) for one in self._transports]
        return _differences(real, ours)

    async def changed(
        self, document: Document, subresource: str, changes: dict[str, Callable[[Document], None]]
    ) -> dict[str, str]:
        """Store an object and try changes of it, each from the same state. How the answers differ, by change."""
        old = [await self._stored(one, document) for one in self._transports]
        found: dict[str, str] = {}
        for name, change in changes.items():
            answers: list[Document] = []
            for transport, before in zip(self._transports, old, strict=True):
                new = copy.deepcopy(before)
                change(new)
                path = f"{new['metadata']['name']}/{subresource}".rstrip("/")
                answers.append(await self._send(transport, "PUT", new, path, dry_run=True))
            difference = _differences(*answers)
            if difference:
                found[name] = difference
        return found

    async def _stored(self, transport: Transport, document: Document) -> Document:
        made = await self._send(transport, "POST", document, dry_run=False)
        assert made["kind"] != "Status", made
        made.pop("warnings", None)
        return made

    async def _send(
        self, transport: Transport, method: str, document: Document, path: str = "", *, dry_run: bool
    ) -> Document:
        kind = KINDS[document["apiVersion"], document["kind"]]
        prefix = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        if kind.namespaced:
            prefix += f"/namespaces/{self.namespace}"
        where = f"{prefix}/{kind.plural}/{path}".rstrip("/")
        query = {"dryRun": "All"} if dry_run else {}
        headers = {"Content-Type": "application/json"}
        answer = await transport.send(Request(method, where, query, headers, json.dumps(document).encode()))
        decoded: Document = json.loads(answer.body)
        return {**decoded, "warnings": list(answer.warnings)} if answer.warnings else decoded


def _differences(real: Document, ours: Document) -> str:
    return str(DeepDiff(_normal(real), _normal(ours)).pretty())


def _normal(document: Document) -> Document:
    """Without what differs each time, and without what is known to differ."""
    made: Document = json.loads(_UID.sub("uid", json.dumps(document)))
    # What this server stores and does not do, it says: docs/local-differences.md.
    warnings = [text for text in made.pop("warnings", ()) if " is stored, but " not in text]
    made |= {"warnings": warnings} if warnings else {}
    metadata = made.get("metadata") or {}
    for field in _SYSTEM:
        metadata.pop(field, None)
    if metadata.get("finalizers") in _PROTECTION:
        # Nothing here takes off what protects volumes in use, so it is not put on.
        del metadata["finalizers"]
    if made["kind"] == "Node":
        # Nothing here takes off the taint of a new node, so it is not put on.
        made["spec"].pop("taints", None)
    if made["kind"] == "Service" and made["spec"].get("clusterIP") not in (None, "None"):
        made["spec"] |= {"clusterIP": "address", "clusterIPs": ["address"]}
    for condition in (made["status"] if isinstance(made.get("status"), dict) else {}).get("conditions") or []:
        if condition.get("reason") == "SchedulingGated":
            condition["lastTransitionTime"] = "now"
    if "lastPhaseTransitionTime" in (made.get("status") or ""):
        made["status"]["lastPhaseTransitionTime"] = "now"
    if made["kind"] == "Status":
        # Errors are compared by status, reason, fields and code: docs/local-differences.md.
        made.pop("message", None)
        causes = (made.get("details") or {}).get("causes") or []
        found = {(cause.get("reason", ""), cause.get("field", "")) for cause in causes}
        if causes:
            made["details"]["causes"] = sorted(found)
    return made
