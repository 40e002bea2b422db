# SPDX-License-Identifier: Apache-2.0
"""Nodes of KWOK whose pods run until a test lets them end."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.programs import kwok


def pods_run_on(plane: ControlPlane, *, except_for: Mapping[str, Any] | None = None) -> None:
    """Start KWOK anew without its stage that ends pods of Jobs at once; with `except_for`, an expression of KWOK's
    selectors, that stage is for pods alone of which it is true.
    """
    plane.stop_program("kwok")
    binaries = plane.provide()
    stages = {one["metadata"]["name"]: one for one in _shipped(binaries.manifests["kwok-pod-stages.yaml"])}
    if except_for is None:
        del stages["pod-complete"]
    else:
        stages["pod-complete"]["spec"]["selector"]["matchExpressions"].append(except_for)
    kept = plane.folder / "stages.yaml"
    kept.write_text(yaml.safe_dump_all(stages.values()))
    own = replace(binaries, manifests={**binaries.manifests, "kwok-pod-stages.yaml": kept})
    plane.launch("kwok", kwok(own, plane.kubeconfig))


def _shipped(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))
