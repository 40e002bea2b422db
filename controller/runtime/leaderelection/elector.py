# SPDX-License-Identifier: Apache-2.0
"""Leader election beside the event loop: a thread with a small loop and a client of its own.

A busy event loop cannot stop the thread from renewing. A dead event loop cannot keep the lease: the thread stops
renewing when the loop has been blocked for the renew deadline. The fence alone decides what the loop may write; it
expires by itself.

Guarantees: `wait_elected` returns only while leadership is held. After a loss there is no second election in this
process. If the process does not end within one lease duration after the loss, the thread ends it. If the whole process
is stopped, so that the thread cannot see the loss, the kernel ends it (see `fence`).
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable

from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.surroundings import host, new_uid
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.errors import ConfigurationError, LeadershipLost
from trainwright.controller.runtime.kinds import codec_of
from trainwright.controller.runtime.leaderelection.candidate import Candidate, LeaseLock, Lock
from trainwright.controller.runtime.leaderelection.fence import Clock, Fence, Timing, kernel_deadline, steady_clock
from trainwright.controller.runtime.leaderelection.statistics import ElectionStatistics
from trainwright.controller.runtime.tasks import TaskScope

log = logging.getLogger(__name__)


def end_process(reason: str) -> None:
    log.critical("leader election: exiting: %s", reason)
    logging.shutdown()
    os._exit(1)


class LeaderElector:
    """Takes part in the election for one Lease. Call its methods from the event loop; it runs a thread of its own."""

    def __init__(
        self,
        config: ClusterConfig,
        name: str,
        namespace: str = "",
        *,
        identity: str = "",
        timing: Timing | None = None,
        user_agent: str = "",
        clock: Clock = steady_clock,
        abort: Callable[[str], None] = end_process,
    ) -> None:
        """An empty `namespace` is that of the pod or context. Needs get, create and patch on leases there.

        `abort` is called by the thread if the process does not end after a loss. With another one than `end_process`
        the kernel deadline is off.
        """
        if not name:
            raise ConfigurationError("leader election: the Lease needs a name")
        self._config = config
        self._name = name
        self._namespace = namespace or config.namespace
        self._timing = timing or Timing()
        self._clock = clock
        self._abort = abort
        self._agent = f"{user_agent} leader-election".strip()
        self.identity = identity or f"{host()}_{new_uid()}"
        may_end = abort is end_process and clock is steady_clock
        self.permission = Fence(self._timing, clock, deadline=kernel_deadline() if may_end else None)
        """Checked by leader-elected work before each write."""
        self._silence: Callable[[], float] = float  # returns 0.0
        self._elected = asyncio.Event()
        self._ended = asyncio.Event()
        self._reason = ""
        self._candidate: Candidate | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inner: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._release = True
        self._ready = threading.Event()

    @property
    def leads(self) -> bool:
        """Whether this replica leads now."""
        return self.permission.open

    def watch_loop(self, silence: Callable[[], float]) -> None:
        """`silence` returns the seconds since the event loop last ran; it is called from the thread."""
        self._silence = silence

    # ------------------------------------------------------------------ from the event loop

    async def wait_elected(self) -> None:
        """Stand for election and wait until this replica leads. Raises LeadershipLost if it already lost it again."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            # Before the thread runs: msgspec may crash if two threads prepare the same types at the same time.
            codec_of(Lease)
            self._thread = threading.Thread(target=self._run, name=f"leader-election:{self._name}", daemon=True)
            self._thread.start()
        async with TaskScope("leader-election") as tasks:
            await tasks.first(self._elected, self._ended)
        if self._ended.is_set():
            raise LeadershipLost(self._reason)

    async def wait_lost(self) -> str:
        """Wait until leadership is lost, or the thread has failed; returns the reason."""
        await self._ended.wait()
        return self._reason

    async def close(self, *, release: bool) -> None:
        """Leave the election. `release`: give the lease back; only safe when leader-elected work has ended."""
        self.permission.revoke()
        thread = self._thread
        if thread is None:
            return
        self._release = release
        await asyncio.to_thread(self._ready.wait)
        if self._inner is not None and self._stop is not None:
            try:
                self._inner.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                log.debug("leader election: the thread has ended already")
        await asyncio.to_thread(thread.join)

    def unready(self) -> str | None:
        """Why this replica is not ready: it leads and cannot renew, or cannot read the Lease. A standby is ready."""
        candidate = self._candidate
        if candidate is None:
            return None
        if self._elected.is_set() and not self.permission.open:
            return f"lost the lease {self._namespace}/{self._name}: {self._reason or candidate.last_error}"
        return candidate.last_error or None

    def statistics(self) -> ElectionStatistics:
        """A snapshot. Safe to call from any thread."""
        candidate = self._candidate
        renewed = candidate.renewed_at if candidate else None
        return ElectionStatistics(
            lease=f"{self._namespace}/{self._name}",
            identity=self.identity,
            leader=self.permission.open,
            holder=candidate.holder if candidate else "",
            transitions=candidate.transitions if candidate else 0,
            renewed=None if renewed is None else self._clock() - renewed,
            slow_renewals=candidate.slow_renewals if candidate else 0,
            last_error=candidate.last_error if candidate else "",
        )

    # ------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        reason = "this replica left the election"
        try:
            with asyncio.Runner() as runner:
                reason = runner.run(self._main())
        except Exception as error:
            log.exception("leader election failed")
            reason = f"{type(error).__name__}: {error}"
        finally:
            self.permission.revoke()
            self._ready.set()
            self._tell_ended(reason)

    async def _main(self) -> str:
        self._inner = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        self._ready.set()
        transport = HTTPTransport(self._config, connections=2)
        client = Client(transport, user_agent=self._agent, timeout=self._timing.request)
        try:
            return await self._stand(LeaseLock(client, self._name, self._namespace), stop)
        finally:
            await client.close()

    async def _stand(self, lock: Lock, stop: asyncio.Event) -> str:
        candidate = Candidate(lock, self.identity, self.permission, timing=self._timing, clock=self._clock)
        self._candidate = candidate
        async with TaskScope("candidate") as tasks:
            life = tasks.start("candidate/life", self._live(candidate))
            await tasks.first(life, stop)
            lost = life.result() if life.done() else None
        if lost is None:
            if self._release:
                await candidate.release()
            return "this replica left the election"
        self._tell_ended(lost)
        try:
            async with asyncio.timeout(self._timing.lease):
                await stop.wait()
        except TimeoutError:
            self._abort(f"the lease was lost {self._timing.lease:g} s ago ({lost}), and the process has not ended")
        return lost

    async def _live(self, candidate: Candidate) -> str:
        await candidate.acquire()
        self._tell(self._elected.set)
        lost = await candidate.hold(self._blocked)
        self.permission.revoke()
        log.error("leader election: %s lost the lease: %s", self.identity, lost)
        return lost

    def _blocked(self) -> str:
        silence = self._silence()
        return f"the event loop has been blocked for {silence:.1f} s" if silence > self._timing.renew else ""

    def _tell_ended(self, reason: str) -> None:
        if not self._reason:
            self._reason = reason
        self._tell(self._ended.set)

    def _tell(self, what: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            log.debug("leader election: the event loop is closed already")
