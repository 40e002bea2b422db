# SPDX-License-Identifier: Apache-2.0
"""Authorization by the stored roles and bindings.

A change of them takes effect with the next request. Aggregated ClusterRoles have the rules of those that their
selectors match, whether or not a controller has copied the rules.

Source: `pkg/registry/rbac/validation/rule.go`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trainwright.api.objects import Document
from trainwright.api.selectors import LabelMatcher, label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.authorization.attributes import Attributes
from trainwright.controller.local.apiserver.authorization.authorizer import MASTERS, AccessDecision, UserRules
from trainwright.controller.local.apiserver.authorization.rules import allows
from trainwright.controller.local.apiserver.request.info import ACCOUNT_PREFIX, User
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore

GROUP = "rbac.authorization.k8s.io"
_COLLECTIONS = {
    kind: f"{kind.lower()}s.{GROUP}" for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")
}


class _Binding(NamedTuple):
    document: Document
    namespace: str
    """Empty for a ClusterRoleBinding."""

    def subject_of(self, user: User) -> Document | None:
        """The first subject that the user is."""
        return next((one for one in self.document.get("subjects") or () if self._is(one, user)), None)

    def _is(self, subject: Document, user: User) -> bool:
        name = subject.get("name")
        match subject.get("kind"):
            case "User":
                return bool(user.name == name)
            case "Group":
                return name in user.groups
            case "ServiceAccount":
                namespace = subject.get("namespace") or self.namespace
                return bool(namespace) and user.name == f"{ACCOUNT_PREFIX}{namespace}:{name}"
        return False

    def shown(self, subject: Document) -> str:
        """As reviews name what gives a right."""
        name, role = self.document["metadata"]["name"], self.document["roleRef"]
        if self.namespace:
            name = f"{name}/{self.namespace}"
        who = subject["name"]
        if subject["kind"] == "ServiceAccount":
            who = f"{who}/{subject.get('namespace') or self.namespace}"
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        return f'{kind} "{name}" of {role["kind"]} "{role["name"]}" to {subject["kind"]} "{who}"'


class _Granted(NamedTuple):
    rule: Document
    by: _Binding
    subject: Document


class RBACAuthorizer:
    """Decides by the roles and bindings of a store.

    Args:
        store: of all objects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, tuple[int, list[Document]]] = {}
        """The objects of each collection, as of which change."""

    def decide(self, wanted: Attributes) -> AccessDecision:
        """See Authorizer."""
        if MASTERS in wanted.user.groups:
            return AccessDecision(True)
        problems: list[str] = []
        for granted in self._granted(wanted.user, wanted.namespace, problems):
            if allows(granted.rule, wanted):
                return AccessDecision(True, f"RBAC: allowed by {granted.by.shown(granted.subject)}")
        return AccessDecision(False, f"RBAC: {_together(problems)}" if problems else "")

    def rules(self, user: User, namespace: str) -> UserRules:
        """See Authorizer."""
        problems: list[str] = []
        found = [granted.rule for granted in self._granted(user, namespace, problems)]
        return UserRules(found, _together(problems))

    def role_rules(self, reference: Document, namespace: str) -> list[Document]:
        """The rules of the role that a binding refers to. Raises StatusError if there is none."""
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        place = namespace if kind == "Role" else ""
        one = self._store.get(_COLLECTIONS[kind], ObjectName(place, name)) if kind in ("Role", "ClusterRole") else None
        if one is None:
            raise errors.not_found(GROUP, kind.lower(), name)
        role = one.document()
        return self._rules_in(role, set())

    def _rules_in(self, role: Document, seen: set[str]) -> list[Document]:
        """The rules of a role, and for an aggregated one those of the roles that it collects, which may be so too."""
        aggregation = role.get("aggregationRule")
        if aggregation is None:
            return list(role.get("rules") or ())
        seen.add(role["metadata"]["name"])
        selectors = [label_selector_of(one) for one in aggregation.get("clusterRoleSelectors") or ()]
        found: list[Document] = []
        for other in self._all("ClusterRole"):
            if other["metadata"]["name"] not in seen and _matches(selectors, other):
                found += [rule for rule in self._rules_in(other, seen) if rule not in found]
        return found

    def _granted(self, user: User, namespace: str, problems: list[str]) -> Iterator[_Granted]:
        for binding in self._bindings(namespace):
            subject = binding.subject_of(user)
            if subject is None:
                continue
            try:
                rules = self.role_rules(binding.document["roleRef"], binding.namespace)
            except errors.StatusError as error:
                problems.append(error.message)
                continue
            yield from (_Granted(rule, binding, subject) for rule in rules)

    def _bindings(self, namespace: str) -> Iterator[_Binding]:
        yield from (_Binding(one, "") for one in self._all("ClusterRoleBinding"))
        if namespace:
            for one in self._all("RoleBinding"):
                if one["metadata"]["namespace"] == namespace:
                    yield _Binding(one, namespace)

    def _all(self, kind: str) -> list[Document]:
        collection = self._store.collection(_COLLECTIONS[kind])
        changed, found = self._known.get(kind, (-1, []))
        if changed != collection.changed:
            found = [one.document() for one in collection.listed()]
            self._known[kind] = collection.changed, found
        return found


def _matches(selectors: list[LabelMatcher | None], role: Document) -> bool:
    return any(selector is not None and selector.matches_document(role) for selector in selectors)


def _together(problems: list[str]) -> str:
    """Several errors as Go prints them."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
