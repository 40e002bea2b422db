# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of coordination.k8s.io/v1."""

from trainwright.api.kubernetes.coordination.v1.models import (
    Lease,
    LeaseSpec,
)

__all__ = [
    "Lease",
    "LeaseSpec",
]
