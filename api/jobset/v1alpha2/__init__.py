# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of jobset.x-k8s.io/v1alpha2."""

from trainwright.api.jobset.v1alpha2.models import (
    Coordinator,
    DependsOn,
    FailurePolicy,
    FailurePolicyRule,
    JobSet,
    JobSetSpec,
    JobSetStatus,
    Network,
    ReplicatedJob,
    ReplicatedJobStatus,
    StartupPolicy,
    SuccessPolicy,
    VolumeClaimPolicy,
    VolumeRetentionPolicy,
)

__all__ = [
    "Coordinator",
    "DependsOn",
    "FailurePolicy",
    "FailurePolicyRule",
    "JobSet",
    "JobSetSpec",
    "JobSetStatus",
    "Network",
    "ReplicatedJob",
    "ReplicatedJobStatus",
    "StartupPolicy",
    "SuccessPolicy",
    "VolumeClaimPolicy",
    "VolumeRetentionPolicy",
]
