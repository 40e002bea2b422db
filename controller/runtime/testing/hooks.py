# SPDX-License-Identifier: Apache-2.0
"""Hooks of the test kit's pytest plugin."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trainwright.controller.runtime.testing.control_plane import ControlPlane


@pytest.hookspec(firstresult=True)
def pytest_control_plane(fixture: str, config: pytest.Config) -> "ControlPlane | None":
    """Make the control plane of a fixture; it is not started yet.

    Args:
        fixture: `control_plane` or `cluster`.
        config: of the session.

    Returns:
        The control plane; None for the one that the next plugin makes, in the end the real one.
    """
