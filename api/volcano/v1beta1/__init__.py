# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of scheduling.volcano.sh/v1beta1."""

from trainwright.api.volcano.v1beta1.models import (
    NetworkTopologySpec,
    PodGroup,
    PodGroupCondition,
    PodGroupSpec,
    PodGroupStatus,
    SubGroupPolicySpec,
)

__all__ = [
    "NetworkTopologySpec",
    "PodGroup",
    "PodGroupCondition",
    "PodGroupSpec",
    "PodGroupStatus",
    "SubGroupPolicySpec",
]
