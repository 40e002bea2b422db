# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of scheduling.x-k8s.io/v1alpha1."""

from trainwright.api.scheduling.v1alpha1.models import (
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
)

__all__ = [
    "PodGroup",
    "PodGroupSpec",
    "PodGroupStatus",
]
