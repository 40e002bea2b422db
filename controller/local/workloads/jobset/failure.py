# SPDX-License-Identifier: Apache-2.0
"""What a failed Job means for its JobSet: `spec.failurePolicy`.

Source: JobSet 0.12.0; actions that need an alpha feature gate are refused by its webhook, and so by ours.
"""

import re
from collections.abc import Sequence

from trainwright.api.objects import Document, labels_of, name_of
from trainwright.controller.local.workloads.documents import spec_of
from trainwright.controller.local.workloads.jobset import names
from trainwright.controller.local.workloads.jobset.children import failure_of
from trainwright.controller.local.workloads.jobset.status import Draft
from trainwright.controller.local.workloads.reports import EventReport


def apply_failure_policy(draft: Draft, failed: Sequence[Document]) -> None:
    """Fail or restart the JobSet in its draft. `failed` must not be empty."""
    policy = spec_of(draft.jobset).get("failurePolicy")
    first = min(failed, key=_failed_at)
    if policy is None:
        draft.fail("FailedJobs", _naming("jobset failed due to one or more job failures", first))
        return
    rule, job = _first_match(policy.get("rules") or (), failed)
    job = job or first
    action = rule.get("action") if rule is not None else "RestartJobSet"
    if action == "FailJobSet":
        draft.fail("FailJobSetFailurePolicyAction", _naming("applying FailJobSet failure policy action", job))
        return
    counts = action != "RestartJobSetAndIgnoreMaxRestarts"
    counted = int(draft.status.get("restartsCountTowardsMax") or 0)
    if counts and counted >= int(policy.get("maxRestarts") or 0):
        draft.fail("ReachedMaxRestarts", _naming("jobset failed due to reaching max number of restarts", job))
        return
    draft.status["restarts"] = int(draft.status.get("restarts") or 0) + 1
    if counts:
        draft.status["restartsCountTowardsMax"] = counted + 1
    message = _naming(f"applying {action} failure policy action", job)
    draft.set_restarting(f"FailurePolicy_{rule.get('name')}" if rule is not None else "DefaultFailurePolicy", message)
    draft.reports.append(EventReport("Warning", f"{action}FailurePolicyAction", message))


def _first_match(rules: Sequence[Document], failed: Sequence[Document]) -> tuple[Document | None, Document | None]:
    """The first rule that matches a Job, and the first of the Jobs that it matches."""
    for rule in rules:
        matching = [job for job in failed if _matches(rule, job)]
        if matching:
            return rule, min(matching, key=_failed_at)
    return None, None


def _matches(rule: Document, job: Document) -> bool:
    condition = failure_of(job)
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    if reasons and condition.get("reason") not in reasons:
        return False
    if patterns and not any(_found(pattern, condition.get("message") or "") for pattern in patterns):
        return False
    parent = labels_of(job).get(names.REPLICATED_JOB)
    return bool(parent) and (not targets or parent in targets)


def _found(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False  # the other patterns still count


def _failed_at(job: Document) -> str:
    return str(failure_of(job).get("lastTransitionTime") or "")


def _naming(message: str, job: Document) -> str:
    return f"{message} (first failed job: {name_of(job)})"
