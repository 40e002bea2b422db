# SPDX-License-Identifier: Apache-2.0
"""The committed models are those that the real API server publishes."""

import runpy

from tests.repository import ROOT
from trainwright.controller.local.types.model import SCHEMAS
from trainwright.controller.runtime.testing import ControlPlane


def test_published_schemas(control_plane: ControlPlane) -> None:
    published = runpy.run_path(str(ROOT / "hack" / "published_schemas.py"))["published"]
    assert published(control_plane) == SCHEMAS.read_text(encoding="utf-8"), "run hack/published_schemas.py"
