# SPDX-License-Identifier: Apache-2.0
"""Errors of changes to the status of Jobs. A rule is applied if the fields that it is about change."""

from dataclasses import dataclass
from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.formats import Errors, finalizer_errors, negative_errors, same
from trainwright.controller.local.apiserver.kinds.builtin.jobs.indexes import IndexesError, count_indexes, overlap
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.metadata import IMMUTABLE
from trainwright.controller.local.apiserver.schema.errors import duplicate, invalid, invalid_unshown, required

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


def has_status(status: Document, kind: str, value: str) -> bool:
    """Whether a condition has a status."""
    return any(one.get("type") == kind and one.get("status") == value for one in entries(status, "conditions"))


def is_true(status: Document, kind: str) -> bool:
    """Whether a condition is True."""
    return has_status(status, kind, "True")


@dataclass(frozen=True)
class _Change:
    """A Job with a new status."""

    spec: Document
    status: Document
    before: Document

    def turned(self, *kinds: str) -> bool:
        """Whether one of some conditions becomes True or ceases to be, taken together."""
        now, then = (any(is_true(status, kind) for kind in kinds) for status in (self.status, self.before))
        return now != then

    def changed(self, *fields: str) -> bool:
        """Whether one of some fields changes."""
        return any(not same(self.status.get(field) or None, self.before.get(field) or None) for field in fields)

    @property
    def finished(self) -> bool:
        return is_true(self.status, "Complete") or is_true(self.status, "Failed")

    @property
    def finish_changed(self) -> bool:
        return self.turned("Complete", "Failed")


def job_status_errors(job: Document, old: Document) -> Errors:
    """Errors of a changed status."""
    change = _Change(part(job, "spec"), part(job, "status"), part(old, "status"))
    found = finalizer_errors(job)
    for name in _COUNTS:
        found += negative_errors(change.status.get(name), f"status.{name}")
    found += _uncounted_errors(part(change.status, "uncountedTerminatedPods"))
    found += _end_errors(change) + _finished_errors(change) + _index_errors(change) + _pod_count_errors(change)
    return found + _success_errors(change) + _transition_errors(change)


def _conditions(text: str) -> Errors:
    return [invalid_unshown("status.conditions", text)]


def _uncounted_errors(uncounted: Document) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(texts(uncounted, name)):
            field = f"status.uncountedTerminatedPods.{name}[{index}]"
            if not uid:
                found.append(invalid(field, uid, "must not be empty"))
            elif uid in seen:
                found.append(duplicate(field, uid))
            seen.add(uid)
    return found


def _end_errors(change: _Change) -> Errors:
    status = change.status
    complete, failed = is_true(status, "Complete"), is_true(status, "Failed")
    start, end = status.get("startTime"), status.get("completionTime")
    found: Errors = []
    if complete and failed and (change.turned("Complete") or change.turned("Failed")):
        found += _conditions("cannot set Complete=True and Failed=true conditions")
    target = is_true(status, "FailureTarget")
    if complete and target and (change.turned("Complete") or change.turned("FailureTarget")):
        found += _conditions("cannot set Complete=True and FailureTarget=true conditions")
    if change.turned("Complete") or change.changed("completionTime"):
        field = "status.completionTime"
        if end is not None and not complete:
            found.append(invalid(field, end, "cannot set completionTime when there is no Complete=True condition"))
        if end is None and complete:
            found.append(required(field, "completionTime is required for Complete jobs"))
    # Times are in UTC and whole seconds, so their texts are in order.
    if change.changed("startTime", "completionTime") and start is not None and end is not None and end < start:
        found.append(invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    if failed and not target and (change.turned("Failed") or change.changed("failedIndexes")):
        found += _conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    met = is_true(status, "SuccessCriteriaMet")
    if complete and not met and (change.turned("Complete") or change.turned("SuccessCriteriaMet")):
        found += _conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    return found


def _finished_errors(change: _Change) -> Errors:
    if not change.finished:
        return []
    status, spec = change.status, change.spec
    found: Errors = []
    active = status.get("active") or 0
    if active > 0 and (change.finish_changed or change.changed("active")):
        found.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    never_ran = spec.get("suspend") is True and spec.get("completions") == 0
    started = change.finish_changed or change.changed("startTime")
    if status.get("startTime") is None and started and not never_ran:
        found.append(required("status.startTime", "startTime is required for finished job"))
    uncounted: Any = part(status, "uncountedTerminatedPods")
    if (uncounted.get("failed") or uncounted.get("succeeded")) and (
        change.finish_changed or change.changed("uncountedTerminatedPods")
    ):
        found.append(invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job"))
    return found


def _index_errors(change: _Change) -> Errors:
    spec, status = change.spec, change.status
    completed, failed, completions = (
        status.get("completedIndexes") or "",
        status.get("failedIndexes"),
        spec.get("completions"),
    )
    completed_changed, failed_changed = change.changed("completedIndexes"), change.changed("failedIndexes")
    per_index = spec.get("backoffLimitPerIndex") is not None
    found: Errors = []
    if completed_changed and completions is not None:
        found += _format_errors("completedIndexes", completed, completions)
    if failed_changed and completions is not None and per_index and failed is not None:
        found += _format_errors("failedIndexes", failed, completions)
    if completed_changed and completed and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.append(invalid("status.completedIndexes", completed, text))
    if failed_changed and failed is not None and not per_index:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(invalid("status.failedIndexes", failed, text))
    if (completed_changed or failed_changed) and completions is not None and failed is not None:
        index = overlap(completed, failed, completions)
        if index is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {index}"
            found.append(invalid("status.failedIndexes", failed, text))
    return found


def _format_errors(field: str, indexes: str, completions: int) -> Errors:
    try:
        count_indexes(indexes, completions)
    except IndexesError as error:
        return [invalid(f"status.{field}", indexes, f"error parsing {field}: {error}")]
    return []


def _pod_count_errors(change: _Change) -> Errors:
    status = change.status
    terminating, active = (status.get(name) or 0 for name in ("terminating", "active"))
    ready = status.get("ready")
    found: Errors = []
    if terminating > 0 and change.finished and (change.finish_changed or change.changed("terminating")):
        found.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if ready is not None and ready > active and change.changed("ready", "active"):
        found.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    return found


def _success_errors(change: _Change) -> Errors:
    status = change.status
    met = is_true(status, "SuccessCriteriaMet")
    found: Errors = []
    if met and is_true(status, "Failed"):
        found += _conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and is_true(status, "FailureTarget"):
        found += _conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if change.spec.get("successPolicy") is not None and not met and is_true(status, "Complete"):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        found += _conditions(text)
    return found


def _transition_errors(change: _Change) -> Errors:
    spec, status, before = change.spec, change.status, change.before
    found: Errors = []
    for kind in ("Failed", "Complete", "FailureTarget"):
        if is_true(before, kind) and not is_true(status, kind):
            found += _conditions(f"cannot disable the terminal {kind}=True condition")
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed", "succeeded"):
        # An Indexed Job that is scaled down forgets indexes.
        if (status.get(name) or 0) < (before.get(name) or 0) and not (name == "succeeded" and elastic):
            found.append(invalid(f"status.{name}", status.get(name) or 0, f"cannot decrease the {name} counter"))
    end, end_before = status.get("completionTime"), before.get("completionTime")
    if end is not None and end_before is not None and end != end_before:
        found.append(invalid("status.completionTime", end, IMMUTABLE))
    start, start_before = status.get("startTime"), before.get("startTime")
    resumes = is_true(before, "Suspended") and has_status(status, "Suspended", "False")
    if start_before is not None and start != start_before and not spec.get("suspend") and not resumes:
        found.append(invalid("status.startTime", start, "field is immutable for unsuspended job once set"))
    met, met_before = is_true(status, "SuccessCriteriaMet"), is_true(before, "SuccessCriteriaMet")
    if met_before and not met:
        found += _conditions("cannot disable the SuccessCriteriaMet=True condition")
    if is_true(before, "Complete") and met and not met_before:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found += _conditions(text)
    return found
