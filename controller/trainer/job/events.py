# SPDX-License-Identifier: Apache-2.0
"""Reports on a TrainJob: an event for its users, a line in the log for admins."""

import logging
from collections.abc import Callable

from trainwright.api.messages import one_line, shortened
from trainwright.api.objects import key_of
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import EVENT_RESOURCES_CREATION_FAILED
from trainwright.controller.runtime import EventCollector, EventRecorder, Group, Manager
from trainwright.controller.trainer.job.obstacles import Defects, During, Obstacle
from trainwright.controller.trainer.job.state import State, Transition
from trainwright.plugins.contract import Reference

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


class JobEvents:
    """Records events on TrainJobs and writes the log lines that belong to them. A listener of `JobStates`."""

    RULES: tuple[Rule, ...] = tuple(EventRecorder.RULES)

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
        if before.state is State.BLOCKED:
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
