# SPDX-License-Identifier: Apache-2.0
"""Warns of names that are too long for JobSet.

JobSet makes names of Jobs and pods from its own name, the name of the replicated job and indices, and refuses a JobSet
with a name above the limit. Source: `jobset_webhook.go` of JobSet 0.12.
"""

from collections.abc import Iterator

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import Info, Warned

LIMIT = 63
"""Characters of a name, because it is also the value of a label."""
_GENERATED_SUFFIX = "-abcde"
"""As long as what Kubernetes appends to the name of a pod."""


def name_findings(info: Info, job: TrainJob) -> Iterator[Warned]:
    """A warning about the longest name, if it is too long."""
    replicated_jobs = info.template.replicated_jobs or ()
    made = {f"{job.name}-{replicated.name}{_indices(replicated)}": replicated.name for replicated in replicated_jobs}
    name = max(made, key=len, default="")
    if len(name) > LIMIT:
        yield Warned(
            f"metadata.name is too long by {len(name) - LIMIT} characters: with replicated job {made[name]} of its "
            f"runtime it makes names of more than {LIMIT}, which JobSet refuses"
        )


def _indices(replicated: ReplicatedJob) -> str:
    """What JobSet appends for a Job and, where the number of pods is known, for a pod."""
    job = f"-{max((replicated.replicas or 1) - 1, 0)}"
    spec = replicated.template.spec
    if spec is None or spec.completions is None or spec.completion_mode not in {None, "Indexed"}:
        return job
    return f"{job}-{max(spec.completions - 1, 0)}{_GENERATED_SUFFIX}"
