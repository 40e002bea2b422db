# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of meta/v1."""

from trainwright.api.kubernetes.meta.v1.models import (
    Condition,
    DeleteOptions,
    FieldSelectorRequirement,
    GroupVersionKind,
    GroupVersionResource,
    LabelSelector,
    LabelSelectorRequirement,
    ListMeta,
    ManagedFieldsEntry,
    ObjectMeta,
    OwnerReference,
    Preconditions,
    ShardInfo,
    Status,
    StatusCause,
    StatusDetails,
)

__all__ = [
    "Condition",
    "DeleteOptions",
    "FieldSelectorRequirement",
    "GroupVersionKind",
    "GroupVersionResource",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "ManagedFieldsEntry",
    "ObjectMeta",
    "OwnerReference",
    "Preconditions",
    "ShardInfo",
    "Status",
    "StatusCause",
    "StatusDetails",
]
