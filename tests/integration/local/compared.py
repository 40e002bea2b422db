# SPDX-License-Identifier: Apache-2.0
"""A document put to the API server and to the schema engine: both are to answer the same."""

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.scenarios.comparison import SENTENCES
from trainwright.api import names
from trainwright.controller.local.apiserver.schema.crd import Schema, unknown_field
from trainwright.controller.local.apiserver.schema.metadata import validate_metadata, validate_metadata_update
from trainwright.controller.local.types.errors import DocumentError
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.runtime.client.transport import Request, Response, Transport
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

Document = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SYSTEM = ("uid", "creationTimestamp", "managedFields", "generation", "resourceVersion")


@dataclass(frozen=True)
class Answer:
    """What became of a document."""

    code: int
    text: str = ""
    """Of a refusal whose sentence is compared."""
    errors: tuple[tuple[str, str], ...] = ()
    """Reason and field of each cause, sorted."""
    warnings: tuple[str, ...] = ()
    stored: str = ""
    """The object as JSON, without what the server adds."""


def _errors(causes: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Reason and field of each; the sentences are declared to differ, and so how often a field is named.

    Of `anyOf` and `oneOf` it is declared to differ which alternative's errors are told.
    """
    return tuple(sorted({(reason, field) for reason, field in causes if not field.startswith("spec.any.")}))


def stored(document: Document) -> str:
    """An object without system fields, with 1.0 as 1, which is how Go writes it."""
    bare = copy.deepcopy(document)
    for name in _SYSTEM:
        bare.get("metadata", {}).pop(name, None)

    def number(text: str) -> float:
        value = float(text)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    return json.dumps(json.loads(json.dumps(bare), parse_float=number), sort_keys=True)


def of_server(answer: Response) -> Answer:
    """The API server's answer."""
    body = json.loads(answer.body)
    if answer.status in (200, 201):
        return Answer(200, warnings=answer.warnings, stored=stored(body))
    if answer.status != 422:
        return Answer(answer.status, "" if answer.status in SENTENCES else body["message"])
    causes = ((one["reason"], one.get("field", "")) for one in body["details"]["causes"])
    return Answer(422, errors=_errors(causes), warnings=answer.warnings)


def of_errors(errors: list[DocumentError], warnings: tuple[str, ...] = ()) -> Answer:
    """A refusal of ours."""
    assert errors
    return Answer(422, errors=_errors((one.reason, one.field) for one in errors), warnings=warnings)


@dataclass
class Kind:
    """A custom resource on both sides.

    Attributes:
        transport: to the API server.
        definition: its definition, with one version.
        namespace: for the objects.
    """

    transport: Transport
    definition: Document
    namespace: str
    schema: Schema = field(init=False)

    def __post_init__(self) -> None:
        spec = self.definition["spec"]
        self.schema = Schema(spec["versions"][0]["schema"]["openAPIV3Schema"])
        self.api_version = f"{spec['group']}/{spec['versions'][0]['name']}"
        self._path = f"/apis/{self.api_version}/namespaces/{self.namespace}/{spec['names']['plural']}"

    async def install(self) -> None:
        """Create the definition or change it to this, and wait until the server keeps to it."""
        name = self.definition["metadata"]["name"]
        query = {"fieldManager": "test", "force": "true"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        # A description that the server publishes tells when it has gone over to this schema.
        body = json.dumps(self.definition).encode()
        answer = await self.transport.send(Request("PATCH", f"{DEFINITIONS}/{name}", query, headers, body))
        assert answer.status in (200, 201), answer.body

        async def served() -> str:
            answer = await self.transport.send(Request("GET", self._path))
            return "" if answer.status == 200 else f"{self._path}: {answer.status}"

        await eventually(served, is_empty)

    def document(self, spec: Any, name: str = "it", **words: Any) -> Document:
        """An object of the kind."""
        kind = self.definition["spec"]["names"]["kind"]
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": self.api_version, "kind": kind, "metadata": metadata, "spec": spec, **words}

    async def send(self, method: str, document: Document, path: str = "", **query: str) -> Response:
        """One request; `path` follows that of the collection."""
        headers = {"Content-Type": "application/json"}
        return await self.transport.send(
            Request(method, self._path + path, query, headers, json.dumps(document).encode())
        )

    async def try_create(self, document: Document) -> tuple[Answer, Answer]:
        """The server's answer and ours to a create that is tried out."""
        theirs = of_server(await self.send("POST", document, dryRun="All"))
        return theirs, self._ours(document, None)

    async def try_update(self, document: Document, old: Document, endpoint: str = "") -> tuple[Answer, Answer]:
        """The server's answer and ours to an update of a stored object that is tried out."""
        path = f"/{document['metadata']['name']}{endpoint}"
        theirs = of_server(await self.send("PUT", document, path, dryRun="All"))
        return theirs, self._ours(document, old, status=bool(endpoint))

    def _ours(self, document: Document, old: Document | None, *, status: bool = False) -> Answer:
        new: Document = json.loads(json.dumps(document))
        try:
            warnings = tuple(map(unknown_field, self.schema.decode(new)))
        except DocumentDecodeError:
            return Answer(400)
        new = _apart(new, old, status=status)
        if old is None:
            known = validate_metadata(new["metadata"], namespaced=True, name_rule=names.dns_subdomain)
        else:
            known = validate_metadata_update(new["metadata"], old["metadata"])
        excused: list[DocumentError] = []
        errors = self.schema.validate(new, old, status=status, known=known, excused=excused)
        warnings += tuple(map(str, excused))
        return of_errors(errors, warnings) if errors else Answer(200, warnings=warnings, stored=stored(new))


def _apart(new: Document, old: Document | None, *, status: bool) -> Document:
    """The status is written by its endpoint alone, which writes nothing else."""
    base = {**(old or {}), "metadata": new["metadata"]} if status else new
    apart = {name: value for name, value in base.items() if name != "status"}
    source = new if status else old or {}
    return {**apart, "status": source["status"]} if "status" in source else apart
