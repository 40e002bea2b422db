# SPDX-License-Identifier: Apache-2.0
"""The probes of one run of a container: they say when it is started, whether it is ready, and when it must end.

https://kubernetes.io/docs/concepts/workloads/pods/probes/
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from trainwright.api.objects import Document
from trainwright.controller.local.node.pod.backoff import go_duration
from trainwright.controller.local.node.pod.handlers import HandlerTarget, attempt
from trainwright.controller.local.node.pod.state import ContainerState
from trainwright.controller.runtime import TaskScope

STARTUP, READINESS, LIVENESS = "startupProbe", "readinessProbe", "livenessProbe"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the present row of results of a probe means."""

    healthy: bool


class Thresholds:
    """Counts results in a row; a verdict needs as many as the probe says."""

    def __init__(self, probe: Document) -> None:
        self._success = int(probe.get("successThreshold") or 1)
        self._failure = int(probe.get("failureThreshold") or 3)
        self._last: bool | None = None
        self._count = 0

    def add(self, success: bool) -> Judged | None:
        """Count one result; returns the verdict once there are enough of its kind."""
        self._count = self._count + 1 if success == self._last else 1
        self._last = success
        return Judged(success) if self._count >= (self._success if success else self._failure) else None


class Probes:
    """Probes one run of a container.

    Args:
        container: its document, with the API server's defaults.
        target: where the handlers lead.
        state: its fields `started` and `ready` are kept up to date.
        changed: called when they have changed.
        event: records a warning about the pod: reason and note.
    """

    def __init__(
        self,
        container: Document,
        target: HandlerTarget,
        state: ContainerState,
        *,
        changed: Callable[[], None],
        event: Callable[[str, str], None],
    ) -> None:
        self._container = container
        self._target = target
        self._state = state
        self._changed = changed
        self._event = event
        self._begun = asyncio.get_running_loop().time()

    async def run(self, started: asyncio.Event) -> str:
        """Probe until the container has to end; returns which probe says so: `startup` or `liveness`.

        `started` is set when the container counts as started.
        """
        if (probe := self._container.get(STARTUP)) and not await self._starts(probe):
            return "startup"
        self._state.started, self._state.ready = True, not self._container.get(READINESS)
        self._changed()
        started.set()
        async with TaskScope("probes") as tasks:
            watched = [
                tasks.start(f"probes/{kind}", work(probe))
                for kind, work in ((READINESS, self._follow_readiness), (LIVENESS, self._until_dead))
                if (probe := self._container.get(kind))
            ]
            if not self._container.get(LIVENESS):
                await asyncio.Event().wait()
            await watched[-1]
        return "liveness"

    async def _starts(self, probe: Document) -> bool:
        async with aclosing(self._verdicts(STARTUP, probe)) as verdicts:
            async for verdict in verdicts:
                return verdict.healthy
        return False

    async def _until_dead(self, probe: Document) -> None:
        async with aclosing(self._verdicts(LIVENESS, probe)) as verdicts:
            async for verdict in verdicts:
                if not verdict.healthy:
                    return

    async def _follow_readiness(self, probe: Document) -> None:
        async with aclosing(self._verdicts(READINESS, probe)) as verdicts:
            async for verdict in verdicts:
                if self._state.ready != verdict.healthy:
                    self._state.ready = verdict.healthy
                    self._changed()

    async def _verdicts(self, kind: str, probe: Document) -> AsyncGenerator[Judged, None]:
        """Probe again and again, from the initial delay after the start of the container on."""
        begin = self._begun + float(probe.get("initialDelaySeconds") or 0)
        await asyncio.sleep(max(0.0, begin - asyncio.get_running_loop().time()))
        thresholds = Thresholds(probe)
        while True:
            failure = await self._failure(probe)
            if failure:
                self._event("Unhealthy", f"{kind.removesuffix('Probe').capitalize()} probe failed: {failure}")
            if (verdict := thresholds.add(not failure)) is not None:
                yield verdict
            await asyncio.sleep(float(probe.get("periodSeconds") or 10))

    async def _failure(self, probe: Document) -> str:
        seconds = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(seconds):
                return await attempt(probe, self._target)
        except TimeoutError:
            return f"no answer within {go_duration(seconds)}"
