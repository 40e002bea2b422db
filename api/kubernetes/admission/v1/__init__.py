# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of admission.k8s.io/v1."""

from trainwright.api.kubernetes.admission.v1.models import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
)

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionReview",
]
