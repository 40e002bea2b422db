# SPDX-License-Identifier: Apache-2.0
"""The tests of this very folder ask the real API server what is right."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them, so that they never compare the local API server with itself."""
    for item in items:
        if item.path.parent == FOLDER and "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_control_plane("compares with it"))
