# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks: those who are registered are asked before anything is stored.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from trainwright.controller.local.apiserver.admission.webhooks.admission import WebhookAdmission
from trainwright.controller.local.apiserver.admission.webhooks.calling import (
    Caller,
    CallError,
    ServiceAddresses,
    WebhookCaller,
)

__all__ = ["CallError", "Caller", "ServiceAddresses", "WebhookAdmission", "WebhookCaller"]
