# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of config.trainer.kubeflow.org/v1alpha1."""

from trainwright.api.config.v1alpha1.models import (
    CertManagement,
    Cleanup,
    ClientConnection,
    Configuration,
    ControllerConfigurationSpec,
    ControllerHealth,
    ControllerMetrics,
    ControllerWebhook,
    LeaderElectionConfiguration,
    Logging,
    MetricsAuth,
    Plugins,
    Progress,
    ProgressPull,
    ProgressPush,
    Recovery,
    StatusServer,
    TLSOptions,
)

__all__ = [
    "CertManagement",
    "Cleanup",
    "ClientConnection",
    "Configuration",
    "ControllerConfigurationSpec",
    "ControllerHealth",
    "ControllerMetrics",
    "ControllerWebhook",
    "LeaderElectionConfiguration",
    "Logging",
    "MetricsAuth",
    "Plugins",
    "Progress",
    "ProgressPull",
    "ProgressPush",
    "Recovery",
    "StatusServer",
    "TLSOptions",
]
