# SPDX-License-Identifier: Apache-2.0
"""Authorization by the stored roles and bindings, and the admission that keeps authors from giving what they lack.

A change of roles takes effect with the next request. Aggregated ClusterRoles have the rules of those that their
selectors match, whether or not a controller has copied the rules.

Sources: `pkg/registry/rbac/validation/rule.go`, `policy_compact.go`, `pkg/apis/rbac/v1/evaluation_helpers.go` and
`k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go` of Kubernetes;
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
"""

from collections.abc import Iterable, Iterator, Sequence
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
    UserRules,
)
from trainwright.controller.local.apiserver.errors import StatusError, forbidden, not_found
from trainwright.controller.local.apiserver.request.info import ACCOUNT_PREFIX, RequestInfo, User
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
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
    names = _of(rule, "resourceNames")
    return (
        _has(_of(rule, "apiGroups"), wanted.group)
        and _names_resource(_of(rule, "resources"), wanted)
        and (not names or wanted.name in names)
    )


def _names_resource(resources: Sequence[str], wanted: Attributes) -> bool:
    if "*" in resources or wanted.combined in resources:
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in resources


def uncovered(owned: Sequence[Document], wanted: Iterable[Document]) -> list[Document]:
    """What of the wanted rules the owned ones do not allow, one verb on one resource each."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(one, part) for one in owned)]


def _parts(rule: Document) -> Iterator[Document]:
    names = _of(rule, "resourceNames")
    for group in _of(rule, "apiGroups"):
        for resource in _of(rule, "resources"):
            for verb in _of(rule, "verbs"):
                part: Document = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                yield from ({**part, "resourceNames": [name]} for name in names) if names else (part,)
    for url in _of(rule, "nonResourceURLs"):
        for verb in _of(rule, "verbs"):
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(rule: Document, part: Document) -> bool:
    names, wanted_names = _of(rule, "resourceNames"), _of(part, "resourceNames")
    return (
        all(_has(_of(rule, field), one) for field in ("verbs", "apiGroups") for one in _of(part, field))
        and all(_covers_resource(_of(rule, "resources"), one) for one in _of(part, "resources"))
        and all(
            any(_url_covers(own, url) for own in _of(rule, "nonResourceURLs")) for url in _of(part, "nonResourceURLs")
        )
        and (not names or (bool(wanted_names) and set(wanted_names) <= set(names)))
    )


def _covers_resource(owned: Sequence[str], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return _has(owned, wanted) or (bool(slash) and f"*/{subresource}" in owned)


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
            raise _refused(call, new, why or _lacks(call, missing, own.problem))


def _lacks(call: RequestInfo, missing: list[Document], problem: str) -> str:
    groups = " ".join(quoted(group) for group in call.user.groups)
    rights = "\n".join(shown(missing))
    more = f"; resolution errors: [{problem}]" if problem else ""
    return (
        f"user {quoted(call.user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions "
        f"not currently held:\n{rights}{more}"
    )


def _refused(call: RequestInfo, new: Document, why: str) -> StatusError:
    return forbidden(call.group, call.plural, str(new["metadata"].get("name") or ""), why)


def _only_collects(new: Document, old: Document | None) -> bool:
    return old is not None and _without_collected(new) == _without_collected(old)


def _without_collected(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _COLLECTED}
    return {**document, "metadata": metadata}
