# SPDX-License-Identifier: Apache-2.0
"""What the real API server refuses of objects of built-in kinds, and of changes of them, by reason and field.

`python -m tests.integration.local.refusals` asks the real server and writes `refusals.json`. Nothing is stored but the
objects that changes begin from.
"""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

from tests.integration.local import changes, foreign_documents, job_documents, kind_documents, pod_documents
from tests.integration.local.kinds import KINDS
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request, Transport
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]
Refusals = dict[str, list[str]]
"""By the name of a document or change; empty for what is taken."""

RECORDED = Path(__file__).parent / "refusals.json"
NAMESPACE = "refusals"
MODULES = (pod_documents, job_documents, kind_documents, foreign_documents)


async def refusals(transport: Transport) -> Refusals:
    """Ask a server about all documents and changes."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await _send(transport, "POST", namespace, dry_run=False)
    found: Refusals = {}
    for module in MODULES:
        for number, (name, document) in enumerate(module.documents(NAMESPACE)):
            found[f"{module.__name__.rpartition('.')[2]} {number}: {name}"] = _told(
                await _send(transport, "POST", document, dry_run=True)
            )
    for name, (document, subresource, attempts) in changes.CHANGES.items():
        first = copy.deepcopy(document)
        first["metadata"]["name"] = f"x-{name.replace(' ', '-')}"
        old = await _send(transport, "POST", first, dry_run=False)
        assert old["kind"] != "Status", old
        for attempt, change in attempts.items():
            new = copy.deepcopy(old)
            change(new)
            path = f"{new['metadata']['name']}/{subresource}".rstrip("/")
            found[f"{name}: {attempt}"] = _told(await _send(transport, "PUT", new, path, dry_run=True))
    return found


def _told(answer: Document) -> list[str]:
    if answer["kind"] != "Status":
        return []
    causes = (answer.get("details") or {}).get("causes") or []
    return sorted({f"{one['reason'].removeprefix('FieldValue')} {one['field']}" for one in causes if "field" in one})


async def _send(transport: Transport, method: str, document: Document, path: str = "", *, dry_run: bool) -> Document:
    kind = KINDS[document["apiVersion"], document["kind"]]
    prefix = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{NAMESPACE}" if kind.namespaced else ""
    where = f"{prefix}{inside}/{kind.plural}/{path}".rstrip("/")
    query = {"dryRun": "All"} if dry_run else {}
    headers = {"Content-Type": "application/json"}
    answer = await transport.send(Request(method, where, query, headers, json.dumps(document).encode()))
    decoded: Document = json.loads(answer.body)
    return decoded


async def _record() -> Refusals:
    with ControlPlane() as control_plane:
        transport = HTTPTransport(load_config(control_plane.kubeconfig))
        try:
            return await refusals(transport)
        finally:
            await transport.close()


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(asyncio.run(_record()), indent=1, sort_keys=True) + "\n")
