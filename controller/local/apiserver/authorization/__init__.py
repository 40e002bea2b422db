# SPDX-License-Identifier: Apache-2.0
"""Who may do what: RBAC (`rbac`), or everything for everybody who has credentials (`authorizer`, where to begin).

https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""
