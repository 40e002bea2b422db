# SPDX-License-Identifier: Apache-2.0
"""Who may do what: RBAC, or everything for everybody who has credentials.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from trainwright.controller.local.apiserver.authorization.attributes import Attributes, attributes_of, forbidden
from trainwright.controller.local.apiserver.authorization.authorizer import (
    AccessDecision,
    AllowAuthenticated,
    Authorizer,
)
from trainwright.controller.local.apiserver.authorization.rbac import RBACAuthorizer

__all__ = [
    "AccessDecision",
    "AllowAuthenticated",
    "Attributes",
    "Authorizer",
    "RBACAuthorizer",
    "attributes_of",
    "forbidden",
]
