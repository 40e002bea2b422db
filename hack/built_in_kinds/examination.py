# SPDX-License-Identifier: Apache-2.0
"""What the objects of one kind show: defaults, cells, names, generations."""

import asyncio
import copy
import json
import re
from typing import Any

from hack.built_in_kinds.explanations import SeenField, cell_of, encoded
from hack.built_in_kinds.paths import changes_of, scalar_paths, set_value
from trainwright.controller.local.apiserver.kinds.built_in import ACTED_ON
from trainwright.controller.local.apiserver.kinds.formats import NAME_RULES
from trainwright.controller.local.apiserver.kinds.strategy import feature, held_structs
from trainwright.controller.local.apiserver.schema.published.kinds import (
    COUNTED_METADATA,
    NOTHING,
    Column,
    RecordedKind,
)
from trainwright.controller.local.types.go_json import normalize
from trainwright.controller.local.types.model import builtin, published_models
from trainwright.controller.runtime import HTTPTransport
from trainwright.controller.runtime.client.transport import Request

Document = dict[str, Any]

_NAMESPACE = "default"
_SETTLED_SECONDS = 0.3
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OWN_CODE = frozenset(
    {
        ("Container", "imagePullPolicy"),
        *(("PodSpec", name) for name in ("tolerations", "priority", "preemptionPolicy", "serviceAccount")),
        *(("PodSpec", name) for name in ("serviceAccountName", "nodeName")),
        *(("ServiceSpec", name) for name in ("clusterIP", "clusterIPs", "externalTrafficPolicy", "ipFamilies")),
        *(("ServiceSpec", name) for name in ("ipFamilyPolicy", "sessionAffinityConfig", "internalTrafficPolicy")),
        *(("ServicePort", name) for name in ("nodePort", "targetPort")),
        *(("JobSpec", name) for name in ("selector", "completions", "parallelism", "podReplacementPolicy")),
        *(("JobSpec", name) for name in ("backoffLimit", "manualSelector")),
        *(("LimitRangeItem", name) for name in ("default", "defaultRequest")),
        ("ReplicationControllerSpec", "selector"),
        ("StatefulSetUpdateStrategy", "rollingUpdate"),
        ("NamespaceSpec", "finalizers"),
        ("NodeSpec", "taints"),
        *(("CertificateSigningRequestSpec", name) for name in ("username", "groups", "uid", "extra")),
        ("DeviceTaint", "timeAdded"),
    }
)
"""Fields whose defaults hang on more than another field: code fills them in. Admission does some of them."""
_WORDS = ("a.b", "a" * 64, "A", "1a", "a_b", "a/b", "a b", "a%b", "a", "a.example.com/b", ".", "-a")


Seen = dict[tuple[str, str], list[SeenField]]
"""By model and field."""
Change = tuple[str, Document, int, Document]
"""Of a change of a value: its path, the changed object, code and body of the answer to it."""


class RealServer:
    def __init__(self, transport: HTTPTransport) -> None:
        self._transport = transport
        self.warnings: tuple[str, ...] = ()
        """Of the last answer."""

    async def ask(
        self, method: str, path: str, body: Document | None = None, accept: str = "application/json", **query: str
    ) -> tuple[int, Document]:
        """One request: code and body of the answer."""
        headers = {"Accept": accept, "Content-Type": "application/json"}
        payload = b"" if body is None else json.dumps(body).encode()
        answer = await self._transport.send(Request(method, path, query, headers, payload))
        self.warnings = tuple(answer.warnings)
        return answer.status, json.loads(answer.body) if answer.body[:1] == b"{" else {}

    async def good(self, method: str, path: str, body: Document | None = None, **more: str) -> Document:
        """One request that must succeed."""
        status, answer = await self.ask(method, path, body, **more)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {answer.get('message')}")
        return answer


class Examination:
    def __init__(self, server: RealServer, kind: RecordedKind, samples: list[Document], seen: Seen) -> None:
        self._server, self._kind, self._seen = server, kind, seen
        self._bodies = copy.deepcopy(samples)
        for index, body in enumerate(self._bodies):
            body.setdefault("metadata", {}).setdefault("name", f"sample-{index}")
        self._statuses = [body.pop("status", None) for body in self._bodies]
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        inside = f"/namespaces/{_NAMESPACE}" if kind.namespaced else ""
        self._path = f"{root}{inside}/{kind.plural}"
        self._has_status = any(one.name == "status" for one in kind.subresources)

    async def run(self) -> None:
        stored = [await self._store(*sample) for sample in zip(self._bodies, self._statuses, strict=True)]
        try:
            await self._table(stored)
            await self._selectable()
            changes = [change for one in stored for change in await self._changes(one)]
            await self._generation(stored[0], changes)
            await self._puts(stored[-1])
            if self._kind.kind in ACTED_ON:
                self._kind.initial = NOTHING
        finally:
            await self._delete([one["metadata"]["name"] for one in stored])

    async def _store(self, body: Document, status: Document | None) -> Document:
        name = body["metadata"]["name"]
        await self._server.ask("DELETE", f"{self._path}/{name}", gracePeriodSeconds="0")
        made = await self._server.good("POST", self._path, body)
        if body is self._bodies[0] and "deprecated" in " ".join(self._server.warnings):
            self._kind.warning = self._server.warnings[0]
        said = copy.deepcopy(body)
        normalize(said, self._kind.model)
        self._walk(said, made, self._kind.model, "")
        if body is self._bodies[0] or self._kind.initial is NOTHING:
            self._kind.initial = encoded(made["status"]) if self._has_status and "status" in made else NOTHING
            self._kind.generation = made["metadata"].get("generation", 0)
        if status is not None and self._has_status:
            made["status"] = {**made.get("status", {}), **status}
            made = await self._server.good("PUT", f"{self._path}/{name}/status", made)
        return made

    async def _delete(self, stored: list[str]) -> None:
        for name in stored:
            status, answer = await self._server.ask("DELETE", f"{self._path}/{name}", gracePeriodSeconds="0")
            if status == 200:
                self._kind.returns_deleted = answer.get("kind") != "Status"
                self._kind.orphans = "orphan" in (answer["metadata"].get("finalizers") or ())
                if self._kind.kind == "Namespace":
                    answer["spec"]["finalizers"] = []
                    await self._server.ask("PUT", f"{self._path}/{name}/finalize", answer)
                if answer.get("metadata", {}).get("finalizers"):
                    fresh = await self._server.good("GET", f"{self._path}/{name}")
                    fresh["metadata"]["finalizers"] = []
                    await self._server.ask("PUT", f"{self._path}/{name}", fresh)

    # -------------------------------------------------------------- defaults

    def _walk(self, sent: Document, stored: Document, model: str, place: str) -> None:
        known, inner, short = builtin(model).fields, held_structs(model), model.rpartition(".")[2]
        for name in published_models()[model].get("properties") or {}:
            of_objects = name in ("status", "metadata", "kind", "apiVersion") and model == self._kind.model
            if of_objects or (short, name) in _OWN_CODE:
                continue
            before, after = sent.get(name), stored.get(name)
            pointer = name in known and known[name].pointer
            absent = before is None or (not before and not pointer)
            if absent:
                features = {
                    key: feature(value)
                    for key, value in stored.items()
                    if key != name and (short, key) not in _OWN_CODE and (isinstance(value, str) or key in sent)
                }
                features |= {"@kind": f"{self._kind.api_version} {self._kind.kind}", "@field": place}
                value = {} if name in inner and isinstance(after, dict) else after
                if (
                    after == before
                    or (before == {} and isinstance(after, dict))
                    or (before is None and after in ("", 0, False) and not pointer)
                ):
                    value = None
                self._seen.setdefault((model, name), []).append(SeenField(value, features))
            if name in inner and inner[name] != _METADATA:
                one, other = (
                    item if isinstance(item, list) else [item] if item is not None else [] for item in (before, after)
                )
                if isinstance(after, list) and len(one) != len(other):
                    continue
                for index, item in enumerate(other):
                    said = one[index] if index < len(one) else None
                    start: Document = said if isinstance(said, dict) else {}
                    if not start:
                        normalize(start, inner[name])
                    if isinstance(item, dict):
                        self._walk(start, item, inner[name], name)

    # -------------------------------------------------------------- table

    async def _table(self, stored: list[Document]) -> None:
        tables: list[Document] = []
        # The server itself gives some objects a status, such as a FlowSchema, a moment after they were made.
        while tables != (tables := await self._tables(stored)):  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(_SETTLED_SECONDS)
        columns = tables[0]["columnDefinitions"]
        shown = [table["rows"][0]["object"] for table in tables]
        made: list[Column] = []
        for index, column in enumerate(columns):
            cells = [table["rows"][0]["cells"][index] for table in tables]
            cell = cell_of(column["name"], cells, shown)
            made.append(Column(column["name"], column["type"], column["format"], column["priority"], cell))
        self._kind.columns = tuple(made)

    async def _tables(self, stored: list[Document]) -> list[Document]:
        paths = [f"{self._path}/{one['metadata']['name']}" for one in stored]
        return [await self._server.good("GET", path, accept=_TABLE, includeObject="Object") for path in paths]

    async def _selectable(self) -> None:
        found: list[str] = []
        for path in sorted(scalar_paths(self._kind.model)):
            status, _ = await self._server.ask("GET", self._path, fieldSelector=f"{path}=x")
            if status == 200 and path not in ("metadata.name", "metadata.namespace"):
                found.append(path)
        self._kind.selectable = tuple(found)

    # -------------------------------------------------------------- updates

    async def _generation(self, stored: Document, changes: list[Change]) -> None:
        about: list[Change] = []
        for field in COUNTED_METADATA:
            new = copy.deepcopy(stored)
            new["metadata"][field] = {"new": "x"}
            about.append((field, new, *await self._put(new)))
        counted = {
            re.split(r"[.\[]", path)[0]
            for path, new, status, answer in [*changes, *about]
            if status == 200 and answer["metadata"].get("generation", 0) > new["metadata"].get("generation", 0)
        }
        if self._kind.generation and not counted:
            # No change of the samples was accepted.
            counted = {"spec", "template"} & published_models()[self._kind.model]["properties"].keys()
        self._kind.counted = tuple(sorted(counted))

    async def _changes(self, stored: Document) -> list[Change]:
        made: list[Change] = []
        for path, value in changes_of(stored, self._kind.model):
            new = copy.deepcopy(stored)
            set_value(new, path, value)
            made.append((path, new, *await self._put(new)))
        return made

    async def _put(self, document: Document) -> tuple[int, Document]:
        return await self._server.ask("PUT", f"{self._path}/{document['metadata']['name']}", document, dryRun="All")

    async def _puts(self, stored: Document) -> None:
        new = copy.deepcopy(stored)
        del new["metadata"]["resourceVersion"]
        status, _ = await self._put(new)
        self._kind.unconditional_update = status == 200
        body = copy.deepcopy(self._bodies[-1])
        body["metadata"]["name"] = "9" + stored["metadata"]["name"]
        status, _ = await self._put(body)
        self._kind.create_on_update = status == 201
        signature = []
        for word in _WORDS:
            body["metadata"]["name"] = word
            status, answer = await self._server.ask("POST", self._path, body, dryRun="All")
            signature.append("metadata.name" not in {cause.get("field") for cause in _causes(answer)} and status != 400)
        self._kind.name_format = _format_of(signature) or "subdomain"


def _causes(answer: Document) -> list[Document]:
    return (answer.get("details") or {}).get("causes") or []


def _format_of(signature: list[bool]) -> str:
    """The format of names that takes just the words that the server takes; empty if there is none."""
    fitting = (name for name, check in NAME_RULES.items() if [not check(word) for word in _WORDS] == signature)
    return next(fitting, "")
