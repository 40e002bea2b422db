# SPDX-License-Identifier: Apache-2.0
"""Which pod of a job has rank 0 and reports the progress of the whole job."""

from dataclasses import dataclass
from typing import Self

from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.plugins.contract.podset import PodSet


@dataclass(frozen=True, slots=True)
class PodRef:
    """One pod of a JobSet, and the container in it that trains."""

    job: str
    """Name of the replicated job."""
    replica: int = 0
    index: int = 0
    """The completion index of the pod."""
    container: str = NODE

    @classmethod
    def first_of(cls, pods: PodSet | None) -> Self | None:
        """The first pod of a replicated job; None without one."""
        return cls(pods.name) if pods is not None else None
