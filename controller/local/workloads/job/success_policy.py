# SPDX-License-Identifier: Apache-2.0
"""`spec.successPolicy`: when an Indexed Job is complete before all of its indexes are.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy
"""

from trainwright.api.objects import Document
from trainwright.controller.local.workloads.job.indexes import Indexes


def met(policy: Document | None, completions: int, succeeded: Indexes) -> str | None:
    """The message of the first rule that is fulfilled; None if there is none."""
    if not succeeded:
        return None
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = Indexes.parse(rule["succeededIndexes"], completions)
            done = succeeded.common(wanted)
            fulfilled = bool(wanted) and (done == len(wanted) or (count is not None and done >= count))
        else:
            fulfilled = count is not None and len(succeeded) >= count
        if fulfilled:
            return f"Matched rules at index {index}"
    return None
