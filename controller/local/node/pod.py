# SPDX-License-Identifier: Apache-2.0
"""The life of one pod on the node, from its binding until nothing of it runs any more.

Volumes first, then init containers one by one (sidecars start and stay), then all others at once. At the end sidecars
stop in reverse order. A deletion, a deadline or the end of the node stops everything with grace.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainwright.api.objects import Document, annotations_of, labels_of, spec_of, status_of, uid_of
from trainwright.api.times import LOOK_SECONDS, Now, parse
from trainwright.controller.local.node.container import ContainerRunner
from trainwright.controller.local.node.document import (
    VolumeError,
    containers_of,
    describe,
    grace_of,
    is_deleted,
    is_sidecar,
    references_of,
    should_restart,
)
from trainwright.controller.local.node.folders import log_folder
from trainwright.controller.local.node.hosting import Hosting
from trainwright.controller.local.node.plan import Folders
from trainwright.controller.local.node.status import ContainerState, PhaseVerdict, PodState, Terminated, Waiting
from trainwright.controller.local.node.volumes import Volumes, make_temporary, remove_temporary, temporary_of
from trainwright.controller.runtime.tasks import TaskScope, finished_in_thread, together

log = logging.getLogger(__name__)

VOLUME_RETRY_SECONDS = 2.0
_NOTE_LENGTH = 1000
"""As much as an event takes."""
SIDECAR_SECONDS = 2.0
"""Least time for sidecars at the end of a pod whose grace period is used up."""
EXPIRED = PhaseVerdict("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class PodWorker:
    """Runs one pod. `run` returns when nothing of it runs any more."""

    def __init__(self, pod: Document, hosting: Hosting, *, changed: Callable[[], None], now: Now) -> None:
        """`hosting` is what the node offers to all pods; `changed` is called when the status should be reported."""
        self.pod = pod
        self.uid = uid_of(pod)
        self._hosting = hosting
        self._changed = changed
        self._now = now
        self._ending = asyncio.Event()
        self._updated = asyncio.Event()
        self._sources_changed = asyncio.Event()
        self._files_outdated = asyncio.Event()
        self.folder = hosting.settings.pods / self.uid
        self.volumes = Volumes(self.folder / "volumes", hosting.sources)
        init, main = containers_of(pod)
        waiting = "PodInitializing" if init else "ContainerCreating"
        self.state = PodState(
            {one["name"]: ContainerState(Waiting(waiting)) for one in init},
            {one["name"]: ContainerState(Waiting(waiting)) for one in main},
            parse(started) if (started := status_of(pod).get("startTime")) else now(),
        )
        self.runners: dict[str, ContainerRunner] = {}
        self.done = asyncio.Event()
        """Set when nothing of the pod runs any more."""
        self._grace: float | None = None
        self._references = references_of(pod)

    # ------------------------------------------------------------------ told from outside

    def update(self, pod: Document) -> None:
        """The pod has changed: a deletion, a shorter grace period, labels that a volume shows."""
        shown = labels_of(pod) != labels_of(self.pod) or annotations_of(pod) != annotations_of(self.pod)
        self.pod = pod
        if is_deleted(pod):
            self._ending.set()
        self._updated.set()
        if shown:
            self._shown_changed()

    def write_hosts(self) -> None:
        """Pods of the group came or went: bring the hosts files of the containers up to date. Blocks.

        Raises nothing: the pod that came or went is another one, whose work must go on.
        """
        for runner in list(self.runners.values()):
            try:
                self._hosting.write_hosts(self.pod, runner.folders.container)
            except OSError as error:
                log.warning("pod %s does not learn the names of its peers: %s", describe(self.pod), error)
            except Exception:
                log.exception("pod %s does not learn the names of its peers", describe(self.pod))

    def notice_source(self, name: str) -> None:
        if name in self._references:
            self._shown_changed()

    def _shown_changed(self) -> None:
        """What files and variables of the pod are made of has changed."""
        self._sources_changed.set()
        # An event of its own: others who wait for a change clear theirs, and it is set while files are written, too.
        self._files_outdated.set()

    def notice_room(self) -> None:
        """Another pod has given devices or ports back: a container that waits for some is tried again."""
        states = [one.state for one in (*self.state.init.values(), *self.state.main.values())]
        if any(isinstance(one, Waiting) and one.reason == "CreateContainerError" for one in states):
            self._sources_changed.set()

    def end(self, *, grace: float | None = None, verdict: PhaseVerdict | None = None) -> None:
        """Stop the pod. `grace` in seconds shortens that of the pod; `verdict` is the phase to report."""
        # A pod that has ended by itself keeps its phase, also one whose end is not reported yet.
        if verdict is not None and self.state.verdict is None and not self.state.over:
            self.state.verdict = verdict
        if grace is not None:
            self._grace = grace if self._grace is None else min(grace, self._grace)
        self._ending.set()
        self._updated.set()

    # ------------------------------------------------------------------ what runners need

    def goes_on_without(self, container: str) -> bool:
        others = (state.state for name, state in self.state.main.items() if name != container)
        return any(not isinstance(one, Terminated) for one in others)

    def changed(self) -> None:
        self._changed()

    def event(self, kind: str, reason: str, note: str) -> None:
        self._hosting.event(self.pod, kind, reason, note)

    async def source_change(self) -> None:
        """Wait for the next change of a ConfigMap, a Secret or the pod."""
        self._sources_changed.clear()
        await self._sources_changed.wait()

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Run the pod to its end, whichever comes: its containers', a deletion, the deadline, the node's."""
        try:
            await self._run()
        except Exception as error:
            # Whatever goes wrong with one pod, for example because of its files, is the end of that pod alone.
            log.exception("pod %s failed on the node", describe(self.pod))
            self._fail(f"the node cannot run the pod: {type(error).__name__}: {error}"[:_NOTE_LENGTH])
        finally:
            try:
                self._hosting.release(self.pod)
            except Exception:
                # It would end the node, and with it all pods.
                log.exception("what pod %s held is not given back", describe(self.pod))
            self.state.over = True
            self.done.set()
            self.changed()

    def _fail(self, note: str) -> None:
        if self.state.verdict is None:
            self.state.verdict = PhaseVerdict("Failed", "NodeError", note)
        for container in (*self.state.init.values(), *self.state.main.values()):
            container.settle()
            container.lose(self._now())
        self.event("Warning", "NodeError", note)

    async def _run(self) -> None:
        async with TaskScope(f"pod:{describe(self.pod)}") as processes:
            try:
                # Awaited also when cancelled, for a folder that is made later nobody would remove.
                temporary = await finished_in_thread(self._make_temporary)
                for container in [*containers_of(self.pod).init, *containers_of(self.pod).main]:
                    self.runners[container["name"]] = self._runner(container, temporary, processes)
                try:
                    await self._live()
                finally:
                    # Also when cancelled: no process may outlive its worker.
                    await self._stop()
            finally:
                await finished_in_thread(functools.partial(remove_temporary, self.uid))

    def _make_temporary(self) -> Path:
        try:
            # By it a later run of the cluster knows of the pod.
            self.folder.mkdir(parents=True, exist_ok=True)
            return make_temporary(self.uid)
        except OSError as error:
            # A container that needs it says so; others run without.
            log.warning("pod %s has no folder for temporary files: %s", describe(self.pod), error)
            return temporary_of(self.uid)

    def _runner(self, container: Document, temporary: Path, processes: TaskScope) -> ContainerRunner:
        name = container["name"]
        state = self.state.init[name] if name in self.state.init else self.state.main[name]
        folders = Folders(
            self.folder / "containers" / name, log_folder(self._hosting.settings.logs, self.pod, name), temporary
        )
        return ContainerRunner(container, state, folders, self, self._hosting, processes, self._now)

    async def _live(self) -> None:
        async with TaskScope(f"life:{describe(self.pod)}") as tasks:
            life = tasks.start("life/containers", self._containers(tasks))
            ending = tasks.start("life/ending", _wait(self._ending))
            expiry = tasks.start("life/deadline", self._deadline())
            await asyncio.wait({life, ending, expiry}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                life.result()

    async def _containers(self, tasks: TaskScope) -> None:
        """Everything in order. Returns when all regular containers are done, or initialization has failed."""
        self.changed()
        await self._prepare()
        tasks.start("life/refresh", self._refresh())
        init, main = containers_of(self.pod)
        for container in init:
            runner = self.runners[container["name"]]
            if is_sidecar(container):
                tasks.start(f"life/{runner.name}", runner.run())
                await runner.started.wait()
            elif code := await runner.run():
                assert not should_restart(self.pod, container, code)
                return
        for container in main:
            state = self.state.main[container["name"]]
            if isinstance(state.state, Waiting):
                state.wait("ContainerCreating")
        await together("life/main", *(self.runners[one["name"]].run() for one in main))

    async def _prepare(self) -> None:
        """Make the volumes; waits as long as one of them cannot be made."""
        said = ""
        while True:
            try:
                await self.volumes.prepare(self.pod)
            except VolumeError as error:
                if str(error) != said:
                    self.event("Warning", "FailedMount", str(error))
                said = str(error)
            else:
                self.state.ready_to_start = True
                return
            self._sources_changed.clear()
            await _within(VOLUME_RETRY_SECONDS, self._sources_changed)

    async def _refresh(self) -> None:
        """Keep the files of volumes up to date: when their sources change, and before tokens expire."""
        while True:
            await self._files_due()
            # Before the files are read: what changes while they are written is for the next round.
            self._files_outdated.clear()
            try:
                await self.volumes.refresh(self.pod)
            except VolumeError as error:
                # As on any node: the files stay as they are, and the next change is tried again.
                log.info("volumes of %s stay as they are: %s", describe(self.pod), error)

    async def _files_due(self) -> None:
        """Wait until what files are made of has changed, or a token is due."""
        while True:
            left = self.volumes.renew_after
            if left is not None and left <= 0:
                return
            if await _within(None if left is None else min(left, LOOK_SECONDS), self._files_outdated):
                return

    async def _deadline(self) -> None:
        """Fails the pod when `activeDeadlineSeconds` have passed; the field may be set or shortened while it runs."""
        while True:
            self._updated.clear()
            seconds = spec_of(self.pod).get("activeDeadlineSeconds")
            left = None
            if seconds is not None:
                left = seconds - (self._now() - self.state.start_time).total_seconds()
                if left <= 0:
                    self.state.verdict = EXPIRED
                    self.event("Normal", EXPIRED.reason, EXPIRED.message)
                    return
            await _within(None if left is None else min(left, LOOK_SECONDS), self._updated)

    # ------------------------------------------------------------------ end

    async def _stop(self) -> None:
        """Stop all containers: the regular ones at once, then sidecars in reverse, within the grace period."""
        begun = asyncio.get_running_loop().time()
        init, main = containers_of(self.pod)
        sidecars = [one["name"] for one in init if is_sidecar(one)]
        first = [one["name"] for one in [*init, *main] if one["name"] not in sidecars]
        await together("stop", *(self.runners[name].stop(lambda: self._grace_over(begun, 0.0)) for name in first))
        for name in reversed(sidecars):
            await self.runners[name].stop(lambda: self._grace_over(begun, SIDECAR_SECONDS))

    async def _grace_over(self, begun: float, least: float) -> None:
        """Wait until the grace period is used up. It can be shortened meanwhile, by the pod or by the node."""
        loop = asyncio.get_running_loop()
        entered = loop.time()
        while True:
            self._updated.clear()
            grace = grace_of(self.pod) if self._grace is None else min(self._grace, grace_of(self.pod))
            left = max(begun + grace, entered + min(least, grace)) - loop.time()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._updated.wait()
            except TimeoutError:
                return


async def _wait(event: asyncio.Event) -> Any:
    await event.wait()


async def _within(seconds: float | None, event: asyncio.Event) -> bool:
    """Wait for an event, at most so long. Returns whether it came."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
