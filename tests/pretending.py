# SPDX-License-Identifier: Apache-2.0
"""Nodes of KWOK whose pods run until a test lets them end."""

from dataclasses import replace

import yaml

from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.programs import kwok


def pods_run_on(plane: ControlPlane) -> None:
    """Start KWOK anew without its stage that ends pods of Jobs at once."""
    plane.stop_program("kwok")
    binaries = plane.provide()
    shipped = yaml.safe_load_all(binaries.manifests["kwok-pod-stages.yaml"].read_text())
    kept = plane.folder / "stages.yaml"
    kept.write_text(yaml.safe_dump_all([stage for stage in shipped if stage["metadata"]["name"] != "pod-complete"]))
    stages = replace(binaries, manifests={**binaries.manifests, "kwok-pod-stages.yaml": kept})
    plane.launch("kwok", kwok(stages, plane.kubeconfig))
