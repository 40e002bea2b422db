# SPDX-License-Identifier: Apache-2.0
"""What a gang scheduler must know of a job: how many pods start together, and what they request."""

from collections.abc import Iterable, Mapping

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract.podset import PodSet
from trainwright.plugins.contract.requests import Amounts, add


def gang_members(pod_sets: Iterable[PodSet]) -> int:
    """Number of pods of one replica of every pod set, initializers and launcher included."""
    return sum(pod_set.count for pod_set in pod_sets)


def gang_requests(pod_sets: Iterable[PodSet]) -> Mapping[str, str]:
    """What those pods request together, by resource name in its order, as canonical quantities."""
    total: Amounts = {}
    for pod_set in pod_sets:
        add(total, {name: amount * pod_set.count for name, amount in pod_set.requests().items()})
    return {name: total[name].canonical() for name in sorted(total)}


def may_regroup(job: TrainJob, *, exists: bool) -> bool:
    """Whether a group may be written: it is new, or none of its pods run because the job is suspended."""
    return not exists or (job.spec is not None and bool(job.spec.suspend))
