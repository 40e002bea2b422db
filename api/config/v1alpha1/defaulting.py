# SPDX-License-Identifier: Apache-2.0
"""Defaults of the Configuration that a schema cannot express."""

from trainwright.api.config.v1alpha1.models import ControllerHealth


def default_ControllerHealth(health: ControllerHealth) -> None:  # noqa: N802  named after the struct
    """An empty probe address means the default one; only "0" turns the server off."""
    if not health.health_probe_bind_address:
        health.health_probe_bind_address = ":8081"
