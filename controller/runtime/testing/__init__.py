# SPDX-License-Identifier: Apache-2.0
"""The test kit: a real control plane, and pytest fixtures on it (`pytest_plugin`)."""

from trainwright.controller.runtime.testing.audit import AuditLog, Call
from trainwright.controller.runtime.testing.component import Component
from trainwright.controller.runtime.testing.control_plane import ControlPlane
from trainwright.controller.runtime.testing.errors import ControlPlaneError

__all__ = ["AuditLog", "Call", "Component", "ControlPlane", "ControlPlaneError"]
