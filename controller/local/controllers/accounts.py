# SPDX-License-Identifier: Apache-2.0
"""Gives each namespace its account `default` and the CA certificate; keeps aggregated ClusterRoles up to date.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
"""

from collections.abc import Iterable
from contextlib import suppress

from trainwright.api.base import Resource
from trainwright.api.objects import (
    Document,
    Key,
    annotations_of,
    deletion_timestamp_of,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from trainwright.api.rights import WATCH, Rule
from trainwright.controller.local.controllers.objects import ACCOUNT, CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, labels_match
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


class AccountController:
    """Reconciles namespaces. The constructor declares its watches on the manager."""

    RULES = (
        Rule.on(NAMESPACE, *WATCH),
        Rule.on(ACCOUNT, *WATCH, "create"),
        Rule.on(CONFIG_MAP, *WATCH, "create"),
        Rule.on(CONFIG_MAP, "patch", names=[ROOT_CA]),
    )

    def __init__(self, manager: Manager, authority: str) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            authority: PEM of the authority that signed the API server's certificate.
        """
        self._client, self._cache, self._authority = manager.client, manager.cache, authority
        manager.controller("accounts").for_(NAMESPACE).watches(
            ACCOUNT, _namespace_of, predicates=[lambda event: name_of(event.obj) == DEFAULT_ACCOUNT]
        ).watches(CONFIG_MAP, _namespace_of, predicates=[_is_root_ca]).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one namespace."""
        namespace = self._cache.get(NAMESPACE, key.name)
        if namespace is None or deletion_timestamp_of(namespace) is not None:
            return None
        try:
            if self._cache.get(ACCOUNT, DEFAULT_ACCOUNT, key.name) is None:
                await self._create(ACCOUNT, {"metadata": {"name": DEFAULT_ACCOUNT, "namespace": key.name}})
            await self._publish_authority(key.name)
        except NotFound:
            return None  # the namespace is gone
        return None

    async def _publish_authority(self, namespace: str) -> None:
        wanted: Document = {"metadata": {"annotations": _DESCRIPTION}, "data": {_CA_KEY: self._authority}}
        current = self._cache.get(CONFIG_MAP, ROOT_CA, namespace)
        if current is None:
            metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": _DESCRIPTION}
            await self._create(CONFIG_MAP, {**wanted, "metadata": metadata})
        elif current.get("data") != wanted["data"] or not _DESCRIPTION.items() <= annotations_of(current).items():
            others = {name: None for name in current.get("data") or {} if name != _CA_KEY}
            patch = {**wanted, "data": {**others, _CA_KEY: self._authority}}
            await self._client.patch(CONFIG_MAP, ROOT_CA, namespace, patch)

    async def _create(self, kind: Resource, document: Document) -> None:
        try:
            await self._client.create(document, kind=kind)
        except AlreadyExists:
            return


def _namespace_of(obj: Document) -> list[Key]:
    return [Key("", namespace_of(obj))]


def _is_root_ca(event: Event[Document]) -> bool:
    return name_of(event.obj) == ROOT_CA


FIELD_MANAGER = "clusterrole-aggregation-controller"
"""As in kube-controller-manager, so that managed fields are the same."""
_ALL_ROLES = Key("", "aggregated-roles")


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
        manager.controller("roles").watches(CLUSTER_ROLE, lambda _: (_ALL_ROLES,)).reconcile(self.reconcile, workers=1)

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
