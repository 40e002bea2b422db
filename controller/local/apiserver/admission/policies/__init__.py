# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies: rules in CEL about requests.

https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
"""

from trainwright.controller.local.apiserver.admission.policies.admission import Policies

__all__ = ["Policies"]
