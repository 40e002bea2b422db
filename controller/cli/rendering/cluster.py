# SPDX-License-Identifier: Apache-2.0
"""`trainwright render --cluster`: runtimes and facts from a cluster, and the difference from what is there.

Reads, and applies as dry runs; changes nothing. Content of Secrets is never shown.
"""

from pathlib import Path
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.errors import ApiError, ConfigurationError, NotFound
from trainwright.controller.runtime.objects import Document
from trainwright.plugins.contract import ClusterFacts, Component, Reference, Runtime, Unreadable
from trainwright.plugins.pipeline import Pipeline

FIELD_MANAGER = "trainer"
"""Whose fields the difference is about: the manager's."""
_SERVERS_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "selfLink")
_HIDDEN = "(hidden)"


class ClusterView:
    """What a cluster has. Made inside an event loop; close it there."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        """Raises ConfigurationError when there is no way to a cluster."""
        transport = HTTPTransport(load_config(kubeconfig, context))
        self._client = Client(transport, user_agent="trainwright-render")
        self._discovery = Discovery(self._client)

    async def close(self) -> None:
        """Give up the connections."""
        await self._client.close()

    async def job(self, job: TrainJob) -> TrainJob | None:
        """The TrainJob of that name, if it exists."""
        try:
            return await self._client.get(TrainJob, job.name, job.namespace)
        except NotFound:
            return None

    async def runtime(self, job: TrainJob) -> Runtime | None:
        """The runtime that the job names, if it exists."""
        assert job.spec is not None
        reference = job.spec.runtime_ref
        try:
            if reference.kind == TrainingRuntime.RESOURCE.kind:
                return await self._client.get(TrainingRuntime, reference.name, job.namespace)
            return await self._client.get(ClusterTrainingRuntime, reference.name)
        except NotFound:
            return None

    async def facts(self, pipeline: Pipeline, job: TrainJob, runtime: Runtime) -> ClusterFacts:
        """The answers to what plugins must know for this job."""
        references = pipeline.admission_references(job, runtime)
        return ClusterFacts({reference: await self._fact(reference) for reference in references})

    async def difference(self, component: Component) -> tuple[Document | None, Document]:
        """The object as it is (None if it is new), and as it would be after applying."""
        document = component.document
        live = await self._live(document)
        if live is None or component.generate is not None:
            return (_shown(live) if live is not None else None), _shown(live or document)
        kind = await self._resource(document)
        after = await self._client.apply(document, kind=kind, field_manager=FIELD_MANAGER, force=True, dry_run=True)
        return _shown(live), _shown(after)

    async def _live(self, document: Document) -> Document | None:
        metadata = document["metadata"]
        resource = await self._resource(document)
        try:
            return await self._client.get(resource, metadata["name"], metadata.get("namespace", ""))
        except NotFound:
            return None

    async def _resource(self, document: Document) -> Resource:
        try:
            return await self._discovery.resource_of(document)
        except NotFound as error:
            what = f"{document['kind']} of {document['apiVersion']}"
            raise ConfigurationError(f"the cluster does not serve {what}; install what defines it") from error

    async def _fact(self, reference: Reference) -> Any:
        try:
            return await self._client.get(reference.resource, reference.name, reference.namespace)
        except NotFound:
            return None
        except ApiError as error:
            return Unreadable(str(error))


def _shown(document: Document) -> Document:
    """Without what only the server writes, and without secrets."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVERS_OWN}
    shown = {**document, "metadata": metadata}
    shown.pop("status", None)
    if document["kind"] == "Secret":
        for field in ("data", "stringData"):
            if field in shown:
                shown[field] = dict.fromkeys(shown[field], _HIDDEN)
    return shown
