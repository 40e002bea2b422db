# SPDX-License-Identifier: Apache-2.0
"""The rules of the election for one candidate, without threads and without HTTP, and the Lease that it competes for.

Guarantees: a lease of another holder is taken only if it is empty, or if this candidate has not seen it change for its
whole duration, by a monotonic clock. Wall-clock times in the Lease are for people. A leader gives up when another
holder has the lease, or when no renewal was answered within the renew deadline.

Every change carries the resourceVersion that it is based on, so of two candidates that read the same Lease one gets
Conflict. The answer of a change is the new record; without an answer nothing is assumed. Only the owned fields are
written, as a merge patch, so labels and other additions on the Lease stay.

Assumption: no one deletes or edits the Lease. An edit ends the leadership of its holder at the next renewal, one retry
period later; another candidate may lead before that.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.objects import Document, resource_version_of
from trainwright.api.rights import Rule
from trainwright.api.surroundings import fraction
from trainwright.api.times import Now, format_micro_time, wall_clock
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from trainwright.controller.runtime.leaderelection.fence import JITTER, Clock, Fence, Timing, steady_clock

log = logging.getLogger(__name__)


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


class Candidate:
    """One identity that competes for one lock."""

    def __init__(
        self,
        lock: Lock,
        identity: str,
        fence: Fence,
        *,
        timing: Timing,
        clock: Clock = steady_clock,
        now: Now = wall_clock,
        chance: Callable[[], float] = fraction,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`clock` must be that of the fence."""
        self._lock = lock
        self.identity = identity
        self._fence = fence
        self._timing = timing
        self._clock = clock
        self._now = now
        self._chance = chance
        self._sleep = sleep
        self._seen: LeaseRecord | None = None
        self._seen_at = 0.0
        self._mine: LeaseRecord | None = None
        self.renewed_at: float | None = None
        """When the last answered renewal was sent, by the clock."""
        self.last_error = ""
        """Error of the last attempt; empty after a success."""
        self.slow_renewals = 0
        """Renewals that had to read the lease first."""

    @property
    def holder(self) -> str:
        """The last seen leader; empty if there was none."""
        record = self._mine or self._seen
        return record.holder if record else ""

    @property
    def transitions(self) -> int:
        """Number of changes of the holder. It grows with every leader, so it can be a fencing token."""
        record = self._mine or self._seen
        return record.transitions if record else 0

    async def acquire(self) -> None:
        while not await self._try():
            await self._sleep(self._timing.retry * (1 + JITTER * self._chance()))
        log.info("leader election: %s leads", self.identity)

    async def hold(self, may_renew: Callable[[], str] = lambda: "") -> str:
        """Renew until leadership is lost; returns the reason. `may_renew` returns why not to renew, or nothing."""
        assert self.renewed_at is not None
        while True:
            deadline = self.renewed_at + self._timing.renew
            left = deadline - self._clock()
            if left <= 0:
                return f"not renewed within {self._timing.renew:g} s: {self.last_error or 'no attempt in time'}"
            await self._sleep(min(self._timing.retry, left))
            if reason := may_renew():
                self.last_error = reason
                continue
            await self._try()
            if self._mine is None and self._seen is not None and self._seen.holder not in {"", self.identity}:
                return f"{self._seen.holder} holds the lease"

    async def release(self) -> bool:
        """Release the lease if this candidate holds it, so that the next leader need not wait. True if released."""
        self._fence.revoke()
        for _ in range(3):
            try:
                async with asyncio.timeout(self._timing.request):
                    record = await self._lock.read()
                    if record is None or record.holder != self.identity:
                        return False
                    freed = {**self._spec(record), "holderIdentity": "", "leaseDurationSeconds": 1}
                    freed["acquireTime"] = freed["renewTime"]
                    await self._lock.change(freed, record.version)
            except Conflict:
                continue
            except (KubernetesError, TimeoutError) as error:
                log.warning(
                    "leader election: the lease was not released; the next leader waits until it expires: %s", error
                )
                return False
            self._mine = None
            return True
        return False

    # ------------------------------------------------------------------ one try

    async def _try(self) -> bool:
        """One attempt to take or renew; True if this candidate leads. Never raises."""
        before = self._clock()
        limit = self._timing.request
        if self._mine is not None and self.renewed_at is not None:
            limit = max(0.0, min(limit, self.renewed_at + self._timing.renew - before))
        try:
            async with asyncio.timeout(limit):
                mine = await self._renew() or await self._take()
        except TimeoutError:
            self._failed(f"no answer within {limit:.1f} s")
            return False
        except KubernetesError as error:
            self._failed(str(error))
            return False
        self.last_error = ""
        self._mine = mine
        if mine is None:
            return False
        self.renewed_at = before
        self._fence.renewed(before)
        return True

    def _failed(self, error: str) -> None:
        if error != self.last_error:
            log.warning("leader election: %s", error)
        self.last_error = error

    async def _renew(self) -> LeaseRecord | None:
        """Renew without a read: change the last written record. None if the lease has changed."""
        if self._mine is None:
            return None
        try:
            return await self._lock.change(self._spec(self._mine), self._mine.version)
        except (Conflict, NotFound):
            self.slow_renewals += 1
            return None

    async def _take(self) -> LeaseRecord | None:
        """Read the lease and take it if allowed. None if not allowed, or if another candidate was faster."""
        record = await self._lock.read()
        if record is None:
            try:
                return await self._lock.create(self._spec(None))
            except AlreadyExists:
                return None
        if record != self._seen:
            self._seen, self._seen_at = record, self._clock()
        believed = record.holder not in {"", self.identity}
        if believed and self._clock() < self._seen_at + max(record.seconds, 1.0):
            return None
        try:
            return await self._lock.change(self._spec(record), record.version)
        except (Conflict, NotFound):
            return None

    def _spec(self, before: LeaseRecord | None) -> Document:
        """The `spec` of a Lease that this candidate takes or renews."""
        moment = format_micro_time(self._now())
        mine = before if before is not None and before.holder == self.identity else None
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._timing.lease),
            "acquireTime": (mine and mine.acquired) or moment,
            "renewTime": moment,
            "leaseTransitions": 0 if before is None else before.transitions + (mine is None),
        }
