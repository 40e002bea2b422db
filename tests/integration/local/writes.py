# SPDX-License-Identifier: Apache-2.0
"""Creations, updates and patches of objects, and what the real API server answered to them.

`writes.json` has groups of an object and of changes to it: `create` are dry runs of a creation of the changed object,
`update` those of an update of the stored object, at the endpoint `at`, and `patch` those of patches, each a type and a
body. A change sets values at paths, and takes out what `-` stands before. A custom kind has its `definition`, which
later groups may use too. `answers.json` has what came back, by the names of the same groups: what is refused, as
reasons and fields; else what the server changed in what was sent, and the warnings.
`python -m tests.integration.local.writes` asks the real server again and writes it.
"""

import asyncio
import copy
import json
import re
from pathlib import Path
from typing import Any

from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request, Transport
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually

Document = dict[str, Any]
Answers = dict[str, dict[str, Any]]

KINDS = {(one.api_version, one.kind): one for one in built_in_kinds(for_others=True)}
WRITES, ANSWERS = (Path(__file__).parent / name for name in ("writes.json", "answers.json"))
NAMESPACE = "writes"
INSIDE = f"/namespaces/{NAMESPACE}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON = "application/json"
MEDIA = {"json": "json-patch", "merge": "merge-patch", "strategic": "strategic-merge-patch"}
_SYSTEM = ("creationTimestamp", "uid", "resourceVersion", "managedFields")
_PROTECTION = (["kubernetes.io/pvc-protection"], ["kubernetes.io/pv-protection"])
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def answers(transport: Transport) -> Answers:
    """Make all writes on a server."""
    server = Server(transport)
    await server.send("POST", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    found: Answers = {}
    for name, group in json.loads(WRITES.read_text()).items():
        if "definition" in group:
            await server.define(group["definition"])
        document = group["object"]
        if "create" in group:
            sent = {attempt: changed(document, change) for attempt, change in group["create"].items()}
            found[name] = {attempt: await server.told("POST", one) for attempt, one in sent.items()}
            continue
        document = await server.send("POST", document)
        assert document["kind"] != "Status", document
        document.pop("warnings")
        path = f"{document['metadata']['name']}/{group.get('at', '')}"
        told = found[name] = {}
        for attempt, change in group.get("update", {}).items():
            told[attempt] = await server.told("PUT", changed(document, change), path)
        for attempt, (media, body) in group.get("patch", {}).items():
            text = body if isinstance(body, str) else json.dumps(body)
            told[attempt] = await server.told("PATCH", document, path, f"application/{MEDIA[media]}+json", text)
    return found


class Server:
    """An API server, real or ours, and the paths of its kinds."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._paths = {("apiextensions.k8s.io/v1", "CustomResourceDefinition"): DEFINITIONS}
        for of, kind in KINDS.items():
            root = f"{'/apis' if kind.group else '/api'}/{kind.api_version}"
            self._paths[of] = f"{root}{INSIDE if kind.namespaced else ''}/{kind.plural}"

    async def define(self, definition: Document) -> None:
        """Create a definition if it is not there, and wait until it is served."""
        made = await self.send("POST", definition)
        assert made["kind"] != "Status" or made["code"] == 409, made
        spec = definition["spec"]
        for version in spec["versions"]:
            about = f"{spec['group']}/{version['name']}"
            path = self._paths[about, spec["names"]["kind"]] = f"/apis/{about}{INSIDE}/{spec['names']['plural']}"
            await eventually(lambda path=path: self._transport.send(Request("GET", path)), lambda it: it.status == 200)  # type: ignore[misc]

    async def told(self, method: str, sent: Document, path: str = "", media: str = JSON, text: str = "") -> Any:
        """What the server tells of a write that is only tried: what it refuses, or what it changes in what was sent."""
        return _told(sent, await self.send(method, sent, path, media, text, dryRun="All"))

    async def send(
        self, method: str, document: Document, path: str = "", media: str = JSON, text: str = "", **query: str
    ) -> Document:
        """Send a document, or a text about it. Returns the answer, with its warnings."""
        where = f"{self._paths[document['apiVersion'], document['kind']]}/{path}".rstrip("/")
        body = (text or json.dumps(document)).encode()
        answer = await self._transport.send(Request(method, where, query, {"Content-Type": media}, body))
        return {**json.loads(answer.body), "warnings": list(answer.warnings)}


def changed(document: Document, change: Document) -> Document:
    """A copy of a document with a change."""
    made = copy.deepcopy(document)
    for path, value in change.items():
        *steps, last = path.removeprefix("-").split(".")
        here: Any = made
        for step in steps:
            here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
        if path.startswith("-"):
            here.pop(last, None)
        else:
            here[int(last) if isinstance(here, list) else last] = value
    return made


def _told(sent: Document, answer: Document) -> Any:
    if answer["kind"] == "Status":
        # Sentences are the server's own: docs/local-differences.md.
        causes = (answer.get("details") or {}).get("causes") or []
        told = {f"{one['reason'].removeprefix('FieldValue')} {one['field']}" for one in causes if "field" in one}
        # Of several alternatives it is declared to differ which one's errors are told.
        told = {one for one in told if " spec.any." not in one and " status.any." not in one}
        return sorted(told) or [f"{answer['code']} {answer.get('reason', '')}".rstrip()]
    # What this server stores and does not do, it says: docs/local-differences.md.
    warnings = [text for text in answer.pop("warnings") if " is stored, but " not in text]
    return _difference(_normal(sent), _normal(answer)) | ({"warnings": warnings} if warnings else {})


def _normal(document: Document) -> Document:
    """Without what differs each time, and without what is known to differ."""
    made: Document = json.loads(_UID.sub("uid", json.dumps(document)))
    metadata, spec = made.setdefault("metadata", {}), made.get("spec") or {}
    status = made["status"] if isinstance(made.get("status"), dict) else {}
    for field in _SYSTEM:
        metadata.pop(field, None)
    if metadata.get("finalizers") in _PROTECTION:
        # Nothing here takes off what protects volumes in use, so it is not put on.
        del metadata["finalizers"]
    if made["kind"] == "Node":
        # Nothing here takes off the taint of a new node, so it is not put on.
        spec.pop("taints", None)
    if made["kind"] == "Service" and spec.get("clusterIP") not in (None, "None"):
        spec |= {"clusterIP": "address", "clusterIPs": ["address"]}
    for condition in status.get("conditions") or []:
        if condition.get("reason") == "SchedulingGated":
            condition["lastTransitionTime"] = "now"
    status.pop("lastPhaseTransitionTime", None)
    return made


def _difference(before: Any, after: Any, path: str = "") -> Document:
    """The change that makes one value of another."""
    keyed = after if isinstance(after, dict) else dict(enumerate(after)) if isinstance(after, list) else {}
    known = before if isinstance(before, dict) else dict(enumerate(before)) if isinstance(before, list) else {}
    if type(before) is not type(after) or not known or not keyed or any("." in str(key) for key in (*known, *keyed)):
        return {} if before == after else {path: after}
    found: Document = {}
    for key in (*known, *(key for key in keyed if key not in known)):
        here = f"{path}.{key}".lstrip(".")
        if key not in keyed:
            found[f"-{here}"] = None
        else:
            found |= _difference(known[key], keyed[key], here) if key in known else {here: keyed[key]}
    return found


async def _record() -> Answers:
    with ControlPlane() as control_plane:
        transport = HTTPTransport(load_config(control_plane.kubeconfig))
        try:
            return await answers(transport)
        finally:
            await transport.close()


def _text(answers: Answers) -> str:
    """JSON with a line for each answer."""
    groups = (
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f" {json.dumps(attempt)}: {json.dumps(told, sort_keys=True)}" for attempt, told in group.items())
        + "\n}"
        for name, group in answers.items()
    )
    return "{\n" + ",\n".join(groups) + "\n}\n"


if __name__ == "__main__":
    ANSWERS.write_text(_text(asyncio.run(_record())))
