# SPDX-License-Identifier: Apache-2.0
"""config/runtimes and config/samples on a real API server, which checks every field and rule in a dry run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane

pytestmark = pytest.mark.real_control_plane("kubectl")

RUNTIMES = ROOT / "config" / "runtimes"


def objects(text: str) -> list[dict[str, Any]]:
    return sorted(yaml.safe_load_all(text), key=lambda found: str(found["metadata"]["name"]))


@pytest.mark.parametrize("folder", [RUNTIMES, RUNTIMES / "data-cache"], ids=lambda folder: folder.name)
def test_kustomize_gives_the_files_and_an_api_server_takes_them(control_plane: ControlPlane, folder: Path) -> None:
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    built = control_plane.kubectl("kustomize", str(folder))

    assert sorted(listed) == sorted(f.name for f in folder.glob("*.yaml") if f.name != "kustomization.yaml")
    assert objects(built) == objects("---\n".join((folder / name).read_text() for name in listed))
    applied = control_plane.kubectl("apply", "--server-side", "--dry-run=server", "--filename=-", stdin=built)
    assert applied.count("serverside-applied (server dry run)") == len(listed)


def test_images_are_changed_in_one_place(control_plane: ControlPlane, tmp_path: Path) -> None:
    for name in ("torch-distributed.yaml", "mlx-distributed.yaml"):
        (tmp_path / name).write_text((RUNTIMES / name).read_text())
    images = [{"name": "pytorch/pytorch", "newName": "mirror.example/torch", "newTag": "1"}]
    resources = ["torch-distributed.yaml", "mlx-distributed.yaml"]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": resources, "images": images}))

    built = control_plane.kubectl("kustomize", str(tmp_path))

    assert "image: mirror.example/torch:1\n" in built
    assert built.count("image: ghcr.io/kubeflow/trainer/mlx-runtime:v2.3.0\n") == 2


def test_an_api_server_takes_every_sample(control_plane: ControlPlane) -> None:
    folder = ROOT / "config" / "samples"
    applied = control_plane.kubectl("apply", "--server-side", "--dry-run=server", f"--filename={folder}")
    assert applied.count("trainjob.trainer.kubeflow.org/") == len(list(folder.glob("*.yaml")))
