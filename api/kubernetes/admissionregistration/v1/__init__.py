# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
"""The types of admissionregistration.k8s.io/v1."""

from trainwright.api.kubernetes.admissionregistration.v1.models import (
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)

__all__ = [
    "MatchCondition",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "RuleWithOperations",
    "ServiceReference",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
    "WebhookClientConfig",
]
