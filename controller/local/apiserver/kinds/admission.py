# SPDX-License-Identifier: Apache-2.0
"""Webhook configurations and admission policies: what no rule of `rules/admission.json` says, mostly of expressions."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.built_in_strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.ruletests import register
from trainwright.controller.local.apiserver.kinds.strategy import ResetFields
from trainwright.controller.local.cel.expression import compiled_over, with_maps
from trainwright.controller.local.types.errors import invalid, required

_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
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


# -------------------------------------------------------------- webhooks


@register("webhook client")
def _client_errors(config: Document, field: str, _: Document) -> Errors:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is None:
        return []
    where = f"{field}.url"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(where, f"url must be a valid URL: {error}")]
    user, _at, host = parts.netloc.rpartition("@")
    found: Errors = []
    if parts.scheme != "https":
        found.append(invalid(where, url, "'https' is the only allowed URL scheme"))
    if not host:
        found.append(invalid(where, url, "host must be specified"))
    if user or parts.fragment or parts.query:
        found.append(invalid(where, url, "neither user information nor fragments nor query parameters are permitted"))
    return found


@register("review versions")
def _version_errors(versions: list[str], field: str, _: Document) -> Errors:
    repeated = {index for index, version in enumerate(versions) if version in versions[:index]}
    found = [invalid(f"{field}[{index}]", versions[index], "duplicate version") for index in sorted(repeated)]
    if versions and not {"v1", "v1beta1"} & set(versions):
        found.append(invalid(field, versions, "must include at least one of v1, v1beta1"))
    return found


@register("only *")
def _star_errors(values: list[str], field: str, _: Document) -> Errors:
    text = "if '*' is present, must not specify others"
    return [invalid(field, values, text)] if len(values) > 1 and "*" in values else []


@register("overlapping resources")
def _resource_errors(resources: list[str], field: str, _: Document) -> Errors:
    found: Errors = []
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, name in enumerate(resources):
        resource, slash, subresource = name.partition("/")
        if slash and (resource in whole or subresource in everywhere):
            found.append(invalid(f"{field}[{index}]", name, "another resource of the rule contains it"))
        if slash and subresource == "*":
            whole.add(resource)
        if slash and resource == "*":
            everywhere.add(subresource)
    plain = [name for name in resources if name and "/" not in name]
    if ("*/*" in resources and len(resources) > 1) or ("*" in plain and plain[-1] != "*"):
        found.append(invalid(field, resources, "if '*' or '*/*' is present, must not specify other resources"))
    return found


# -------------------------------------------------------------- policies


def _expression_errors(text: str, field: str, variables: tuple[str, ...], wanted: str = "dyn") -> Errors:
    """Errors of an expression; `wanted` is the type of what it must give."""
    if not text.strip():
        return []
    try:
        found = compiled_over(text.strip(), variables).result
    except ValueError as error:
        return [invalid(field, text, f"compilation failed: {error}")]
    fits = wanted == "dyn" or found in (wanted, "dyn")
    return [] if fits else [invalid(field, text, f"must evaluate to {wanted} but got {found}")]


@register("condition")
def _condition_errors(text: str, field: str, _: Document) -> Errors:
    return _expression_errors(text, field, CONDITION_VARIABLES, "bool")


@register("condition over variables")
def _validation_errors(text: str, field: str, _: Document) -> Errors:
    return _expression_errors(text, field, VARIABLES, "bool") if text.strip() else [required(field)]


@register("text over variables")
def _message_errors(text: str, field: str, _: Document) -> Errors:
    if text and not text.strip():
        return [invalid(field, text, "must be non-empty if specified")]
    return _expression_errors(text, field, VARIABLES, "string")


@register("expression")
def _any_errors(text: str, field: str, _: Document) -> Errors:
    return _expression_errors(text, field, VARIABLES) if text.strip() else [required(field)]


@register("variable")
def _variable_errors(variable: Document, field: str, document: Document) -> Errors:
    name, text = variable.get("name") or "", variable.get("expression") or ""
    found = _any_errors(text, f"{field}.expression", document)
    if not name.strip():
        return [required(f"{field}.name"), *found]
    if not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        found.append(invalid(f"{field}.name", name, "must be a valid CEL identifier"))
    return found


@register("mutation")
def _mutation_errors(mutation: Document, field: str, _: Document) -> Errors:
    kind = mutation.get("patchType") or ""
    if kind not in PATCHES:
        return []  # refused by a recorded rule
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


@register("Deny or Warn")
def _action_errors(actions: list[str], field: str, _: Document) -> Errors:
    return [invalid(field, actions, "must not contain both Deny and Warn")] if {"Deny", "Warn"} <= set(actions) else []
