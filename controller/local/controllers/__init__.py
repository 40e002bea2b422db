# SPDX-License-Identifier: Apache-2.0
"""The controllers of the local cluster: the work of kube-controller-manager, kube-scheduler and JobSet's manager.

Each is an ordinary controller on `controller.runtime` that reaches the API server through the client alone, so each
also runs against a real cluster. They share one informer per kind. Decisions are pure functions on documents, apart
from the reconcilers that carry them out: read `job_plan` and `job` first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright.api.rights import Rule, merged
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.controllers.accounts import AccountController, RoleController
from trainwright.controller.local.controllers.claims import ClaimController
from trainwright.controller.local.controllers.finished import MOST_FINISHED_PODS, FinishedJobs, FinishedPods
from trainwright.controller.local.controllers.garbage import REPORTER as GARBAGE_REPORTER
from trainwright.controller.local.controllers.garbage import GarbageCollector
from trainwright.controller.local.controllers.job import REPORTER as JOB_REPORTER
from trainwright.controller.local.controllers.job import JobController
from trainwright.controller.local.controllers.jobset import REPORTER as JOBSET_REPORTER
from trainwright.controller.local.controllers.jobset import JobSetController
from trainwright.controller.local.controllers.namespaces import NamespaceController
from trainwright.controller.local.controllers.scheduler import REPORTER as SCHEDULER_REPORTER
from trainwright.controller.local.controllers.scheduler import Check, Scheduler
from trainwright.controller.runtime import ConfigurationError, EventRecorder, Group, Manager


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How the controllers work."""

    now: Now = wall_clock
    """For everything that is written into objects or waits for a time of day."""
    authority: str = ""
    """PEM of the authority that signed the API server's certificate, for the ConfigMaps of the namespaces."""
    volumes: Path | None = None
    """Folder in which each volume claim gets a folder; needed for `claims`."""
    check: Check | None = None
    """A check of the node's own before a pod is bound, such as for ports that all pods of a laptop share."""
    finished_pods: int = MOST_FINISHED_PODS
    """Finished pods that are kept."""


@dataclass(frozen=True, slots=True)
class ControllerDeclaration:
    """One controller."""

    rules: tuple[Rule, ...]
    """The rights that it needs."""
    declare: Callable[[Manager, ControllerSettings], None]
    """Add it to a manager."""


def _recorder(manager: Manager, reporter: str) -> EventRecorder:
    recorder = EventRecorder(manager.client, reporter)
    manager.add(recorder, Group.SERVERS, f"events:{reporter}")
    return recorder


def _declare_job(manager: Manager, settings: ControllerSettings) -> None:
    JobController(manager, _recorder(manager, JOB_REPORTER), now=settings.now)


def _declare_jobset(manager: Manager, settings: ControllerSettings) -> None:
    JobSetController(manager, _recorder(manager, JOBSET_REPORTER), now=settings.now)


def _declare_scheduler(manager: Manager, settings: ControllerSettings) -> None:
    Scheduler(manager, _recorder(manager, SCHEDULER_REPORTER), now=settings.now, check=settings.check)


def _declare_garbage(manager: Manager, settings: ControllerSettings) -> None:  # noqa: ARG001 - as every one
    collector = GarbageCollector(manager, _recorder(manager, GARBAGE_REPORTER))
    manager.add(collector, Group.LEADER, "garbage")


def _declare_namespace(manager: Manager, settings: ControllerSettings) -> None:
    NamespaceController(manager, now=settings.now)


def _declare_accounts(manager: Manager, settings: ControllerSettings) -> None:
    AccountController(manager, settings.authority)


def _declare_roles(manager: Manager, settings: ControllerSettings) -> None:  # noqa: ARG001 - as every one
    RoleController(manager)


def _declare_claims(manager: Manager, settings: ControllerSettings) -> None:
    if settings.volumes is None:
        raise ConfigurationError("volume claims need a folder: set ControllerSettings.volumes, or leave `claims` out")
    ClaimController(manager, settings.volumes)


def _declare_finished_jobs(manager: Manager, settings: ControllerSettings) -> None:
    FinishedJobs(manager, now=settings.now)


def _declare_finished_pods(manager: Manager, settings: ControllerSettings) -> None:
    FinishedPods(manager, most=settings.finished_pods)


CONTROLLERS: Mapping[str, ControllerDeclaration] = {
    "job": ControllerDeclaration(tuple(JobController.RULES), _declare_job),
    "jobset": ControllerDeclaration(tuple(JobSetController.RULES), _declare_jobset),
    "finished-jobs": ControllerDeclaration(tuple(FinishedJobs.RULES), _declare_finished_jobs),
    "finished-pods": ControllerDeclaration(tuple(FinishedPods.RULES), _declare_finished_pods),
    "namespace": ControllerDeclaration(tuple(NamespaceController.RULES), _declare_namespace),
    "accounts": ControllerDeclaration(tuple(AccountController.RULES), _declare_accounts),
    "roles": ControllerDeclaration(tuple(RoleController.RULES), _declare_roles),
    "claims": ControllerDeclaration(tuple(ClaimController.RULES), _declare_claims),
    "garbage": ControllerDeclaration(tuple(GarbageCollector.RULES), _declare_garbage),
    "scheduler": ControllerDeclaration(tuple(Scheduler.RULES), _declare_scheduler),
}
"""All controllers by name."""


def declare_controllers(
    manager: Manager, *, settings: ControllerSettings = ControllerSettings(), only: tuple[str, ...] = tuple(CONTROLLERS)
) -> None:
    """Declare the controllers on a manager, which runs them.

    Args:
        manager: of the process; its kinds must be served when it starts.
        settings: how the controllers work.
        only: names in `CONTROLLERS`, such as those that a real cluster does not run already.
    """
    for name in only:
        CONTROLLERS[name].declare(manager, settings)


def rights(only: tuple[str, ...] = tuple(CONTROLLERS)) -> tuple[Rule, ...]:
    """The rights that the controllers need."""
    return merged(rule for name in only for rule in CONTROLLERS[name].rules)
