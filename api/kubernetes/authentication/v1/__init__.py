# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of authentication.k8s.io/v1."""

from trainwright.api.kubernetes.authentication.v1.models import (
    TokenReview,
    TokenReviewSpec,
    TokenReviewStatus,
    UserInfo,
)

__all__ = [
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "UserInfo",
]
