# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations and admission policies: what no rule of `rules/admission.json` says, mostly of expressions."""

import re

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.metadata import entries
from trainwright.controller.local.apiserver.kinds.rules import register
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy, ResetFields
from trainwright.controller.local.cel.expression import compiled_over
from trainwright.controller.local.types.errors import invalid

_AUTHORIZER = re.compile(r"\bauthorizer\b")
USED = re.compile(r"\bvariables\.(\w+)")
"""Variables in an expression."""
VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
"""What validations may name."""
CONDITION_VARIABLES = ("object", "oldObject", "request", "params")
"""What match conditions may name."""


class PolicyStrategy(BuiltInStrategy):
    """ValidatingAdmissionPolicies. Nobody checks the types of their expressions, so their status stays empty."""

    reset_fields: ResetFields = {"status": (("spec",), ("metadata",))}  # noqa: RUF012 - never changed


@register("a known review version")
def _version_errors(versions: list[str], field: str, _: Document) -> Errors:
    known = not versions or {"v1", "v1beta1"} & set(versions)
    return [] if known else [invalid(field, versions, "must include at least one of v1, v1beta1")]


@register("only *")
def _star_errors(values: list[str], field: str, _: Document) -> Errors:
    text = "if '*' is present, must not specify others"
    return [invalid(field, values, text)] if len(values) > 1 and "*" in values else []


@register("Deny or Warn")
def _action_errors(actions: list[str], field: str, _: Document) -> Errors:
    return [invalid(field, actions, "must not contain both Deny and Warn")] if {"Deny", "Warn"} <= set(actions) else []


_EXPRESSIONS = (
    ("matchConditions", "expression", CONDITION_VARIABLES, "bool"),
    ("variables", "expression", VARIABLES, "dyn"),
    ("validations", "expression", VARIABLES, "bool"),
    ("validations", "messageExpression", VARIABLES, "string"),
    ("auditAnnotations", "valueExpression", VARIABLES, "dyn"),
)
"""Where a policy has expressions, what they may name, and the type that each has to give."""


@register("expressions")
def _policy_errors(spec: Document, field: str, _: Document) -> Errors:
    found: Errors = []
    declared = [one.get("name") or "" for one in entries(spec, "variables")]
    for name, key, variables, wanted in _EXPRESSIONS:
        # Without a kind of parameters there are none.
        known = tuple(one for one in variables if one != "params" or spec.get("paramKind") is not None)
        for index, one in enumerate(entries(spec, name)):
            usable = declared[:index] if name == "variables" else declared
            found += _expression_errors(one.get(key) or "", f"{field}.{name}[{index}].{key}", known, wanted, usable)
    return found


@register("match condition of a webhook")
def _condition_errors(text: str, field: str, _: Document) -> Errors:
    # The evaluator does not know the functions of an authorizer, which only the conditions of webhooks may name here.
    variables = tuple(one for one in CONDITION_VARIABLES if one != "params")
    return [] if _AUTHORIZER.search(text) else _expression_errors(text, field, variables, "bool", [])


def _expression_errors(text: str, field: str, variables: tuple[str, ...], wanted: str, declared: list[str]) -> Errors:
    if not (text := text.strip()):
        return []
    try:
        found = compiled_over(text, variables).result.partition("<")[0]
    except ValueError as error:
        return [invalid(field, text, f"compilation failed: {error}")]
    if missing := set(USED.findall(text)).difference(declared):
        return [invalid(field, text, f"compilation failed: undeclared variables {', '.join(sorted(missing))}")]
    fits = "dyn" in (wanted, found) or found == wanted
    return [] if fits else [invalid(field, text, f"must evaluate to {wanted} but got {found}")]
