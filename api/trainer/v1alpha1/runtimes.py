# SPDX-License-Identifier: Apache-2.0
"""The kinds of runtime that a TrainJob may refer to, and the pods that they describe."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.kubernetes.core.v1 import PodSpec
from trainwright.api.trainer.v1alpha1.models import ClusterTrainingRuntime, TrainingRuntime

Runtime: TypeAlias = TrainingRuntime | ClusterTrainingRuntime

RUNTIMES: tuple[type[Runtime], ...] = (TrainingRuntime, ClusterTrainingRuntime)


def replicated_jobs_of(runtime: Runtime) -> Sequence[ReplicatedJob]:
    """The replicated jobs of the runtime's template; none without one."""
    return runtime.spec_or_empty.template_or_empty.spec_or_empty.replicated_jobs or ()


def pods_of(runtime: Runtime) -> Iterator[tuple[ReplicatedJob, PodSpec]]:
    """Each replicated job of the runtime's template with its pod, which is empty if the template has none."""
    for job in replicated_jobs_of(runtime):
        yield job, job.template.spec_or_empty.template.spec_or_empty
