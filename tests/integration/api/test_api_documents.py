# SPDX-License-Identifier: Apache-2.0
"""An API server and the offline side say the same of every document: same verdict, same fields, same stored object."""

import http.client
import importlib.util
import itertools
import json
import re
import ssl
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from trainwright.api.base import Object
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.cli.rendering.schemas import validate
from trainwright.controller.runtime.testing import ControlPlane

Json = dict[str, Any]

KINDS: dict[str, type[Object]] = {
    "TrainJob": TrainJob,
    "TrainingRuntime": TrainingRuntime,
    "ClusterTrainingRuntime": ClusterTrainingRuntime,
}
OF_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace")
NUMBERS = itertools.count()


def load(path: Path) -> ModuleType:
    """A module that lies beside the tests and is none itself."""
    spec = importlib.util.spec_from_file_location(f"beside_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES: list[Any] = load(Path(__file__).with_name("documents.py")).ALL


class Server:
    """One connection to the API server."""

    def __init__(self, control_plane: ControlPlane) -> None:
        address = urllib.parse.urlsplit(control_plane.url)
        context = ssl.create_default_context(cadata=control_plane.ca.decode())
        self.connection = http.client.HTTPSConnection(address.netloc, context=context)
        self.warnings: list[str] = []
        self.headers = {"Authorization": f"Bearer {control_plane.token}", "Content-Type": "application/json"}

    def send(self, method: str, path: str, document: Json | None = None) -> tuple[int, bytes]:
        body = json.dumps(document) if document is not None else None
        self.connection.request(method, path, body, self.headers)
        answer = self.connection.getresponse()
        self.warnings = answer.headers.get_all("Warning") or []
        return answer.status, answer.read()


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[Server]:
    made = Server(control_plane)
    made.send("GET", "/version")
    yield made
    made.connection.close()


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> str:
    return control_plane.create_namespace()


def put_to(server: Server, namespace: str, case: Any) -> tuple[int, bytes]:
    """The API server's answer to a case. Creations are tried out only; updates need an object that is there."""
    resource = KINDS[case.document["kind"]].RESOURCE
    collection = resource.path(namespace)
    if case.old is None:
        return server.send("POST", f"{collection}?dryRun=All&fieldValidation=Ignore", case.document)
    name = f"case-{next(NUMBERS)}"
    old = {**case.old, "metadata": {"name": name}}
    code, text = server.send("POST", f"{collection}?fieldValidation=Ignore", old)
    assert code == 201, text
    new = {**case.document, "metadata": json.loads(text)["metadata"]}
    path = resource.path(namespace, name, case.subresource or None)
    answer = server.send("PUT", f"{path}?dryRun=All&fieldValidation=Ignore", new)
    server.send("DELETE", resource.path(namespace, name))
    return answer


def field_of(cause: Json) -> str:
    """The field that a cause is about: of some, the API server says so in the text only."""
    if cause["field"] != "<nil>":
        return str(cause["field"])
    found = re.search(r"Checked value must be of type .* in (\S+)$|\"(\S+)\" must validate", cause["message"])
    return (found[1] or found[2]) if found else ""


def fields_of(answer: Json) -> set[str]:
    """The fields that a refusal is about."""
    causes = answer["details"]["causes"]
    return {field_of(cause) for cause in causes if "were not checked" not in cause["message"]}


def with_document(case: Any, document: Json, old: Json | None = None) -> Any:
    """The case with another document."""
    return replace(case, document=document, old=old)


def bare(document: Json) -> Json:
    """Without what the API server adds to metadata, and without the name, which updates make their own."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in (*OF_THE_SERVER, "name")}
    return {**document, "metadata": metadata}


# On the local API server, the engine of offline validation would be compared with itself. Without a server,
# tests/unit/api/test_validation.py proves the verdicts of the table.
@pytest.mark.real_control_plane("compares with it")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_answer(server: Server, namespace: str, case: Any) -> None:
    code, text = put_to(server, namespace, case)
    answer = json.loads(text)
    offline = validate(case.document, old=case.old, subresource=case.subresource)

    if code in (200, 201):
        assert case.wrong == ()
        assert offline.errors == []
        assert bare(offline.stored) == bare(answer)
        return
    assert code == 422, text
    causes = answer["details"]["causes"]
    assert fields_of(answer) == set(case.wrong), causes
    assert {error.field for error in offline.errors} == fields_of(answer), causes


# Models hold all of embedded metadata; of what these cases put there, a CustomResourceDefinition keeps five fields.
PRUNED = {"patch metadata", "pod volumes"}
ACCEPTED = [case for case in CASES if case.old is None and case.wrong == ()]
CREATED = [case for case in ACCEPTED if case.name not in PRUNED]


@pytest.mark.parametrize("case", CREATED, ids=lambda case: case.name)
def test_set_defaults_as_the_server_does(server: Server, namespace: str, case: Any) -> None:
    code, text = put_to(server, namespace, case)
    assert code == 201, text
    decoder = msgspec.json.Decoder(KINDS[case.document["kind"]])
    mine = decoder.decode(json.dumps({key: value for key, value in case.document.items() if key != "status"}))
    mine.set_defaults()
    stored = json.loads(text)
    assert bare(json.loads(msgspec.json.encode(mine))) == bare(stored)
    assert json.loads(msgspec.json.encode(decoder.decode(text))) == stored, "a round trip changed the object"


@pytest.mark.real_control_plane("compares with it")
@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_warns_of_the_same_unknown_fields(server: Server, namespace: str, case: Any) -> None:
    code, _ = server.send(
        "POST",
        f"{KINDS[case.document['kind']].RESOURCE.path(namespace)}?dryRun=All&fieldValidation=Warn",
        case.document,
    )
    assert code == 201
    unknown = re.compile(r'unknown field \\"(.*?)\\"')
    warned = {match[1] for warning in server.warnings for match in unknown.finditer(warning)}
    status = {"status"} if "status" in case.document else set()
    offline = {field for field in validate(case.document).dropped if field.split(".")[0] not in status}
    assert offline == {field for field in warned if field.split(".")[0] not in status}
