# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of authorization.k8s.io/v1."""

from trainwright.api.kubernetes.authorization.v1.models import (
    FieldSelectorAttributes,
    LabelSelectorAttributes,
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
)

__all__ = [
    "FieldSelectorAttributes",
    "LabelSelectorAttributes",
    "NonResourceAttributes",
    "ResourceAttributes",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
]
