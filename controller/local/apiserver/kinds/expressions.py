# SPDX-License-Identifier: Apache-2.0
"""What the expressions of admission policies may name
(https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/)."""

VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
"""What validations may name."""
CONDITION_VARIABLES = ("object", "oldObject", "request", "params")
"""What match conditions may name."""
