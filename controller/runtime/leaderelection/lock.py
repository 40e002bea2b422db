# SPDX-License-Identifier: Apache-2.0
"""The Lease on the API server: read, create, and change with optimistic locking.

Every change carries the resourceVersion that it is based on, so of two candidates that read the same Lease one gets
Conflict. The answer of a change is the new record; without an answer nothing is assumed.
"""

from typing import Protocol

import msgspec

from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.objects import Document
from trainwright.api.rights import Rule
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.leaderelection.record import LeaseRecord, record_of


class Lock(Protocol):
    """Storage of the record."""

    async def read(self) -> LeaseRecord | None:
        """The current record; None if there is none. Raises KubernetesError."""
        ...

    async def create(self, spec: Document) -> LeaseRecord:
        """Create the record. Raises AlreadyExists, KubernetesError."""
        ...

    async def change(self, spec: Document, version: str) -> LeaseRecord:
        """Change the record of this version. Raises Conflict, NotFound, KubernetesError."""
        ...


class LeaseLock:
    """A Lease of coordination.k8s.io/v1."""

    @staticmethod
    def rules(name: str) -> tuple[Rule, ...]:
        """Rights in the namespace of the Lease."""
        return Rule.on(Lease.RESOURCE, "create"), Rule.on(Lease.RESOURCE, "get", "patch", names=[name])

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace

    async def read(self) -> LeaseRecord | None:
        try:
            return record_of(await self._client.get(Lease, self._name, self._namespace))
        except NotFound:
            return None

    async def create(self, spec: Document) -> LeaseRecord:
        document = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": spec}
        lease: Lease = msgspec.convert(document, Lease)
        return record_of(await self._client.create(lease))

    async def change(self, spec: Document, version: str) -> LeaseRecord:
        patch = {"metadata": {"resourceVersion": version}, "spec": spec}
        return record_of(await self._client.patch(Lease, self._name, self._namespace, patch, type="merge"))
