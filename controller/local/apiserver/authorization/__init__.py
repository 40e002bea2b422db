# SPDX-License-Identifier: Apache-2.0
"""Who may do what: RBAC, or everything for everybody who has credentials.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from trainwright.controller.local.apiserver.authorization.attributes import Attributes, attributes_of, forbidden
from trainwright.controller.local.apiserver.authorization.authorizer import AllowAuthenticated, Authorizer, Decision
from trainwright.controller.local.apiserver.authorization.rbac import RBACAuthorizer

__all__ = [
    "AllowAuthenticated",
    "Attributes",
    "Authorizer",
    "Decision",
    "RBACAuthorizer",
    "attributes_of",
    "forbidden",
]
