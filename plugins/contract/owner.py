# SPDX-License-Identifier: Apache-2.0
"""Metadata that every generated object has: name, namespace, and the TrainJob as its controller."""

from typing import Any

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.objects import Document, uid_of


def owned_metadata(job: TrainJob, name: str) -> Document:
    """Metadata of an object of this job. A job that was never stored has no uid, and so has the reference."""
    reference: dict[str, Any] = {
        "apiVersion": job.RESOURCE.api_version,
        "kind": job.RESOURCE.kind,
        "name": job.name,
        "uid": uid_of(job),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: Document = {"name": name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    metadata["ownerReferences"] = [reference]
    return metadata
