# SPDX-License-Identifier: Apache-2.0
"""Metadata that every generated object has: name, namespace, and the TrainJob as its controller."""

from trainwright.api.objects import Document
from trainwright.api.owners import owner_reference
from trainwright.api.trainer.v1alpha1 import TrainJob


def owned_metadata(job: TrainJob, name: str) -> Document:
    """Metadata of an object of this job. The uid of the reference is empty if the job was never stored."""
    metadata: Document = {"name": name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    metadata["ownerReferences"] = [owner_reference(job, job.RESOURCE)]
    return metadata
