# SPDX-License-Identifier: Apache-2.0
"""Errors of Jobs."""

import re

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    finalizer_errors,
    negative_errors,
    qualified_errors,
    selector_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.jobs.indexes import IndexesError, count_indexes
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.pods.specification import template_errors
from trainwright.controller.local.apiserver.schema.errors import (
    duplicate,
    invalid,
    invalid_unshown,
    not_supported,
    required,
    too_long,
    too_many,
)

JOB_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MOST_PARALLEL = 100_000
_MOST_FAILED = 100_000
_MANY_COMPLETIONS = 100_000
_MOST_WITH_MANY = 10_000
_MOST_RULES = 20
_MOST_EXIT_CODES = 255
_MOST_CONDITIONS = 20
_LONGEST_MANAGER = 63
_LONGEST_INDEXES = 64 * 1024
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def job_errors(job: Document, *, prefixed: bool = True) -> Errors:
    """Errors of a Job.

    Args:
        job: with defaults, selector and labels.
        prefixed: whether the template must have the labels with prefix; Jobs from before Kubernetes 1.27 have not.
    """
    spec, metadata = part(job, "spec"), part(job, "metadata")
    found = finalizer_errors(job) + _generated_selector_errors(job, prefixed=prefixed) + specification_errors(spec)
    completions, name = spec.get("completions"), metadata.get("name") or ""
    if spec.get("completionMode") == "Indexed" and completions:
        host = f"{name}-{completions - 1}"
        if names.dns_label(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            found.append(invalid("metadata.name", name, text))
    return found


def _generated_selector_errors(job: Document, *, prefixed: bool) -> Errors:
    spec, metadata = part(job, "spec"), part(job, "metadata")
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    uid, name = metadata.get("uid") or "", metadata.get("name") or ""
    found = [] if uid else [required("metadata.uid")]
    labels = part(part(part(spec, "template"), "metadata"), "labels")
    generated: dict[str, str] = {}
    for index in (0, 1) if prefixed else (0,):
        for key, value in ((UID_LABELS[index], uid), (JOB_NAME_LABELS[index], name)):
            generated[key] = value
            found += _label_errors(labels, key, value)
    if not _selects(spec["selector"], generated):
        found.append(invalid("spec.selector", _sorted(spec["selector"]), "`selector` not auto-generated"))
    return found


def _sorted(selector: Document) -> Document:
    """A selector as Go writes it, with the keys of maps in order."""
    others = {key: value for key, value in selector.items() if key != "matchLabels"}
    return {"matchLabels": dict(sorted(part(selector, "matchLabels").items())), **others}


def _label_errors(labels: dict[str, str], key: str, value: str) -> Errors:
    field = f"spec.template.metadata.labels[{key}]"
    if key not in labels:
        return [required(field, f"must be '{value}'")]
    return [] if labels[key] == value else [invalid(field, dict(sorted(labels.items())), f"must be '{value}'")]


def _selects(selector: Document, labels: dict[str, str]) -> bool:
    """Whether a selector matches labels. One that cannot be read does, since that is said elsewhere."""
    if any(labels.get(key) != value for key, value in part(selector, "matchLabels").items()):
        return False
    for requirement in entries(selector, "matchExpressions"):
        key, values = requirement.get("key") or "", texts(requirement, "values")
        matched = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(requirement.get("operator") or "", True)
        if not matched:
            return False
    return True


def specification_errors(spec: Document) -> Errors:
    """Errors of `spec`."""
    found: Errors = []
    for name in _COUNTS:
        found += negative_errors(spec.get(name), f"spec.{name}")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.append(required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    found += _manager_errors(spec.get("managedBy")) + _mode_errors(spec)
    if spec.get("podFailurePolicy") is not None:
        found += _failure_policy_errors(spec)
    found += _success_policy_errors(spec) + _replacement_errors(spec)
    template = part(spec, "template")
    found += template_errors(template, "spec.template") + _restart_errors(spec, part(template, "spec"))
    selector = spec.get("selector")
    found += [required("spec.selector")] if selector is None else selector_errors(selector, "spec.selector")
    labels = part(part(template, "metadata"), "labels")
    if selector is None or not _selects(selector, labels):
        text = "`selector` does not match template `labels`"
        found.append(invalid("spec.template.metadata.labels", dict(sorted(labels.items())) or None, text))
    return found


def _manager_errors(manager: str | None) -> Errors:
    if manager is None:
        return []
    field = "spec.managedBy"
    host, slash, path = manager.partition("/")
    if not manager:
        found: Errors = [required(field)]
    elif not slash or not host or not path:
        text = 'must be a domain-prefixed path (such as "acme.io/foo")'
        found = [invalid(field, manager, text)]
    else:
        found = [invalid(field, host, text) for text in names.dns_subdomain(host)]
        if not _PATH.fullmatch(path):
            text = f"Invalid path (regex used for validation is '{_PATH.pattern}')"
            found.append(invalid(field, path, text))
    if len(manager) > _LONGEST_MANAGER:
        found.append(too_long(field, _LONGEST_MANAGER))
    return found


def _mode_errors(spec: Document) -> Errors:
    mode = spec.get("completionMode")
    if mode == "Indexed":
        return _indexed_errors(spec)
    found: Errors = []
    if mode not in (None, "NonIndexed"):
        return [not_supported("spec.completionMode", mode, ("NonIndexed", "Indexed"))]
    for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(name) is not None:
            found.append(invalid(f"spec.{name}", spec[name], "requires indexed completion mode"))
    return found


def _indexed_errors(spec: Document) -> Errors:
    completions, parallelism, most_failed = (
        spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes")
    )
    found: Errors = []
    if completions is None:
        found.append(required("spec.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MOST_PARALLEL:
        text = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        found.append(invalid("spec.parallelism", parallelism, text))
    if most_failed is not None:
        if completions is not None and most_failed > completions:
            found.append(invalid("spec.maxFailedIndexes", most_failed, "must be less than or equal to completions"))
        if most_failed > _MOST_FAILED:
            found.append(invalid("spec.maxFailedIndexes", most_failed, f"must be less than or equal to {_MOST_FAILED}"))
    if completions is None or completions <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return found
    if most_failed is None:
        text = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        found.append(required("spec.maxFailedIndexes", text))
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", most_failed)):
        if value is not None and value > _MOST_WITH_MANY:
            text = (
                f"must be less than or equal to {_MOST_WITH_MANY} when completions are above {_MANY_COMPLETIONS} "
                "and used with backoff limit per index"
            )
            found.append(invalid(f"spec.{name}", value, text))
    return found


def _failure_policy_errors(spec: Document) -> Errors:
    field = "spec.podFailurePolicy.rules"
    rules = entries(spec["podFailurePolicy"], "rules")
    found = [too_many(field, len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    pod = part(part(spec, "template"), "spec")
    containers = {one.get("name") for name in ("containers", "initContainers") for one in entries(pod, name)}
    for index, rule in enumerate(rules):
        where = f"{field}[{index}]"
        found += _action_errors(spec, rule.get("action") or "", f"{where}.action")
        codes, conditions = rule.get("onExitCodes"), entries(rule, "onPodConditions")
        if codes is not None:
            found += _exit_code_errors(codes, containers, f"{where}.onExitCodes")
        found += _condition_errors(conditions, f"{where}.onPodConditions")
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.append(invalid_unshown(where, text))
        if codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            found.append(invalid_unshown(where, text))
    return found


def _valid_values(values: tuple[str, ...]) -> str:
    listed = " ".join(f'"{value}"' for value in values)
    return f"valid values: [{listed}]"


def _action_errors(spec: Document, action: str, field: str) -> Errors:
    if not action:
        return [required(field, _valid_values(_ACTIONS))]
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        return [invalid(field, action, "requires the backoffLimitPerIndex to be set")]
    return [] if action in _ACTIONS else [not_supported(field, action, _ACTIONS)]


def _condition_errors(conditions: list[Document], field: str) -> Errors:
    found = [too_many(field, len(conditions), _MOST_CONDITIONS)] if len(conditions) > _MOST_CONDITIONS else []
    for index, condition in enumerate(conditions):
        where, status = f"{field}[{index}]", condition.get("status") or ""
        found += qualified_errors(condition.get("type") or "", f"{where}.type")
        if not status:
            found.append(required(f"{where}.status", _valid_values(_STATUSES)))
        elif status not in _STATUSES:
            found.append(not_supported(f"{where}.status", status, _STATUSES))
    return found


def _exit_code_errors(codes: Document, containers: set[str | None], field: str) -> Errors:
    operator, name, values = codes.get("operator") or "", codes.get("containerName"), codes.get("values") or []
    found: Errors = []
    if not operator:
        found.append(required(f"{field}.operator", _valid_values(("In", "NotIn"))))
    elif operator not in ("In", "NotIn"):
        found.append(not_supported(f"{field}.operator", operator, ("In", "NotIn")))
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        found.append(invalid(f"{field}.containerName", name, text))
    where = f"{field}.values"
    if not values:
        found.append(invalid(where, codes.get("values"), "at least one value is required"))
    elif len(values) > _MOST_EXIT_CODES:
        found.append(too_many(where, len(values), _MOST_EXIT_CODES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.append(invalid(f"{where}[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            found.append(duplicate(f"{where}[{index}]", value))
    if values != sorted(values):
        found.append(invalid(where, values, "must be ordered"))
    return found


def _success_policy_errors(spec: Document) -> Errors:
    policy, field = spec.get("successPolicy"), "spec.successPolicy"
    if policy is None:
        return []
    if spec.get("completionMode") != "Indexed":
        return [invalid(field, policy, "requires indexed completion mode")]
    rules = entries(policy, "rules")
    found: Errors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        found.append(required(f"{field}.rules", text))
    if len(rules) > _MOST_RULES:
        found.append(too_many(f"{field}.rules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        found += _success_rule_errors(rule, spec.get("completions") or 0, f"{field}.rules[{index}]")
    return found


def _success_rule_errors(rule: Document, completions: int, field: str) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    found: Errors = []
    if count is None and indexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        found.append(required(field, text))
    total = 0
    if indexes is not None:
        where = f"{field}.succeededIndexes"
        if len(indexes) > _LONGEST_INDEXES:
            found.append(too_long(where, _LONGEST_INDEXES))
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as error:
            found.append(invalid(where, indexes, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        where = f"{field}.succeededCount"
        found += negative_errors(count, where)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            found.append(invalid(where, count, text))
        if indexes is not None and count > total:
            text = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            found.append(invalid(where, count, text))
    return found


def _replacement_errors(spec: Document) -> Errors:
    policy = spec.get("podReplacementPolicy")
    possible = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is None or policy in possible:
        return []
    return [not_supported("spec.podReplacementPolicy", policy, possible)]


def _restart_errors(spec: Document, pod: Document) -> Errors:
    field, policy = "spec.template.spec.restartPolicy", pod.get("restartPolicy") or ""
    if policy in ("", "Always"):
        return [required(field, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(field, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []
