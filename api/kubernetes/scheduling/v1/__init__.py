# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of scheduling.k8s.io/v1."""

from trainwright.api.kubernetes.scheduling.v1.models import (
    PriorityClass,
)

__all__ = [
    "PriorityClass",
]
