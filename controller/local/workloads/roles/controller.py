# SPDX-License-Identifier: Apache-2.0
"""Reconciles aggregated ClusterRoles: their rules are those of the roles that their selectors match.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
"""

from collections.abc import Iterable

from trainwright.api.objects import Document, Key, key_of, labels_of, name_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.controller.local.workloads.kinds import CLUSTER_ROLE
from trainwright.controller.local.workloads.scheduler.selection import labels_match
from trainwright.controller.runtime import Conflict, Manager, Result

NAME = "roles"
FIELD_MANAGER = "clusterrole-aggregation-controller"
"""As in kube-controller-manager, so that managed fields are the same."""


def aggregated(role: Document, roles: Iterable[Document]) -> list[Document]:
    """The rules that an aggregated role has: selector by selector, each rule once.

    The roles that a selector matches count in the order of their names, and the role itself does not. Of those that are
    aggregated, too, their present rules count; when these change, the role is reconciled again.
    """
    others = sorted((one for one in roles if name_of(one) != name_of(role)), key=name_of)
    rules: list[Document] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for other in others:
            if labels_match(selector, labels_of(other)):
                for rule in other.get("rules") or ():
                    if rule not in rules:
                        rules.append(rule)
    return rules


class RoleController:
    """Reconciles aggregated ClusterRoles. The constructor declares its watch on the manager."""

    RULES = (Rule.on(CLUSTER_ROLE, *WATCH, "patch", "escalate"),)

    def __init__(self, manager: Manager) -> None:
        """Declare everything; `manager.run` starts it."""
        self._client, self._cache = manager.client, manager.cache
        manager.controller(NAME).watches(CLUSTER_ROLE, self._all_aggregated).reconcile(self.reconcile, workers=1)

    def _all_aggregated(self, role: Document) -> list[Key]:
        """Any role may be one that others collect, or have been until now."""
        del role
        return [key_of(one) for one in self._cache.list(CLUSTER_ROLE) if one.get("aggregationRule")]

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one role."""
        role = self._cache.get(CLUSTER_ROLE, key.name)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregated(role, self._cache.list(CLUSTER_ROLE))
        if rules == (role.get("rules") or []):
            return None
        # With its uid, an apply does not make a role anew that was deleted meanwhile.
        wanted: Document = {"metadata": {"name": key.name, "uid": uid_of(role)}}
        if rules:
            wanted["rules"] = rules
        try:
            await self._client.apply(wanted, kind=CLUSTER_ROLE, field_manager=FIELD_MANAGER, force=True)
        except Conflict:
            return None  # it is gone
        return None
