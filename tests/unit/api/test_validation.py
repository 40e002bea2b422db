# SPDX-License-Identifier: Apache-2.0
"""Offline validation gives the verdicts of the table that integration tests put to an API server."""

import copy
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.api import extras
from trainwright.api.extras import MissingExtraError
from trainwright.api.trainer.v1alpha1 import RuntimeRef, TrainJob, TrainJobSpec
from trainwright.controller.cli.rendering.schemas import KindSchema, NoSchemaError, schemas, validate

TABLE = Path(__file__).resolve().parents[2] / "integration/api/documents.py"


def load(path: Path) -> ModuleType:
    """A module that lies beside other tests and is none itself."""
    spec = importlib.util.spec_from_file_location(f"table_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES: list[Any] = load(TABLE).ALL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict(case: Any) -> None:
    found = validate(case.document, old=case.old, subresource=case.subresource)
    assert {error.field for error in found.errors} == set(case.wrong), found.errors


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 150


def test_models_are_validated_too() -> None:
    job = TrainJob(spec=TrainJobSpec(runtime_ref=RuntimeRef(name=""), managed_by="me")).typed()
    found = validate(job)
    assert [str(error) for error in found.errors] == [
        "metadata.name: Required value: a name is needed",
        'spec.runtimeRef.name: Invalid value: "": should be at least 1 chars long',
    ]


def test_what_was_wrong_before_holds_up_no_update() -> None:
    old = TABLE_MODULE.job(managedBy="other")
    new = {**old, "spec": {**old["spec"], "suspend": True}}
    assert validate(new, old=old).errors == []
    worse = {**old, "spec": {**old["spec"], "trainer": {"numNodes": -1}}}
    assert [error.field for error in validate(worse, old=old).errors] == ["spec.trainer.numNodes"]


TABLE_MODULE = sys.modules[f"table_{TABLE.stem}"]


def test_unknown_kind() -> None:
    with pytest.raises(NoSchemaError, match=r"no schema for kind 'Pod' of apiVersion 'v1'; known are .*TrainJob of "):
        validate({"apiVersion": "v1", "kind": "Pod"})


def test_the_configuration_is_a_kind_too() -> None:
    document = {"apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration", "webhook": {"port": 0}}
    found = validate(document)
    assert [error.field for error in found.errors] == ["webhook.port"]
    assert found.stored["metrics"] == {"bindAddress": ":8443", "secureServing": True, "auth": {"enabled": False}}


def test_its_libraries_are_imported_when_used() -> None:
    program = (
        "import sys, trainwright.controller.cli.rendering.schemas; "
        "print({'jsonschema', 'cel_expr_python', 're2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_without_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(MissingExtraError, match=r"needs jsonschema: .* -m pip install 'jsonschema"):
        extras.load("jsonschema")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of everything in a document but what says which kind it is."""
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        steps = [(name, inner) for name, inner in value.items() if (*path, name) not in (("apiVersion",), ("kind",))]
    elif isinstance(value, list):
        steps = list(enumerate(value))
    for step, inner in steps:
        yield (*path, step)
        yield from places(inner, (*path, step))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_nonsense_gets_an_answer(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    spoiled = copy.deepcopy(case.document)
    path = data.draw(st.sampled_from(list(places(spoiled))))
    inner = spoiled
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = data.draw(JSON)
    for old in (None, case.old or case.document, spoiled):
        found = validate(spoiled, old=old)
        assert all(error.message and len(error.message) < 300 for error in found.errors)
        assert json.dumps(found.stored)


@pytest.mark.parametrize("document", [None, [], "TrainJob", 1])
def test_what_is_no_document(document: Any) -> None:
    with pytest.raises(NoSchemaError, match="a document is an object with apiVersion and kind"):
        validate(document)


def test_no_string_holds_up_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schemas(), ("v1", "Patterned"), KindSchema(_PATTERNED))
    [error] = validate({"apiVersion": "v1", "kind": "Patterned", "a": "a" * 100 + "b"}).errors
    assert error.message.endswith(": should match '^(a+)+$'")


_PATTERNED = {
    "$defs": {},
    "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}},
    "x-kubernetes-resource": {"plural": "", "namespaced": True, "subresources": []},
}
