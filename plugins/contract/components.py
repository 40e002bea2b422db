# SPDX-License-Identifier: Apache-2.0
"""The objects that the pipeline gives out.

A component is a server-side-apply document in wire form: a plain dictionary with apiVersion, kind, metadata (name,
namespace, the TrainJob as controller) and the fields that the plugin owns. It is a dictionary and not a model because
it holds part of an object only, and is compared, printed and sent as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.objects import Document, owner_reference
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract.facts import Reference

PLACEHOLDER = "Z2VuZXJhdGVkIHdoZW4gdGhlIFNlY3JldCBpcyBjcmVhdGVk"
"""Stands for generated key material in the data of a Secret. Decoded from base64, it is a sentence that says so."""


class Stage(IntEnum):
    """When an object is applied, among those of one job: what pods need comes before the pods."""

    POD_INPUT = 0
    """Pods do not start without it: a ConfigMap or a Secret that they mount."""
    POD_GROUP = 1
    """A gang scheduler needs it before the first pod: a PodGroup."""
    OTHER = 2
    """Everything else."""
    WORKLOAD = 3
    """It creates the pods: a JobSet."""


@dataclass(frozen=True, slots=True)
class Component:
    """One object to apply."""

    resource: Resource
    """The kind of the document, as the plugin's watch declares it."""
    document: Document
    stage: Stage = Stage.OTHER
    plugin: str = ""
    """The plugin that built it; filled in by the pipeline."""
    generate: Callable[[Document], Document] | None = None
    """Set for objects with generated content: they are created if absent and never applied again. The function is
    called once, in a thread, with the document, and returns the document to create with every placeholder replaced."""
    fallback: Document | None = None
    """Applied to an existing object if the API server refuses `document`: the same object, with changes only in fields
    that may still change."""
    settled: bool = False
    """A build that sees this object as it was created gives the same objects. So the job is not built again when the
    object appears among the facts that its plugin alone has asked for."""

    @classmethod
    def owned_by(
        cls,
        job: TrainJob,
        resource: Resource,
        name: str,
        content: Mapping[str, Any],
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        stage: Stage = Stage.OTHER,
        generate: Callable[[Document], Document] | None = None,
    ) -> "Component":
        """An object in the job's namespace that goes away with the job.

        `content` is all of it but apiVersion, kind and metadata, in wire form: `{"data": {...}}`.
        """
        metadata = owned_metadata(job, name)
        for key, marks in (("labels", labels), ("annotations", annotations)):
            if marks:
                metadata[key] = dict(marks)
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        return cls(resource, document, stage=stage, generate=generate)

    @property
    def reference(self) -> Reference:
        metadata = self.document["metadata"]
        return Reference(self.resource, metadata.get("namespace", ""), metadata["name"])

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Position in the output: by stage, then by kind and name."""
        return (self.stage, self.resource.kind, self.resource.api_version, self.document["metadata"]["name"])


def owned_metadata(job: TrainJob, name: str) -> Document:
    """Metadata of an object of this job. The uid of the reference is empty if the job was never stored."""
    metadata: Document = {"name": name}
    if job.namespace:
        metadata["namespace"] = job.namespace
    metadata["ownerReferences"] = [owner_reference(job, job.RESOURCE)]
    return metadata
