# SPDX-License-Identifier: Apache-2.0
"""`trainwright generate`: the schemas of another project become models that import Kubernetes' types from here."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from trainwright.api.kubernetes.core.v1 import PodTemplateSpec
from trainwright.controller.cli.main import main

BOAT = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          description: A boat.
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {$ref: meta/v1/ObjectMeta}
            spec: {$ref: BoatSpec}
definitions:
  BoatSpec:
    type: object
    description: What is wanted.
    properties:
      crew: {type: integer, format: int32, default: 1, description: People on board.}
      template: {$ref: core/v1/PodTemplateSpec, description: What sails.}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one schema, whose packages can be imported."""
    schema = tmp_path / "boats" / "api" / "sea" / "v1" / "boat.yaml"
    schema.parent.mkdir(parents=True)
    schema.write_text(BOAT)
    (tmp_path / "boats" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "boats"]:
        del sys.modules[name]


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*") if path.suffix != ".pyc"}


def test_a_folder_of_schemas_becomes_models_and_definitions(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "boats/api"]) == 0
    assert "7 files, 7 changed" in capsys.readouterr().out
    boats = importlib.import_module("boats.api.sea.v1")
    text = b'{"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}'
    boat = msgspec.json.decode(text, type=boats.Boat)
    boat.set_defaults()
    assert (boat.name, boat.spec.crew) == ("a", 1)
    assert isinstance(boat.spec.template, PodTemplateSpec)
    assert boat.deepcopy() == boat
    assert boats.Boat.RESOURCE.path("n", "a") == "/apis/sea.example.com/v1/namespaces/n/boats/a"

    definition = yaml.safe_load((project / "boats" / "crds" / "sea.example.com_boats.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["crew"]["default"] == 1
    assert "containers" in schema["properties"]["spec"]["properties"]["template"]["properties"]["spec"]["properties"]


def test_a_second_run_changes_nothing_and_check_finds_what_is_old(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "boats/api", "--check"]) == 1
    assert "not up to date, run `trainwright generate boats/api`" in capsys.readouterr().err
    assert main(["generate", "boats/api"]) == 0
    made = files(project)
    assert main(["generate", "boats/api"]) == 0
    assert "0 changed" in capsys.readouterr().out
    assert files(project) == made
    assert main(["generate", "boats/api", "--check"]) == 0

    folder = project / "boats" / "api" / "sea" / "v1"
    (folder / "own.py").write_text("# written by hand\n")
    (folder / "own.schema.json").write_text("{}")
    (folder / "boat.yaml").write_text(BOAT.replace("Boat", "Ship").replace("boat", "ship"))
    assert main(["generate", "boats/api"]) == 0
    left = files(project / "boats")
    assert {"crds/sea.example.com_ships.yaml", "api/sea/v1/ship.schema.json", "api/sea/v1/own.py"} <= set(left)
    assert not {"crds/sea.example.com_boats.yaml", "api/sea/v1/boat.schema.json"} & set(left)
    assert left["api/sea/v1/own.schema.json"] == "{}"


def test_package_and_definitions_go_where_they_are_wanted(project: Path) -> None:
    assert main(["generate", "boats/api", "--package=fleet.kinds", "--crds=boats/install/crds"]) == 0
    made = files(project)
    assert "from fleet.kinds.sea.v1.models import" in made["boats/api/sea/v1/__init__.py"]
    assert "boats/install/crds/sea.example.com_boats.yaml" in made


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("$ref: BoatSpec", "$ref: ShipSpec", "api/sea/v1/boat.yaml:21: Boat.spec: $ref ShipSpec leads nowhere"),
        ("core/v1/PodTemplateSpec", "networking/v1/IngressSpec", "trainwright.api.kubernetes.networking.v1: has no"),
        ("type: integer", "type: whole", "api/sea/v1/boat.yaml"),
        ("CustomResourceDefinition", "Definition", "is not one of"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(
    project: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    (project / "boats" / "api" / "sea" / "v1" / "boat.yaml").write_text(BOAT.replace(old, new, 1))
    before = files(project)
    assert main(["generate", "boats/api"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "nothing was written" in told
    assert files(project) == before


def test_a_folder_without_schemas_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tmp_path / "nothing")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["generate", str(tmp_path), "--package=x"]) == 2
    assert "has no schemas in folders below it, such as boats/v1/boat.yaml" in capsys.readouterr().err
