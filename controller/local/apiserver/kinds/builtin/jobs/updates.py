# SPDX-License-Identifier: Apache-2.0
"""Errors of changes to Jobs: the template is immutable, except for suspended Jobs (KEP-2926, KEP-5440)."""

import copy

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    finalizer_errors,
    immutable_errors,
    same,
)
from trainwright.controller.local.apiserver.kinds.builtin.jobs.statuses import is_true
from trainwright.controller.local.apiserver.kinds.builtin.jobs.validation import (
    JOB_NAME_LABELS,
    UID_LABELS,
    job_errors,
    specification_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.apiserver.schema.errors import invalid

_IMMUTABLE_AFTER_TEMPLATE = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def job_update_errors(job: Document, old: Document) -> Errors:
    """Errors of a changed Job."""
    spec, before = part(job, "spec"), part(old, "spec")
    labels = part(part(part(before, "template"), "metadata"), "labels")
    prefixed = JOB_NAME_LABELS[1] in labels and UID_LABELS[1] in labels
    found = job_errors(job, prefixed=prefixed) + finalizer_errors(job)
    # The specification is validated twice, as on the real server.
    found += specification_errors(spec) + _completions_errors(spec, before)
    found += immutable_errors(spec.get("selector"), before.get("selector"), "spec.selector")
    found += _template_errors(spec, old)
    for name in _IMMUTABLE_AFTER_TEMPLATE:
        found += immutable_errors(spec.get(name), before.get(name), f"spec.{name}")
    return found


def _completions_errors(spec: Document, before: Document) -> Errors:
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable_errors(completions, before.get("completions"), "spec.completions")
    if completions in (None, before.get("completions"), spec.get("parallelism")):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def may_change_template(job: Document) -> bool:
    """Whether scheduling directives and resources of the template may change: nothing runs by it."""
    spec, status = part(job, "spec"), part(job, "status")
    idle = status.get("startTime") is None or is_true(status, "Suspended")
    return bool(spec.get("suspend")) and idle and not status.get("active")


def _template_errors(spec: Document, old: Document) -> Errors:
    before = part(part(old, "spec"), "template")
    template = part(spec, "template")
    if not may_change_template(old):
        return immutable_errors(template, before, "spec.template")
    expected = copy.deepcopy(part(before, "spec"))
    now = part(template, "spec")
    _take_affinity(expected, now)
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        expected[name] = now.get(name)
    for field in ("containers", "initContainers"):
        if len(entries(expected, field)) == len(entries(now, field)):
            for container, changed in zip(entries(expected, field), entries(now, field), strict=True):
                if container.get("name") == changed.get("name"):
                    container["resources"] = changed.get("resources")
    return [] if same(now, expected) else [invalid("spec.template.spec", now, IMMUTABLE)]


def _take_affinity(expected: Document, now: Document) -> None:
    """Node affinity may change, affinity to pods may not."""
    affinity = dict(part(expected, "affinity"))
    changed = now.get("affinity")
    if changed is None:
        affinity.pop("nodeAffinity", None)
        expected["affinity"] = affinity or None
    else:
        expected["affinity"] = {**affinity, "nodeAffinity": changed.get("nodeAffinity")}
