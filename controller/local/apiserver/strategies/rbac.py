# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings. They are stored and not enforced."""

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import names
from trainwright.controller.local.apiserver.strategies.parts import ensure, ensure_filled, entries
from trainwright.controller.local.apiserver.strategies.strategy import Strategy

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    """Roles and ClusterRoles."""

    create_on_update = True
    name_rule = staticmethod(names.path_segment)

    def default(self, document: Document) -> None:
        # Go writes null for a list without rules.
        document["rules"] = document.get("rules") or None


class BindingStrategy(Strategy):
    """RoleBindings and ClusterRoleBindings."""

    create_on_update = True
    name_rule = staticmethod(names.path_segment)

    def default(self, document: Document) -> None:
        ensure(document, "roleRef", {})
        ensure_filled(document["roleRef"], "apiGroup", GROUP)
        for subject in entries(document, "subjects"):
            if subject.get("kind") in ("User", "Group"):
                ensure_filled(subject, "apiGroup", GROUP)
