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
    from trainwright.controller.runtime.testing.tools import ControlPlaneError as ControlPlaneError
else:
    from trainwright.api.facade import lazy

    __getattr__, __dir__ = lazy(
        __name__,
        {
            "trainwright.controller.runtime.testing.audit": ("AuditLog", "AuditedCall"),
            "trainwright.controller.runtime.testing.component": ("ControlPlaneComponent",),
            "trainwright.controller.runtime.testing.control_plane": ("ControlPlane",),
            "trainwright.controller.runtime.testing.tools": ("ControlPlaneError",),
        },
    )

__all__ = ["AuditLog", "AuditedCall", "ControlPlane", "ControlPlaneComponent", "ControlPlaneError"]
