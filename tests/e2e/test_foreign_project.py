# SPDX-License-Identifier: Apache-2.0
"""The fixtures serve other projects: a test suite that knows nothing of this repository uses them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_control_plane("starts and stops it")

SETTINGS = """
[tool.pytest.ini_options]
control_plane_crds = ["crds"]
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
TEST = """
def test_one(control_plane, namespace):
    boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a", "namespace": namespace}}
    control_plane.apply(boat)
    assert "boat.example.com/a" in control_plane.kubectl("get", "boats", "--namespace", namespace, "-o", "name")


def test_two_has_a_namespace_of_its_own(control_plane, namespace):
    assert control_plane.kubectl("get", "boats", "--namespace", namespace, "-o", "name") == ""
"""


def test_a_foreign_project_uses_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "boats.yaml").write_text(CRD)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "test_boats.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
