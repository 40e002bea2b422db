# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of node.k8s.io/v1."""

from trainwright.api.kubernetes.node.v1.models import (
    Overhead,
    RuntimeClass,
    Scheduling,
)

__all__ = [
    "Overhead",
    "RuntimeClass",
    "Scheduling",
]
