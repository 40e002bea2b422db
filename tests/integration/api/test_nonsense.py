# SPDX-License-Identifier: Apache-2.0
"""Spoiled documents: an API server and offline validation agree on those that nobody thought of, too."""

import copy
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright.controller.cli.rendering.schemas import validate
from trainwright.controller.runtime.testing import ControlPlane


def load(path: Path) -> ModuleType:
    """A module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(f"shared_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# On the local API server, the engine of offline validation would be compared with itself.
pytestmark = pytest.mark.real_control_plane("compares with it")
TABLE: Any = load(Path(__file__).with_name("test_api_documents.py"))
CASES = [
    case
    for case in TABLE.CASES
    if case.old is None
    and case.wrong == ()
    and set(case.document) == {"apiVersion", "kind", "metadata", "spec"}
    and set(case.document["metadata"]) == {"name"}
]
NAMES = st.sampled_from(["name", "kind", "key", "value", "spec", "nonsense"])
PLAIN = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 99, 2**31, 2**40, 0.5, 1e3])
    | st.sampled_from(["", "a", "node", "Node", "a b", "1Gi", "x" * 300, "2026-11-20T08:30:00Z", "b\n"])
)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)
MANY = settings(
    max_examples=int(os.environ.get("EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[Any]:
    made = TABLE.Server(control_plane)
    made.send("GET", "/version")
    yield made
    made.connection.close()


@pytest.fixture(scope="module")
def namespace(control_plane: ControlPlane) -> str:
    return control_plane.create_namespace()


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of everything in the spec of a document."""
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        steps = [(name, inner) for name, inner in value.items() if path or name == "spec"]
    elif isinstance(value, list):
        steps = list(enumerate(value))
    for step, inner in steps:
        yield (*path, step)
        yield from places(inner, (*path, step))


def spoiled(data: st.DataObject, document: Any) -> Any:
    """The document with something else in one or two places."""
    made = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 2))):
        paths = list(places(made))
        if not paths:
            break
        *way, last = data.draw(st.sampled_from(paths))
        inner = made
        for step in way:
            inner = inner[step]
        # API servers take lists where text with a format is asked for; we do not.
        inner[last] = data.draw(PLAIN if last == "time" else JSON)
    return made


@MANY
@given(st.data())
def test_created(server: Any, namespace: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    compare(server, namespace, TABLE.with_document(case, spoiled(data, case.document)))


@MANY
@given(st.data())
def test_updated(server: Any, namespace: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    compare(server, namespace, TABLE.with_document(case, spoiled(data, case.document), old=case.document))


def compare(server: Any, namespace: str, case: Any) -> None:
    code, text = TABLE.put_to(server, namespace, case)
    answer = json.loads(text)
    offline = validate(case.document, old=case.old)
    if code in (200, 201):
        assert offline.errors == []
        assert TABLE.bare(offline.stored) == TABLE.bare(answer)
        return
    assert code == 422, text
    assert {error.field for error in offline.errors} == TABLE.fields_of(answer), answer["details"]["causes"]
