# SPDX-License-Identifier: Apache-2.0
"""Reports on a TrainJob: an event for its users, a line in the log for admins, a call for plugins.

Plugins are told of changes of state beside everything else: nothing here can delay a reconcile. Each has a queue of its
own, which is bounded, and a task that takes from it. A call runs in a thread of its own, which can be left behind:
Python cannot end a thread that hangs, so a plugin with too many of them gets no further call until one of them returns.
The threads do not keep the process from ending.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from trainwright.api.messages import one_line, shortened
from trainwright.api.objects import key_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import EVENT_RESOURCES_CREATION_FAILED
from trainwright.controller.runtime import Manager
from trainwright.controller.runtime.events.recorder import EventRecorder
from trainwright.controller.runtime.manager.supervisor import Group
from trainwright.controller.runtime.metrics.registry import EventCollector
from trainwright.controller.runtime.metrics.series import LabelledCounter
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.trainer.job.obstacles import Defects, During, Obstacle
from trainwright.controller.trainer.job.records import Transition
from trainwright.plugins.contract import JobState, Reference
from trainwright.plugins.registry import Loaded

log = logging.getLogger(__name__)

REPORTER = "trainer-trainjob-controller"
"""Reporting controller of the events."""
ACTION = "Reconciling"
EVENT_POD_FAILED = "PodFailed"
EVENT_ATTEMPT_ENDED = "AttemptEnded"
EVENT_NODE_AVOIDED = "NodeAvoided"
EVENT_PROGRESS_UNREADABLE = "ProgressUnreadable"
EVENT_TRAINING_FAILURE = "TrainingReportsFailure"
EVENT_LOSS_NOT_FINITE = "LossNotFinite"
EVENT_STALLED = "Stalled"
NOTE_LIMIT = 950
"""Characters of an event's note; the API server takes 1024 bytes."""
QUEUE = 1000
"""Changes that wait for one plugin; when there are more, the oldest is dropped."""
_LIMIT_SECONDS = 10.0
"""How long a call is waited for."""
HANGING = 4
"""Threads of one plugin that may hang, before it gets no further call."""


class JobEvents:
    """Records events on TrainJobs and writes the log lines that belong to them. A listener of `JobStates`."""

    def __init__(self, manager: Manager, defects: Defects, leads: Callable[[], bool] = lambda: True) -> None:
        """Adds its recorder and the recorder's metrics to the manager.

        Every replica sees the transitions; the one that `leads` reports them.
        """
        self.defects = defects
        self._leads = leads
        self._recorder = EventRecorder(manager.client, REPORTER)
        manager.add(self._recorder, Group.SERVERS, "events")
        manager.metrics.registry.register(EventCollector(self._recorder.statistics))

    def __call__(self, transition: Transition) -> None:
        """Report a change of a job's state: the log says when a job that was blocked goes on."""
        before, after = transition.before, transition.after
        if before is None or after is None or before.state is after.state or not self._leads():
            return
        if before.state is JobState.BLOCKED and after.state is not JobState.DELETING:
            log.info("%s: no longer blocked, now %s", transition.key, after.state)

    def blocked(self, job: TrainJob, obstacle: Obstacle) -> None:
        """Report an obstacle that has lasted, once."""
        self._hindered(job, f"cannot create the objects of this TrainJob: {obstacle.message}")
        if obstacle.defect:
            self.defects.met(During.RECONCILE)
        traceback = obstacle.error if obstacle.defect else None
        log.warning("%s: %s: %s", key_of(job), obstacle.reason, obstacle.message, exc_info=traceback)

    def kept(self, job: TrainJob, reference: Reference, error: Exception) -> None:
        """Report that the API server refused to change an object, so that it keeps its old values."""
        kind, name = reference.resource.kind, reference.name
        self._hindered(job, f"{kind} {name} keeps values that can no longer be changed: {error}")

    def warn(self, job: TrainJob, event: str, note: str) -> None:
        """Report that something goes wrong with the training. `event` is the reason that users see and filter by."""
        self._recorder.event(job, "Warning", event, _note(note), action="Training")

    def _hindered(self, job: TrainJob, note: str) -> None:
        self._recorder.event(job, "Warning", EVENT_RESOURCES_CREATION_FAILED, _note(note), action=ACTION)


def _note(text: str) -> str:
    """The note of an event. Pods wrote parts of it, and `kubectl describe` shows it on terminals."""
    return shortened(one_line(text), NOTE_LIMIT)


@dataclass(slots=True, eq=False)
class _Follower:
    name: str
    tell: Callable[[TrainJob, JobState, JobState], None]
    queue: deque[tuple[TrainJob, JobState, JobState]] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    hanging: int = 0
    """Threads that were left behind."""
    complained: bool = False
    """Whether an error was logged with its place."""
    has_dropped: bool = False


class PluginTransitions:
    """A listener of `JobStates`, and the runnable of the leader that calls the plugins."""

    def __init__(
        self,
        plugins: Sequence[Loaded],
        registry: CollectorRegistry,
        *,
        leads: Callable[[], bool] = lambda: True,
        limit: float = _LIMIT_SECONDS,
    ) -> None:
        """Create it inside a running event loop. `limit`: seconds for one call."""
        self._followers = [_Follower(entry.name, entry.hook("on_transition")) for entry in plugins]
        text = "Changes of a TrainJob's state that a plugin was to be told."
        names = [entry.name for entry in plugins]
        self._calls = LabelledCounter(
            "trainer_plugin_transitions_total",
            text,
            registry,
            plugin=names,
            result=("ok", "failed", "timeout", "dropped"),
        )
        self._leads, self._limit = leads, limit

    def __call__(self, transition: Transition) -> None:
        """Queue one change for each plugin. Never blocks."""
        before, after = transition.before, transition.after
        if before is None or after is None or before.state is after.state or not self._leads():
            return
        for follower in self._followers:
            if len(follower.queue) >= QUEUE:
                follower.queue.popleft()
                self._drop(follower)
            follower.queue.append((transition.job, before.state, after.state))
            follower.wake.set()

    async def run(self) -> None:
        """Call the plugins until cancelled. What waits then is dropped."""
        try:
            async with TaskScope("transitions") as tasks:
                for follower in self._followers:
                    tasks.start(f"transitions/{follower.name}", self._follow(follower))
                await asyncio.Event().wait()
        finally:
            for follower in self._followers:
                self._calls.inc(follower.name, "dropped", by=len(follower.queue))
                follower.queue.clear()

    async def _follow(self, follower: _Follower) -> None:
        while True:
            follower.wake.clear()
            if follower.queue and follower.hanging < HANGING:
                await self._call(follower, *follower.queue.popleft())
            else:
                await follower.wake.wait()

    async def _call(self, follower: _Follower, job: TrainJob, old: JobState, new: JobState) -> None:
        what = f"plugin {follower.name}: on_transition of TrainJob {key_of(job)} from {old} to {new}"
        # A copy: what the cache holds is shared, and the plugin may keep or change what it gets.
        done = _in_thread(f"plugin {follower.name}", lambda: follower.tell(job.deepcopy(), old, new))
        try:
            async with asyncio.timeout(self._limit):
                error = await asyncio.shield(done)
        except TimeoutError:
            follower.hanging += 1
            done.add_done_callback(lambda _: self._returned(follower))
            self._calls.inc(follower.name, "timeout")
            then = "; the plugin gets no further call until one returns" if follower.hanging >= HANGING else ""
            log.warning("%s takes more than %g s and is left to itself%s", what, self._limit, then)
            return
        if error is None:
            self._calls.inc(follower.name, "ok")
            return
        self._calls.inc(follower.name, "failed")
        # Once with the place in the code; a server that is away fails the same way for each job.
        place = None if follower.complained else error
        log.warning("%s failed: %s: %s", what, type(error).__name__, error, exc_info=place)
        follower.complained = True

    def _returned(self, follower: _Follower) -> None:
        follower.hanging -= 1
        follower.wake.set()

    def _drop(self, follower: _Follower) -> None:
        self._calls.inc(follower.name, "dropped")
        if not follower.has_dropped:
            follower.has_dropped = True
            log.warning("plugin %s is too slow: it is not told of some changes of states", follower.name)


def _in_thread(name: str, work: Callable[[], None]) -> "asyncio.Future[BaseException | None]":
    """Run `work` in a thread of its own; the future gets its error, or None."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[BaseException | None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # a plugin that calls sys.exit ends its thread only
            error = raised
        with suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(finish, error)

    # Not of the pool of the event loop, which a hanging thread would fill, and which the process waits for at its end.
    threading.Thread(target=run, name=name, daemon=True).start()
    return done
