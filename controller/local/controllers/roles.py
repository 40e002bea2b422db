# SPDX-License-Identifier: Apache-2.0
"""Keeps aggregated ClusterRoles up to date.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
"""

from collections.abc import Iterable, Sequence

from trainwright.api.objects import Document, Key, name_of, uid_of
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.controllers.base import ControllerBase, Plan, PlannedWrite
from trainwright.controller.local.controllers.objects import CLUSTER_ROLE
from trainwright.controller.runtime import Conflict, Manager, Result

_ALL_ROLES = Key("", "aggregated-roles")
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
        matcher = label_selector_of(selector)
        for other in others:
            if matcher is not None and matcher.matches_document(other):
                for rule in other.get("rules") or ():
                    if rule not in rules:
                        rules.append(rule)
    return rules


def plan_for_roles(roles: Sequence[Document]) -> Plan:
    plan = Plan()
    for role in roles:
        if role.get("aggregationRule") and (rules := aggregated(role, roles)) != (role.get("rules") or []):
            # With its uid, an apply does not make a role anew that was deleted meanwhile: that is a conflict.
            body: Document = {"metadata": {"name": name_of(role), "uid": uid_of(role)}}
            body |= {"rules": rules} if rules else {}
            options = {"field_manager": FIELD_MANAGER}
            write = PlannedWrite(
                verb="apply", kind=CLUSTER_ROLE, obj=role, body=body, options=options, tolerate=Conflict
            )
            plan.writes.append(write)
    return plan


class RoleController(ControllerBase):
    """Reconciles aggregated ClusterRoles, all at once: any role may be one that they collect."""

    def declare(self, manager: Manager) -> None:
        builder = manager.controller("roles").watches(CLUSTER_ROLE, lambda _: (_ALL_ROLES,))
        builder.reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        for _ in self.cache.list(CLUSTER_ROLE):  # what one has collected another one may collect
            plan = plan_for_roles(self.cache.list(CLUSTER_ROLE))
            if not plan.writes:
                break
            await self.make(plan.writes)
        return None
