# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings. They are stored and not enforced."""

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    immutable_errors,
    name_errors,
    selector_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import invalid, not_supported, required

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(BuiltInStrategy):
    """Roles and ClusterRoles."""

    def faults(self, document: Document) -> Errors:
        found: Errors = []
        for index, rule in enumerate(entries(document, "rules")):
            found += _rule_errors(rule, f"rules[{index}]", namespaced=self.kind.namespaced)
        aggregation = document.get("aggregationRule")
        if aggregation is None or self.kind.namespaced:
            return found
        where, selectors = "aggregationRule.clusterRoleSelectors", entries(aggregation, "clusterRoleSelectors")
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(required(where, text))
        for index, selector in enumerate(selectors):
            found += selector_errors(selector, f"{where}[{index}]")
        return found


def _rule_errors(rule: Document, field: str, *, namespaced: bool) -> Errors:
    found: Errors = []
    if not rule.get("verbs"):
        found.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{field}.nonResourceURLs"
        if namespaced:
            found.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            found.append(invalid(where, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return found
    for name, one in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(name):
            found.append(required(f"{field}.{name}", f"resource rules must supply at least one {one}"))
    return found


class BindingStrategy(BuiltInStrategy):
    """RoleBindings and ClusterRoleBindings."""

    def faults(self, document: Document) -> Errors:
        found: Errors = []
        role = part(document, "roleRef")
        group, kind, name = (role.get(field) or "" for field in ("apiGroup", "kind", "name"))
        if group != GROUP:
            found.append(not_supported("roleRef.apiGroup", group, (GROUP,)))
        kinds = ("Role", "ClusterRole") if self.kind.namespaced else ("ClusterRole",)
        if kind not in kinds:
            found.append(not_supported("roleRef.kind", kind, kinds))
        found += name_errors(name, "roleRef.name", names.path_segment) if name else [required("roleRef.name")]
        for index, subject in enumerate(entries(document, "subjects")):
            found += _subject_errors(subject, f"subjects[{index}]", namespaced=self.kind.namespaced)
        return found

    def changes(self, new: Document, old: Document) -> Errors:
        return immutable_errors(new.get("roleRef"), old.get("roleRef"), "roleRef")


def _subject_errors(subject: Document, field: str, *, namespaced: bool) -> Errors:
    kind, name, group = (subject.get(one) or "" for one in ("kind", "name", "apiGroup"))
    found = [] if name else [required(f"{field}.name")]
    if kind == "ServiceAccount":
        if name:
            found += name_errors(name, f"{field}.name", names.dns_subdomain)
        if group:
            found.append(not_supported(f"{field}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(required(f"{field}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            found.append(not_supported(f"{field}.apiGroup", group, (GROUP,)))
    else:
        found.append(not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group")))
    return found
