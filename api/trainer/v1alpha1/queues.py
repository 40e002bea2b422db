# SPDX-License-Identifier: Apache-2.0
"""What a TrainJob says of the queue that admits and evicts it. Source: Kueue's integration of TrainJobs."""

from trainwright.api.objects import labels_of
from trainwright.api.trainer.v1alpha1.models import TrainJob

LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
PATCH_MANAGER = "kueue.x-k8s.io/manager"
"""The manager of the runtime patch in which Kueue says where the pods of an admitted job run. It may be empty."""


def is_queued(job: TrainJob) -> bool:
    """Whether Kueue decides when the job runs. It also admits jobs without a label, if it is configured so."""
    return bool(labels_of(job).get(LABEL_QUEUE)) or has_place(job)


def may_be_queued(job: TrainJob) -> bool:
    """Whether Kueue may move the job to other nodes. Its patch stays when it takes a job out, empty."""
    patches = job.spec_or_empty.runtime_patches or ()
    return bool(labels_of(job).get(LABEL_QUEUE)) or any(patch.manager == PATCH_MANAGER for patch in patches)


def has_place(job: TrainJob) -> bool:
    """Whether Kueue has said where the pods run. It empties its patch at the end of an eviction."""
    return any(
        patch.manager == PATCH_MANAGER
        and patch.training_runtime_spec_or_empty.template_or_empty.spec_or_empty.replicated_jobs
        for patch in job.spec_or_empty.runtime_patches or ()
    )
