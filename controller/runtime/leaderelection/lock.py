# SPDX-License-Identifier: Apache-2.0
"""The Lease on the API server and its content: read, create, and change with optimistic locking.

Every change carries the resourceVersion that it is based on, so of two candidates that read the same Lease one gets
Conflict. The answer of a change is the new record; without an answer nothing is assumed. Only the owned fields are
written, as a merge patch, so labels and other additions on the Lease stay.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.objects import Document, resource_version_of
from trainwright.api.rights import Rule
from trainwright.api.times import format_micro_time
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import NotFound


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as it was read. Two records are equal only if the Lease did not change in between."""

    version: str
    holder: str = ""
    """Empty: the lease is free."""
    seconds: float = 0.0
    """Lease duration of the holder."""
    acquired: str | None = None
    renewed: str | None = None
    transitions: int = 0


def record_of(lease: Lease) -> LeaseRecord:
    version, spec = resource_version_of(lease), lease.spec
    if spec is None:
        return LeaseRecord(version)
    return LeaseRecord(
        version,
        spec.holder_identity or "",
        float(spec.lease_duration_seconds or 0),
        spec.acquire_time,
        spec.renew_time,
        spec.lease_transitions or 0,
    )


def held_by(identity: str, now: datetime, lease: float, before: LeaseRecord | None) -> Document:
    """The `spec` of a Lease that `identity` takes or renews."""
    moment = format_micro_time(now)
    taken = before is None or before.holder != identity
    transitions = 0 if before is None else before.transitions + (1 if taken else 0)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": math.ceil(lease),
        "acquireTime": moment if taken or before is None or not before.acquired else before.acquired,
        "renewTime": moment,
        "leaseTransitions": transitions,
    }


def released(now: datetime, before: LeaseRecord) -> Document:
    """The `spec` of a Lease that is released."""
    moment = format_micro_time(now)
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": before.transitions,
    }


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
