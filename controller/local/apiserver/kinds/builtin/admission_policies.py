# SPDX-License-Identifier: Apache-2.0
"""Admission policies and their bindings."""

import re
from typing import NamedTuple

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.api.validation.cel import compiled_over
from trainwright.api.validation.celobjects import with_maps
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    choice_errors,
    name_errors,
    repeated,
    selector_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.builtin.webhooks import condition_errors, rule_errors
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields
from trainwright.controller.local.apiserver.schema.errors import duplicate, forbidden, invalid, not_supported, required

_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
)
_NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"
_TWICE_TOLD = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


class PatchType(NamedTuple):
    """What a mutation says by its `patchType`."""

    field: str
    """Has the expression."""
    wanted: str
    """The type of its result, where objects are maps."""
    told: str


PATCHES = {
    "ApplyConfiguration": PatchType("applyConfiguration", "map", "Object"),
    "JSONPatch": PatchType("jsonPatch", "list", "list(JSONPatch)"),
}
VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
"""What validations may name."""
CONDITION_VARIABLES = ("object", "oldObject", "request", "params")
"""What match conditions may name."""


class PolicyStrategy(BuiltInStrategy):
    """ValidatingAdmissionPolicies. Nobody checks the types of their expressions, so their status stays empty."""

    reset_fields: ResetFields = {"status": (("spec",), ("metadata",))}  # noqa: RUF012 - never changed

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        document["status"] = {}

    def faults(self, document: Document) -> Errors:
        return _policy_errors(part(document, "spec"), "spec")


class PolicyBindingStrategy(BuiltInStrategy):
    """ValidatingAdmissionPolicyBindings."""

    def faults(self, document: Document) -> Errors:
        return _binding_errors(part(document, "spec"), "spec")


def mutating_policy_errors(document: Document) -> Errors:
    """The errors of a MutatingAdmissionPolicy beside those of its row in the table: what does not compile."""
    spec = part(document, "spec")
    found: Errors = []
    for index, condition in enumerate(entries(spec, "matchConditions")):
        text = (condition.get("expression") or "").strip()
        found += _expression_errors(text, f"spec.matchConditions[{index}].expression", CONDITION_VARIABLES, "bool")
    for index, variable in enumerate(entries(spec, "variables")):
        found += _variable_errors(variable, f"spec.variables[{index}]")
    for index, mutation in enumerate(entries(spec, "mutations")):
        found += _mutation_errors(mutation, f"spec.mutations[{index}]")
    return found


def _mutation_errors(mutation: Document, field: str) -> Errors:
    kind = mutation.get("patchType") or ""
    if kind not in PATCHES:
        return []  # said by the table
    name, wanted, told = PATCHES[kind]
    if mutation.get(name) is None:
        return [required(f"{field}.{name}")]
    where, text = f"{field}.{name}.expression", (mutation[name].get("expression") or "").strip()
    if not text:
        return [required(where)]
    if wrong := _expression_errors(with_maps(text), where, VARIABLES):
        return wrong
    fits = compiled_over(with_maps(text), VARIABLES).result.partition("<")[0] in (wanted, "dyn")
    return [] if fits else [invalid(where, text, f"must evaluate to {told}")]


def _policy_errors(spec: Document, field: str) -> Errors:
    found = choice_errors(spec.get("failurePolicy"), f"{field}.failurePolicy", ("Fail", "Ignore"))
    kind = spec.get("paramKind")
    if kind is not None:
        found += [required(f"{field}.paramKind.{name}") for name in ("apiVersion", "kind") if not kind.get(name)]
    constraints = spec.get("matchConstraints")
    where = f"{field}.matchConstraints"
    if constraints is None:
        found.append(required(where))
    else:
        found += _resource_errors(constraints, where)
        if not entries(constraints, "resourceRules"):
            found.append(required(f"{where}.resourceRules"))
    conditions = entries(spec, "matchConditions")
    found += condition_errors(conditions, f"{field}.matchConditions")
    for index, condition in enumerate(conditions):
        text = (condition.get("expression") or "").strip()
        found += _expression_errors(text, f"{field}.matchConditions[{index}].expression", CONDITION_VARIABLES, "bool")
    for index, variable in enumerate(entries(spec, "variables")):
        found += _variable_errors(variable, f"{field}.variables[{index}]")
    validations, annotations = entries(spec, "validations"), entries(spec, "auditAnnotations")
    if not validations and not annotations:
        return [*found, *(required(f"{field}.{name}", _NOTHING_TO_DO) for name in ("validations", "auditAnnotations"))]
    for index, validation in enumerate(validations):
        found += _validation_errors(validation, f"{field}.validations[{index}]")
    return found + _annotation_errors(annotations, f"{field}.auditAnnotations")


def _variable_errors(variable: Document, field: str) -> Errors:
    name, text = variable.get("name") or "", variable.get("expression") or ""
    found: Errors = []
    if not name.strip():
        found.append(required(f"{field}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        found.append(invalid(f"{field}.name", name, "must be a valid CEL identifier"))
    if not text.strip():
        return [*found, required(f"{field}.expression", "expression is not specified")]
    return found + _expression_errors(text, f"{field}.expression", VARIABLES)


def _validation_errors(validation: Document, field: str) -> Errors:
    text, message = validation.get("expression") or "", validation.get("message") or ""
    said = validation.get("messageExpression") or ""
    where = f"{field}.expression"
    found = (
        _expression_errors(text, where, VARIABLES, "bool")
        if text.strip()
        else [required(where, "expression is not specified")]
    )
    if said and not said.strip():
        found.append(invalid(f"{field}.messageExpression", said, "must be non-empty if specified"))
    else:
        found += _expression_errors(said, f"{field}.messageExpression", VARIABLES, "string")
    if message and not message.strip():
        found.append(invalid(f"{field}.message", message, "must be non-empty if specified"))
    elif re.search(r"[\n\r]", message.strip()):
        found.append(invalid(f"{field}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        found.append(not_supported(f"{field}.reason", reason, _REASONS))
    return found


def _annotation_errors(annotations: list[Document], field: str) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        where, text = f"{field}[{index}].valueExpression", annotation.get("valueExpression") or ""
        if not text.strip():
            found.append(required(where, "valueExpression is not specified"))
        else:
            found += _expression_errors(text.strip(), where, VARIABLES)
        found += repeated(seen, annotation.get("key") or "", f"{field}[{index}].key")
    return found


def _expression_errors(text: str, field: str, variables: tuple[str, ...], wanted: str = "dyn") -> Errors:
    """Errors of an expression; `wanted` is the type of what it must give."""
    if not text:
        return []
    try:
        found = compiled_over(text, variables).result
    except ValueError as error:
        return [invalid(field, text, f"compilation failed: {error}")]
    fits = wanted == "dyn" or found in (wanted, "dyn")
    return [] if fits else [invalid(field, text, f"must evaluate to {wanted} but got {found}")]


def _resource_errors(resources: Document, field: str) -> Errors:
    found = choice_errors(resources.get("matchPolicy"), f"{field}.matchPolicy", ("Equivalent", "Exact"))
    for name in ("namespaceSelector", "objectSelector"):
        found += selector_errors(resources.get(name), f"{field}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(entries(resources, name)):
            where = f"{field}.{name}[{index}]"
            seen: set[str] = set()
            for position, one in enumerate(texts(rule, "resourceNames")):
                found += name_errors(one, f"{where}.resourceNames[{position}]", names.path_segment)
                found += repeated(seen, one, f"{where}.resourceNames[{position}]")
            found += rule_errors(rule, where)
    return found


def _binding_errors(spec: Document, field: str) -> Errors:
    name = spec.get("policyName") or ""
    found = name_errors(name, f"{field}.policyName", names.dns_subdomain) if name else [required(f"{field}.policyName")]
    found += _reference_errors(spec.get("paramRef"), f"{field}.paramRef")
    if spec.get("matchResources") is not None:
        found += _resource_errors(spec["matchResources"], f"{field}.matchResources")
    actions, where = texts(spec, "validationActions"), f"{field}.validationActions"
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            found.append(not_supported(f"{where}[{index}]", action, _ACTIONS))
        if action in actions[:index]:
            found.append(duplicate(f"{where}[{index}]", action))
    if {"Deny", "Warn"} <= set(actions):
        found.append(invalid(where, actions, _TWICE_TOLD))
    if not actions:
        found.append(required(where, "at least one validation action is required"))
    return found


def _reference_errors(reference: Document | None, field: str) -> Errors:
    if reference is None:
        return []
    name, selector = reference.get("name") or "", reference.get("selector")
    found = name_errors(name, f"{field}.name", names.path_segment) if name else []
    exclusive = "name and selector are mutually exclusive"
    if name and selector is not None:
        found.append(forbidden(f"{field}.name", exclusive))
    found += selector_errors(selector, f"{field}.selector")
    if name and selector is not None:
        found.append(forbidden(f"{field}.selector", exclusive))
    if not name and selector is None:
        found.append(required(field, "one of name or selector must be specified"))
    action, where = reference.get("parameterNotFoundAction"), f"{field}.parameterNotFoundAction"
    if not action:
        return [*found, required(where)]
    return found if action in ("Allow", "Deny") else [*found, not_supported(where, action, ("Deny", "Allow"))]
