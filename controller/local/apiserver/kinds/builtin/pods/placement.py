# SPDX-License-Identifier: Apache-2.0
"""Errors of what says where a pod may run: affinity, tolerations, spreading, gates."""

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    name_errors,
    qualified_errors,
    repeated,
    selector_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.schema.errors import duplicate, forbidden, invalid, not_supported, required

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_HEAVIEST = 100
_NO_OPERATOR = "not a valid selector operator"


def affinity_errors(affinity: Document | None, field: str) -> Errors:
    """Errors of `affinity`."""
    if affinity is None:
        return []
    found = _node_affinity_errors(part(affinity, "nodeAffinity"), f"{field}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        terms, where = part(affinity, name), f"{field}.{name}"
        for index, term in enumerate(entries(terms, REQUIRED)):
            found += _pod_term_errors(term, f"{where}.{REQUIRED}[{index}]")
        for index, weighted in enumerate(entries(terms, PREFERRED)):
            one = f"{where}.{PREFERRED}[{index}]"
            found += _weight_errors(weighted, one)
            found += _pod_term_errors(part(weighted, "podAffinityTerm"), f"{one}.podAffinityTerm")
    return found


def _node_affinity_errors(affinity: Document, field: str) -> Errors:
    found: Errors = []
    if affinity.get(REQUIRED) is not None:
        where = f"{field}.{REQUIRED}.nodeSelectorTerms"
        terms = entries(affinity[REQUIRED], "nodeSelectorTerms")
        if not terms:
            found.append(required(where, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            found += _node_term_errors(term, f"{where}[{index}]", values=True)
    for index, weighted in enumerate(entries(affinity, PREFERRED)):
        where = f"{field}.{PREFERRED}[{index}]"
        found += _weight_errors(weighted, where)
        found += _node_term_errors(part(weighted, "preference"), f"{where}.preference", values=False)
    return found


def _weight_errors(weighted: Document, field: str) -> Errors:
    weight = weighted.get("weight") or 0
    return [] if 0 < weight <= _HEAVIEST else [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _node_term_errors(term: Document, field: str, *, values: bool) -> Errors:
    found: Errors = []
    for index, requirement in enumerate(entries(term, "matchExpressions")):
        found += _node_label_errors(requirement, f"{field}.matchExpressions[{index}]", values=values)
    for index, requirement in enumerate(entries(term, "matchFields")):
        found += _node_field_errors(requirement, f"{field}.matchFields[{index}]")
    return found


def _node_label_errors(requirement: Document, field: str, *, values: bool) -> Errors:
    operator, given = requirement.get("operator") or "", texts(requirement, "values")
    found: Errors = []
    where = f"{field}.values"
    if operator in ("In", "NotIn"):
        if not given:
            found.append(required(where, "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            found.append(forbidden(where, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            found.append(required(where, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        found.append(invalid(f"{field}.operator", operator, _NO_OPERATOR))
    found += qualified_errors(requirement.get("key") or "", f"{field}.key")
    if values:
        for index, value in enumerate(given):
            found += [invalid(f"{where}[{index}]", value, text) for text in names.label_value(value)]
    return found


def _node_field_errors(requirement: Document, field: str) -> Errors:
    operator, given, key = requirement.get("operator") or "", texts(requirement, "values"), requirement.get("key") or ""
    found: Errors = []
    if operator not in ("In", "NotIn"):
        found.append(invalid(f"{field}.operator", operator, _NO_OPERATOR))
    elif len(given) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.append(required(f"{field}.values", text))
    if key != "metadata.name":
        return [*found, invalid(f"{field}.key", key, "not a valid field selector key")]
    for index, value in enumerate(given):
        found += name_errors(value, f"{field}.values[{index}]", names.dns_subdomain)
    return found


def _pod_term_errors(term: Document, field: str) -> Errors:
    found = selector_errors(term.get("labelSelector"), f"{field}.labelSelector")
    found += selector_errors(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in texts(term, "namespaces"):
        found += name_errors(name, f"{field}.namespace", names.dns_label)
    found += _label_key_errors(term, field)
    key = term.get("topologyKey") or ""
    if not key:
        found.append(required(f"{field}.topologyKey", "can not be empty"))
    return found + qualified_errors(key, f"{field}.topologyKey")


def _label_key_errors(term: Document, field: str) -> Errors:
    selector = term.get("labelSelector")
    found: Errors = []
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = texts(term, name)
        if keys and selector is None:
            found.append(forbidden(f"{field}.{name}", "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                found += qualified_errors(key, f"{field}.{name}[{index}]")
    matched, mismatched = texts(term, "matchLabelKeys"), texts(term, "mismatchLabelKeys")
    if selector is not None:
        # The strategy has added an expression for each key, so a key that was there before comes up twice.
        seen = set(part(selector, "matchLabels"))
        for expression in entries(selector, "matchExpressions"):
            key = expression.get("key") or ""
            if key in matched and key in seen:
                text = "exists in both matchLabelKeys and labelSelector"
                found.append(invalid(f"{field}[{matched.index(key)}]", key, text))
            seen.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            found.append(invalid(f"{field}.matchLabelKeys[{index}]", key, text))
    return found


def toleration_errors(tolerations: list[Document], field: str) -> Errors:
    """Errors of `tolerations`."""
    found: Errors = []
    for index, toleration in enumerate(tolerations):
        where = f"{field}[{index}]"
        key, operator, value, effect = (toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
        if key:
            found += qualified_errors(key, f"{where}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(invalid(f"{where}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(invalid(f"{where}.effect", effect, text))
        found += _toleration_value_errors(operator, value, f"{where}.operator")
        if effect and effect not in EFFECTS:
            found.append(not_supported(f"{where}.effect", effect, EFFECTS))
    return found


def _toleration_value_errors(operator: str, value: str, field: str) -> Errors:
    if operator in ("Equal", ""):
        problems = names.label_value(value)
        return [invalid(field, value, ";".join(problems))] if problems else []
    if operator == "Exists":
        return [invalid(field, value, "value must be empty when `operator` is 'Exists'")] if value else []
    if operator in ("Lt", "Gt"):
        # Behind a gate that is off.
        return [not_supported(field, operator, ("Equal", "Exists", "Lt", "Gt"))]
    return [not_supported(field, operator, ("Equal", "Exists"))]


def spread_errors(constraints: list[Document], field: str) -> Errors:
    """Errors of `topologySpreadConstraints`."""
    found: Errors = []
    pairs = [(one.get("topologyKey") or "", one.get("whenUnsatisfiable") or "") for one in constraints]
    for index, constraint in enumerate(constraints):
        where, (key, action) = f"{field}[{index}]", pairs[index]
        skew, domains = constraint.get("maxSkew") or 0, constraint.get("minDomains")
        if skew <= 0:
            found.append(invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not key:
            found.append(required(f"{where}.topologyKey", "can not be empty"))
        actions = ("DoNotSchedule", "ScheduleAnyway")
        if action not in actions:
            found.append(not_supported(f"{where}.whenUnsatisfiable", action, actions))
        if pairs[index] in pairs[index + 1 :]:
            found.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        if domains is not None:
            if domains <= 0:
                found.append(invalid(f"{where}.minDomains", domains, "must be greater than zero"))
            if action != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                found.append(invalid(f"{where}.minDomains", domains, text))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in ("Honor", "Ignore"):
                found.append(not_supported(f"{where}.{name}", policy, ("Honor", "Ignore")))
        found += _label_key_errors(constraint, where)
        found += selector_errors(constraint.get("labelSelector"), f"{where}.labelSelector")
    return found


def gate_errors(gates: list[Document], field: str) -> Errors:
    """Errors of `schedulingGates`."""
    found: Errors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        found += qualified_errors(name, f"{field}[{index}]") + repeated(seen, name, f"{field}[{index}]")
    return found
