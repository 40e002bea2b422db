# SPDX-License-Identifier: Apache-2.0
"""Column definitions.

They have no descriptions, unlike those of Kubernetes, whose descriptions are its API documentation; kubectl shows none.
"""

from typing import Any

Column = dict[str, Any]


def column(name: str, type_: str = "string", *, format_: str = "", priority: int = 0, description: str = "") -> Column:
    """A column definition. Columns of priority 0 are shown, others only by `kubectl get -o wide`."""
    return {"name": name, "type": type_, "format": format_, "description": description, "priority": priority}
