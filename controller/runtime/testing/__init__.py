# SPDX-License-Identifier: Apache-2.0
"""The test kit: a real control plane, and pytest fixtures for it (`pytest_plugin`).

Names are imported when they are first used. pytest loads the plugin, and with it this package, wherever trainwright is
installed, also without the extra `testing`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # type checkers would assume that every name exists
    from trainwright.controller.runtime.testing.audit import AuditedCall as AuditedCall
    from trainwright.controller.runtime.testing.audit import AuditLog as AuditLog
    from trainwright.controller.runtime.testing.component import ControlPlaneComponent as ControlPlaneComponent
    from trainwright.controller.runtime.testing.control_plane import ControlPlane as ControlPlane
    from trainwright.controller.runtime.testing.errors import ControlPlaneError as ControlPlaneError
else:
    import importlib

    _MODULES = {
        "AuditLog": "audit",
        "AuditedCall": "audit",
        "ControlPlane": "control_plane",
        "ControlPlaneComponent": "component",
        "ControlPlaneError": "errors",
    }
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
