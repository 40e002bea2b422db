# SPDX-License-Identifier: Apache-2.0
"""Gives each namespace its account `default` and the CA certificate; keeps aggregated ClusterRoles up to date.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
"""

from collections.abc import Iterable, Sequence

from trainwright.api.objects import (
    Document,
    Key,
    annotations_of,
    deletion_timestamp_of,
    name_of,
    namespace_of,
    uid_of,
)
from trainwright.api.rights import WATCH, Rule
from trainwright.api.selectors import label_selector_of
from trainwright.controller.local.controllers.base import ControllerBase, Plan, PlannedWrite
from trainwright.controller.local.controllers.objects import ACCOUNT, CLUSTER_ROLE, CONFIG_MAP, NAMESPACE
from trainwright.controller.runtime import AlreadyExists, Conflict, Event, Manager, NotFound, Result

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_CA_KEY = "ca.crt"
_DESCRIPTION = {
    "kubernetes.io/description": (
        "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
        " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of"
        " Kubernetes clusters."
    )
}
"""Annotation that kube-controller-manager sets; tools recognise the ConfigMap by it."""
_ALL_ROLES = Key("", "aggregated-roles")
FIELD_MANAGER = "clusterrole-aggregation-controller"
"""As in kube-controller-manager, so that managed fields are the same."""


def plan_for_namespace(namespace: str, account: Document | None, ca: Document | None, authority: str) -> Plan:
    """Make the account `default` and the ConfigMap with the CA certificate, and mend the latter."""
    plan = Plan()
    if account is None:
        made: Document = {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace}}
        plan.writes.append(PlannedWrite(verb="create", kind=ACCOUNT, obj=made, tolerate=AlreadyExists))
    data = {_CA_KEY: authority}
    if ca is None:
        metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": _DESCRIPTION}
        made = {"metadata": metadata, "data": data}
        plan.writes.append(PlannedWrite(verb="create", kind=CONFIG_MAP, obj=made, tolerate=AlreadyExists))
    elif ca.get("data") != data or not _DESCRIPTION.items() <= annotations_of(ca).items():
        patch = {"metadata": {"annotations": _DESCRIPTION}, "data": dict.fromkeys(ca.get("data") or ()) | data}
        plan.writes.append(PlannedWrite(verb="patch", kind=CONFIG_MAP, obj=ca, body=patch))
    return plan


class AccountController(ControllerBase):
    """Reconciles namespaces."""

    RULES = (
        Rule.on(NAMESPACE, *WATCH),
        Rule.on(ACCOUNT, *WATCH, "create"),
        Rule.on(CONFIG_MAP, *WATCH, "create"),
        Rule.on(CONFIG_MAP, "patch", names=[ROOT_CA]),
    )

    def declare(self, manager: Manager) -> None:
        """Declare what it watches."""
        builder = manager.controller("accounts").for_(NAMESPACE)
        for kind, name in ((ACCOUNT, DEFAULT_ACCOUNT), (CONFIG_MAP, ROOT_CA)):
            builder.watches(kind, _namespace_of, predicates=[_Named(name)])
        builder.reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one namespace."""
        namespace = self.cache.get(NAMESPACE, key.name)
        if namespace is None or deletion_timestamp_of(namespace) is not None:
            return None
        account = self.cache.get(ACCOUNT, DEFAULT_ACCOUNT, key.name)
        ca = self.cache.get(CONFIG_MAP, ROOT_CA, key.name)
        try:
            plan = plan_for_namespace(key.name, account, ca, self.settings.authority)
            await self.carry_out(plan, NAMESPACE, namespace)
        except NotFound:
            return None  # the namespace is gone
        return None


class _Named:
    """A predicate for objects with one name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, event: Event[Document]) -> bool:
        return name_of(event.obj) == self._name


def _namespace_of(obj: Document) -> list[Key]:
    return [Key("", namespace_of(obj))]


# ---------------------------------------------------------------------- roles


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
    """PlannedWrite the rules of the aggregated roles that are behind."""
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

    RULES = (Rule.on(CLUSTER_ROLE, *WATCH, "patch", "escalate"),)

    def declare(self, manager: Manager) -> None:
        """Declare what it watches."""
        builder = manager.controller("roles").watches(CLUSTER_ROLE, lambda _: (_ALL_ROLES,))
        builder.reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Bring all aggregated roles up to date."""
        for _ in self.cache.list(CLUSTER_ROLE):  # what one has collected another one may collect
            plan = plan_for_roles(self.cache.list(CLUSTER_ROLE))
            if not plan.writes:
                break
            await self.make(plan.writes)
        return None
