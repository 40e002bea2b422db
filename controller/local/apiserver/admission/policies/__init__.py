# SPDX-License-Identifier: Apache-2.0
"""Admission policies: rules in CEL about requests, and changes of objects.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
"""

from trainwright.controller.local.apiserver.admission.policies.admission import Policies

__all__ = ["Policies"]
