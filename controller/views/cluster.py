# SPDX-License-Identifier: Apache-2.0
"""A TrainJob's runtime and facts as a cluster has them, and its objects compared with the existing ones.

It reads and makes dry-run applies, and changes nothing. It never shows the content of Secrets.
"""

from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from trainwright.api.base import Resource
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import FIELD_MANAGER
from trainwright.controller.runtime import Client, ConfigurationError, Discovery, NotFound
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.trainer.build.runtimes import target_of
from trainwright.plugins.contract import ClusterFacts, Component, Reference, Runtime
from trainwright.plugins.contract.facts import Unreadable

_SERVERS_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "selfLink")
_HIDDEN = "(hidden)"

T = TypeVar("T")


class ClusterView:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovery = Discovery(client)

    async def job(self, job: TrainJob) -> TrainJob | None:
        return await if_there(self._client.get(TrainJob, job.name, job.namespace))

    async def runtime(self, job: TrainJob) -> Runtime | None:
        """The runtime that the job names; None if it does not exist. Raises RuntimeUnsupported."""
        kind, key = target_of(job)
        return await if_there(self._client.get(kind, key.name, key.namespace))

    async def read(self, references: Iterable[Reference]) -> ClusterFacts:
        """The objects as they are now. A refused read is part of the answer (`Unreadable`)."""
        return ClusterFacts({reference: await self._fact(reference) for reference in references}, preview=True)

    async def difference(self, component: Component) -> tuple[Document | None, Document]:
        """The object as it is (None if it is new), and as it would be after applying."""
        document = component.document
        live = await self._live(document)
        if live is None or component.generate is not None:
            return (shown(live) if live is not None else None), shown(live or document)
        kind = await self._resource(document)
        after = await self._client.apply(document, kind=kind, field_manager=FIELD_MANAGER, force=True, dry_run=True)
        return shown(live), shown(after)

    async def _live(self, document: Document) -> Document | None:
        metadata = document["metadata"]
        resource = await self._resource(document)
        return await if_there(self._client.get(resource, metadata["name"], metadata.get("namespace", "")))

    async def _resource(self, document: Document) -> Resource:
        try:
            return await self._discovery.resource_of(document)
        except NotFound as error:
            what = f"{document['kind']} of {document['apiVersion']}"
            raise ConfigurationError(
                f"the cluster does not serve {what}; install its CustomResourceDefinition"
            ) from error

    async def _fact(self, reference: Reference) -> Any:
        try:
            return await if_there(self._client.get(reference.resource, reference.name, reference.namespace))
        except ApiError as error:
            return Unreadable(str(error))


def shown(document: Document) -> Document:
    """The document without fields that the server writes, and without the content of Secrets."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVERS_OWN}
    shown = {**document, "metadata": metadata}
    shown.pop("status", None)
    if document["kind"] == "Secret":
        for field in ("data", "stringData"):
            if field in shown:
                shown[field] = dict.fromkeys(shown[field], _HIDDEN)
    return shown


async def if_there(read: Awaitable[T]) -> T | None:
    """What is read; None if it does not exist."""
    try:
        return await read
    except NotFound:
        return None
