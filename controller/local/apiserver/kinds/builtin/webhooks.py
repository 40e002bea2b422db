# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks. That the expressions of match conditions compile is not checked here."""

from urllib.parse import urlsplit

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    qualified_errors,
    repeated,
    selector_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.schema.errors import invalid, not_supported, required, too_many

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS = 64
_LONGEST_TIMEOUT = 30
_FORM = "; desired format: https://host[/path]"


class WebhookStrategy(BuiltInStrategy):
    """Configurations of mutating and of validating webhooks."""

    def validate(self, document: Document) -> list[DocumentError]:
        return webhook_errors(entries(document, "webhooks"))


def webhook_errors(webhooks: list[Document]) -> Errors:
    """Errors of the webhooks of a configuration."""
    found: Errors = []
    seen: set[str] = set()
    for index, webhook in enumerate(webhooks):
        where, name = f"webhooks[{index}]", webhook.get("name") or ""
        found += _name_errors(name, f"{where}.name")
        for position, rule in enumerate(entries(webhook, "rules")):
            found += rule_errors(rule, f"{where}.rules[{position}]")
        found += _policy_errors(webhook, where)
        for selector in ("namespaceSelector", "objectSelector"):
            found += selector_errors(webhook.get(selector), f"{where}.{selector}")
        found += _choice(webhook, "reinvocationPolicy", ("IfNeeded", "Never"), where)
        found += _client_errors(part(webhook, "clientConfig"), f"{where}.clientConfig")
        found += condition_errors(entries(webhook, "matchConditions"), f"{where}.matchConditions")
        found += _version_errors(texts(webhook, "admissionReviewVersions"), f"{where}.admissionReviewVersions")
        if name:
            found += repeated(seen, name, f"{where}.name")
    return found


def _name_errors(name: str, field: str) -> Errors:
    if not name:
        return [required(field)]
    problems = names.dns_subdomain(name)
    if problems:
        return [invalid(field, name, ",".join(problems))]
    if name.count(".") < 2:
        return [invalid(field, name, "should be a domain with at least three segments separated by dots")]
    return []


def _choice(webhook: Document, name: str, possible: tuple[str, ...], field: str) -> Errors:
    value = webhook.get(name)
    return [] if value is None or value in possible else [not_supported(f"{field}.{name}", value, possible)]


def _policy_errors(webhook: Document, field: str) -> Errors:
    found = _choice(webhook, "failurePolicy", ("Fail", "Ignore"), field)
    found += _choice(webhook, "matchPolicy", ("Equivalent", "Exact"), field)
    if webhook.get("sideEffects") is None:
        found.append(required(f"{field}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    found += _choice(webhook, "sideEffects", _SIDE_EFFECTS, field)
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _LONGEST_TIMEOUT:
        text = "the timeout value must be between 1 and 30 seconds"
        found.append(invalid(f"{field}.timeoutSeconds", timeout, text))
    return found


def _client_errors(config: Document, field: str) -> Errors:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is None:
        return service_errors(service or {}, f"{field}.service")
    where = f"{field}.url"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(where, f"url must be a valid URL: {error}{_FORM}")]
    user, _, host = parts.netloc.rpartition("@")
    found: Errors = []
    if parts.scheme != "https":
        found.append(invalid(where, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        found.append(invalid(where, "", f"host must be specified{_FORM}"))
    for given, what in (
        (user, "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if given:
            found.append(invalid(where, given, f"{what} not permitted in the URL"))
    return found


def service_errors(service: Document, field: str) -> Errors:
    """Errors of a reference to the Service of a webhook."""
    found: Errors = [required(f"{field}.{name}") for name in ("name", "namespace") if not service.get(name)]
    port, path = service.get("port"), service.get("path") or "/"
    if port is not None and not 1 <= port <= 65535:
        found.append(invalid(f"{field}.port", port, "must be between 1 and 65535, inclusive"))
    if not path.startswith("/"):
        found.append(invalid(f"{field}.path", path, "must start with a '/'"))
    return found


def condition_errors(conditions: list[Document], field: str) -> Errors:
    """Errors of match conditions. That they compile is not checked here."""
    found = [too_many(field, len(conditions), _MOST_CONDITIONS)] if len(conditions) > _MOST_CONDITIONS else []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{field}[{index}]", condition.get("name") or ""
        if not (condition.get("expression") or "").strip():
            found.append(required(f"{where}.expression"))
        found += qualified_errors(name, f"{where}.name") if name else [required(f"{where}.name")]
        if name:
            found += repeated(seen, name, f"{where}.name")
    return found


def _version_errors(versions: list[str], field: str) -> Errors:
    if not versions:
        return [required(field, f"must specify one of {', '.join(_VERSIONS)}")]
    found: Errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            found.append(invalid(f"{field}[{index}]", version, "duplicate version"))
        else:
            found += [invalid(f"{field}[{index}]", version, text) for text in names.dns_label_1035(version)]
    if not set(versions) & set(_VERSIONS):
        found.append(invalid(field, versions, f"must include at least one of {', '.join(_VERSIONS)}"))
    return found


def rule_errors(rule: Document, field: str) -> Errors:
    """Errors of a rule with operations, groups, versions and resources."""
    operations = texts(rule, "operations")
    found = [] if operations else [required(f"{field}.operations")]
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        found.append(invalid(f"{field}.operations", operations, text))
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            found.append(not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS))
    for name, spoken in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, where = texts(rule, name), f"{field}.{name}"
        if not values:
            found.append(required(where))
        if len(values) > 1 and "*" in values:
            found.append(invalid(where, values, f"if '*' is present, must not specify other {spoken}"))
        if name == "apiVersions":
            found += [required(f"{where}[{index}]") for index, value in enumerate(values) if not value]
    found += _resource_errors(texts(rule, "resources"), f"{field}.resources")
    return found + _choice(rule, "scope", _SCOPES, field)


def _resource_errors(resources: list[str], field: str) -> Errors:
    found = [] if resources else [required(field)]
    whole: set[str] = set()
    everywhere: set[str] = set()
    plain = False
    for index, name in enumerate(resources):
        where = f"{field}[{index}]"
        resource, slash, subresource = name.partition("/")
        if not name:
            found.append(required(where))
            continue
        if not slash:
            plain = name != "*"
            continue
        if resource in whole:
            found.append(invalid(where, name, f"if '{resource}/*' is present, must not specify {name}"))
        if subresource in everywhere:
            found.append(invalid(where, name, f"if '*/{subresource}' is present, must not specify {name}"))
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        found.append(invalid(field, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        found.append(invalid(field, resources, text))
    return found
