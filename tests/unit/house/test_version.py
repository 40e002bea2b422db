# SPDX-License-Identifier: Apache-2.0
"""The version is written down once, in `trainwright/__init__.py`; whatever else shows it follows."""

import re
import runpy
import tomllib

import pytest
import yaml

from tests.repository import ROOT, git
from trainwright import __version__
from trainwright.controller.cli.versions import KUBEFLOW_TRAINER, chart_version, public_data, public_objects

MANAGER = ROOT / "config" / "manager" / "kustomization.yaml"


def test_it_is_written_down_once_and_generated_into_manifests() -> None:
    holding = set(git("grep", "--files-with-matches", "--fixed-strings", __version__).split())
    written = {"trainwright/__init__.py"}
    # What `make generate` writes, and `make verify` compares: the manifests, and a chart as a whole.
    generated = {"config/manager/kustomization.yaml"}
    charts = {name.removesuffix("Chart.yaml") for name in git("ls-files", "*/Chart.yaml").split()}
    assert {name for name in holding if not name.startswith(tuple(charts))} == written | generated
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "trainwright.__version__"
    }


def test_manifests_have_it() -> None:
    kustomization = yaml.safe_load(MANAGER.read_text())
    assert kustomization["images"] == [{"name": "trainwright", "newTag": __version__}]
    (generated,) = [one for one in kustomization["configMapGenerator"] if one["name"] == "kubeflow-trainer-public"]
    assert dict(literal.split("=", 1) for literal in generated["literals"]) == public_data()


def test_a_new_version_is_generated_and_an_old_one_is_noticed() -> None:
    manifests = runpy.run_path(str(ROOT / "hack" / "manifests.py"))
    with_versions = manifests["_with_versions"]
    with_versions.__globals__["__version__"] = "7.8.9"
    with_versions.__globals__["public_data"] = lambda: {
        "kubeflow_trainer_version": "v3.0.0",
        "trainwright_version": "7.8.9",
    }
    text = with_versions()[MANAGER]
    assert text != MANAGER.read_text()
    made = yaml.safe_load(text)
    assert made["images"] == [{"name": "trainwright", "newTag": "7.8.9"}]
    assert made["configMapGenerator"][1]["literals"] == ["kubeflow_trainer_version=v3.0.0", "trainwright_version=7.8.9"]


def test_what_is_shipped_of_kubeflow_trainer_has_its_version() -> None:
    found = re.findall(
        r"ghcr.io/kubeflow/trainer/[a-z-]+(?::|\n  newTag: )(\S+)",
        "".join(path.read_text() for path in (ROOT / "config" / "runtimes").rglob("*.yaml")),
    )
    assert len(found) > 10
    assert set(found) == {KUBEFLOW_TRAINER}


def test_clusters_without_manifests_have_the_same_config_map() -> None:
    (namespace, public) = public_objects()
    assert namespace["metadata"] == {"name": "kubeflow-system"}
    assert public["metadata"] == {"name": "kubeflow-trainer-public", "namespace": "kubeflow-system"}
    assert public["data"] == {"kubeflow_trainer_version": KUBEFLOW_TRAINER, "trainwright_version": __version__}


@pytest.mark.parametrize(
    ("image", "tagged"),
    [
        ("example.com/trainwright", f"example.com/trainwright:{__version__}"),
        ("localhost:5000/trainwright", f"localhost:5000/trainwright:{__version__}"),
        ("trainwright:1", "trainwright:1"),
        (f"trainwright@sha256:{'a' * 64}", f"trainwright@sha256:{'a' * 64}"),
    ],
)
def test_an_image_without_a_tag_gets_it(image: str, tagged: str) -> None:
    assert runpy.run_path(str(ROOT / "hack" / "deploy.py"))["with_tag"](image) == tagged


@pytest.mark.parametrize(
    ("version", "chart"),
    [("1.3.0.dev2", "1.3.0-dev.2"), ("1.2.3", "1.2.3"), ("1.0.0rc1", "1.0.0-rc.1"), ("2.0.0a12", "2.0.0-a.12")],
)
def test_a_chart_has_it_in_the_words_of_helm(version: str, chart: str) -> None:
    assert chart_version(version) == chart


def test_a_version_that_helm_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'1!2.0' is not X.Y.Z"):
        chart_version("1!2.0")


def test_the_version_of_now_has_a_chart_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[a-z]+\.\d+)?", chart_version())
