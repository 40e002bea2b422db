# SPDX-License-Identifier: Apache-2.0
"""What a local cluster has from the start."""

import yaml

from tests.repository import ROOT
from trainwright.controller.cli.local.training import public_objects


def test_the_version_is_where_an_installation_has_it() -> None:
    kustomization = yaml.safe_load((ROOT / "config" / "manager" / "kustomization.yaml").read_text())
    (generated,) = [one for one in kustomization["configMapGenerator"] if one["name"] == "kubeflow-trainer-public"]
    (ours,) = [one for one in public_objects() if one["kind"] == "ConfigMap"]
    assert ours["metadata"] == {"name": "kubeflow-trainer-public", "namespace": "kubeflow-system"}
    assert ours["data"] == dict(literal.split("=", 1) for literal in generated["literals"])
