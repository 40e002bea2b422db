# SPDX-License-Identifier: Apache-2.0
"""Authorization by the stored roles and bindings, and the admission that keeps authors from giving what they lack.

A change of roles takes effect with the next request. Aggregated ClusterRoles have the rules of those that their
selectors match, whether or not a controller has copied the rules.

Sources: `pkg/registry/rbac/validation/rule.go`, `policy_compact.go`, `pkg/apis/rbac/v1/evaluation_helpers.go` and
`k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go` of Kubernetes;
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from trainwright.api.objects import Document
from trainwright.api.selectors import LabelMatcher, label_selector_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest
from trainwright.controller.local.apiserver.authorization.authorizer import (
    EVERYTHING,
    MASTERS,
    AccessDecision,
    Attributes,
    Authorizer,
    UserRules,
)
from trainwright.controller.local.apiserver.errors import StatusError, forbidden, not_found
from trainwright.controller.local.apiserver.request.info import ACCOUNT_PREFIX, ANONYMOUS, RequestInfo, User
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.values import quoted

_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def allows(rule: Document, wanted: Attributes) -> bool:
    """Whether a rule allows something."""
    if not _has(_of(rule, "verbs"), wanted.verb):
        return False
    if not wanted.is_resource:
        return any(_url_covers(url, wanted.path) for url in _of(rule, "nonResourceURLs"))
    names, resources = _of(rule, "resourceNames"), _of(rule, "resources")
    named = _has(resources, wanted.combined) or (bool(wanted.subresource) and f"*/{wanted.subresource}" in resources)
    return named and _has(_of(rule, "apiGroups"), wanted.group) and (not names or wanted.name in names)


def uncovered(owned: Sequence[Document], wanted: Iterable[Document]) -> list[Document]:
    """What of the wanted rules the owned ones do not allow, one verb on one resource each."""
    parts = (part for rule in wanted for part in _parts(rule))
    return [rule for rule, attributes in parts if not any(allows(one, attributes) for one in owned)]


def _parts(rule: Document) -> Iterator[tuple[Document, Attributes]]:
    """The parts of a rule, as rules and as what they allow."""
    names = _of(rule, "resourceNames")
    for verb in _of(rule, "verbs"):
        allowed = partial(Attributes, user=ANONYMOUS, verb=verb)
        for group, resource in product(_of(rule, "apiGroups"), _of(rule, "resources")):
            part: Document = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            plural, _, subresource = resource.partition("/")
            for name in names or ("",):
                found = {**part, "resourceNames": [name]} if name else part
                yield found, allowed(group=group, resource=plural, subresource=subresource, name=name)
        for url in _of(rule, "nonResourceURLs"):
            yield {"nonResourceURLs": [url], "verbs": [verb]}, allowed(is_resource=False, path=url)


def _url_covers(owned: str, wanted: str) -> bool:
    return owned in ("*", wanted) or (owned.endswith("*") and wanted.startswith(owned.rstrip("*")))


def shown(rules: Iterable[Document]) -> list[str]:
    """Rules as messages name them, those that differ in their verbs alone together, in order."""
    compact: list[Document] = []
    simple: dict[tuple[str, str, str | None], Document] = {}
    for rule in rules:
        groups, resources, names = (_of(rule, field) for field in ("apiGroups", "resources", "resourceNames"))
        if len(groups) != 1 or len(resources) != 1 or len(names) > 1:
            compact.append(rule)
            continue
        key = (groups[0], resources[0], names[0] if names else None)
        if key in simple:
            simple[key]["verbs"] = [*simple[key]["verbs"], *_of(rule, "verbs")]
        else:
            simple[key] = dict(rule)
    return sorted({_text(rule) for rule in (*compact, *simple.values())})


def _text(rule: Document) -> str:
    parts = (
        f"{name}:[{' '.join(quoted(one) for one in _of(rule, field))}]" for name, field in _SHOWN if _of(rule, field)
    )
    return f"{{{', '.join(parts)}}}"


def _of(rule: Document, field: str) -> Sequence[str]:
    found: Sequence[str] = rule.get(field) or ()
    return found


def _has(values: Sequence[str], wanted: str) -> bool:
    return "*" in values or wanted in values


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


class RBACAuthorizer(Authorizer):
    """Decides by the roles and bindings of a store."""

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
        role = None
        if kind in ("Role", "ClusterRole"):
            role = self._store.document(_COLLECTIONS[kind], name, namespace if kind == "Role" else "")
        if role is None:
            raise errors.not_found(GROUP, kind.lower(), name)
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


_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")
"""What the garbage collector may change in an object whatever its rights."""


class Escalation:
    """Refuses roles and bindings that give more than their author has; `check` is a plugin of the admission chain."""

    def __init__(self, authorizer: RBACAuthorizer) -> None:
        self._authorizer = authorizer

    async def check(self, request: AdmissionRequest) -> None:
        """Before any other plugin, as in kube-apiserver. Raises StatusError."""
        call, new, old = request.call, request.new, request.old
        if call.group != GROUP or new is None or MASTERS in call.user.groups or _only_collects(new, old):
            return
        if call.plural in _ROLES:
            self._check_role(call, new, old)
        elif call.plural in _BINDINGS:
            self._check_binding(call, new)

    def _check_role(self, call: RequestInfo, new: Document, old: Document | None) -> None:
        if self._may(call, "escalate", call.plural, call.name):
            return
        self._confirm(call, new, new.get("rules") or ())
        if any(((one or {}).get("aggregationRule") or {}).get("clusterRoleSelectors") for one in (new, old)):
            # It can collect any right.
            why = "must have cluster-admin privileges to use the aggregationRule"
            self._confirm(call, new, EVERYTHING, why)

    def _check_binding(self, call: RequestInfo, new: Document) -> None:
        reference = new.get("roleRef") or {}
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        if kind in ("Role", "ClusterRole") and self._may(call, "bind", f"{kind.lower()}s", name):
            return
        try:
            rules = self._authorizer.role_rules(reference, call.namespace)
        except StatusError as error:
            # kube-apiserver names the role, but as what was asked for.
            raise not_found(call.group, call.plural, name) from error
        self._confirm(call, new, rules)

    def _may(self, call: RequestInfo, verb: str, plural: str, name: str) -> bool:
        wanted = Attributes(
            user=call.user, verb=verb, group=GROUP, resource=plural, namespace=call.namespace, name=name
        )
        return self._authorizer.decide(wanted).allowed

    def _confirm(self, call: RequestInfo, new: Document, rules: Sequence[Document], why: str = "") -> None:
        """Raises StatusError if the author lacks one of the rules."""
        own = self._authorizer.rules(call.user, call.namespace)
        missing = uncovered(own.rules, rules)
        if missing:
            name = str(new["metadata"].get("name") or "")
            raise forbidden(call.group, call.plural, name, why or _lacks(call, missing, own.problem))


def _lacks(call: RequestInfo, missing: list[Document], problem: str) -> str:
    groups = " ".join(quoted(group) for group in call.user.groups)
    rights = "\n".join(shown(missing))
    more = f"; resolution errors: [{problem}]" if problem else ""
    return (
        f"user {quoted(call.user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions "
        f"not currently held:\n{rights}{more}"
    )


def _only_collects(new: Document, old: Document | None) -> bool:
    return old is not None and _without_collected(new) == _without_collected(old)


def _without_collected(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _COLLECTED}
    return {**document, "metadata": metadata}
