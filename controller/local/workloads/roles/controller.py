# SPDX-License-Identifier: Apache-2.0
"""Reconciles aggregated ClusterRoles: their rules are those of the roles that their selectors match.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
"""

from collections.abc import Iterable
from contextlib import suppress

from trainwright.api.objects import Document, Key, labels_of, name_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.controller.local.workloads.documents import labels_match
from trainwright.controller.local.workloads.kinds import CLUSTER_ROLE
from trainwright.controller.runtime import Conflict, Manager, Result

NAME = "roles"
FIELD_MANAGER = "clusterrole-aggregation-controller"
"""As in kube-controller-manager, so that managed fields are the same."""
_ALL = Key("", "aggregated-roles")


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


def _rules_behind(role: Document, roles: Iterable[Document]) -> list[Document] | None:
    """The rules that an aggregated role should have; None if it has them."""
    if not role.get("aggregationRule"):
        return None
    rules = aggregated(role, roles)
    return rules if rules != (role.get("rules") or []) else None


class RoleController:
    """Reconciles aggregated ClusterRoles. The constructor declares its watch on the manager."""

    RULES = (Rule.on(CLUSTER_ROLE, *WATCH, "patch", "escalate"),)

    def __init__(self, manager: Manager) -> None:
        """Declare everything; `manager.run` starts it."""
        self._client, self._cache = manager.client, manager.cache
        manager.controller(NAME).watches(CLUSTER_ROLE, lambda _: (_ALL,)).reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Bring all aggregated roles up to date: any role may be one that they collect, or have been until now."""
        roles = self._cache.list(CLUSTER_ROLE)
        for _ in roles:  # what one has collected another one may collect
            behind = [(role, rules) for role in roles if (rules := _rules_behind(role, roles)) is not None]
            if not behind:
                break
            for role, rules in behind:
                await self._write(role, rules)
            roles = self._cache.list(CLUSTER_ROLE)
        return None

    async def _write(self, role: Document, rules: list[Document]) -> None:
        # With its uid, an apply does not make a role anew that was deleted meanwhile.
        wanted: Document = {"metadata": {"name": name_of(role), "uid": uid_of(role)}}
        if rules:
            wanted["rules"] = rules
        with suppress(Conflict):  # it is gone
            await self._client.apply(wanted, kind=CLUSTER_ROLE, field_manager=FIELD_MANAGER, force=True)
