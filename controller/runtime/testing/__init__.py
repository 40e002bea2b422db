# SPDX-License-Identifier: Apache-2.0
"""The test kit: a real control plane, and pytest fixtures for it (`pytest_plugin`).

Names are imported when they are first used. pytest loads the plugin, and with it this package, wherever trainwright is
installed, also without the extra `testing`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.controller.runtime.testing.audit import AuditLog, Call
    from trainwright.controller.runtime.testing.component import Component
    from trainwright.controller.runtime.testing.control_plane import ControlPlane
    from trainwright.controller.runtime.testing.errors import ControlPlaneError

__all__ = ["AuditLog", "Call", "Component", "ControlPlane", "ControlPlaneError"]

_MODULES = {
    "AuditLog": "audit",
    "Call": "audit",
    "Component": "component",
    "ControlPlane": "control_plane",
    "ControlPlaneError": "errors",
}


if not TYPE_CHECKING:  # type checkers would assume that every name exists

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
