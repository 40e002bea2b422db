# SPDX-License-Identifier: Apache-2.0
"""The controllers of the local cluster: the work of kube-controller-manager, kube-scheduler and JobSet's manager.

Each is an ordinary controller on `controller.runtime` that reaches the API server through the client alone, so each
also runs against a real cluster. They share one informer per kind. Every folder keeps its decisions, which are pure
functions on documents, apart from the reconciler that carries them out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright.api.rights import Rule, merged
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.workloads.accounts.controller import AccountController
from trainwright.controller.local.workloads.claims.controller import ClaimController
from trainwright.controller.local.workloads.finished.jobs import FinishedJobs
from trainwright.controller.local.workloads.finished.pods import MOST as MOST_FINISHED_PODS
from trainwright.controller.local.workloads.finished.pods import FinishedPods
from trainwright.controller.local.workloads.garbage.collector import REPORTER as GARBAGE_REPORTER
from trainwright.controller.local.workloads.garbage.collector import GarbageCollector
from trainwright.controller.local.workloads.job.controller import REPORTER as JOB_REPORTER
from trainwright.controller.local.workloads.job.controller import JobController
from trainwright.controller.local.workloads.jobset.controller import REPORTER as JOBSET_REPORTER
from trainwright.controller.local.workloads.jobset.controller import JobSetController
from trainwright.controller.local.workloads.namespaces.controller import NamespaceController
from trainwright.controller.local.workloads.roles.controller import RoleController
from trainwright.controller.local.workloads.scheduler.controller import REPORTER as SCHEDULER_REPORTER
from trainwright.controller.local.workloads.scheduler.controller import Scheduler
from trainwright.controller.local.workloads.scheduler.fit import Check
from trainwright.controller.runtime import ConfigurationError, EventRecorder, Group, Manager


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
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
class Workload:
    """One controller."""

    rules: tuple[Rule, ...]
    """The rights that it needs."""
    declare: Callable[[Manager, WorkloadSettings], None]
    """Add it to a manager."""


def _recorder(manager: Manager, reporter: str) -> EventRecorder:
    recorder = EventRecorder(manager.client, reporter)
    manager.add(recorder, Group.SERVERS, f"events:{reporter}")
    return recorder


def _declare_job(manager: Manager, settings: WorkloadSettings) -> None:
    JobController(manager, _recorder(manager, JOB_REPORTER), now=settings.now)


def _declare_jobset(manager: Manager, settings: WorkloadSettings) -> None:
    JobSetController(manager, _recorder(manager, JOBSET_REPORTER), now=settings.now)


def _declare_scheduler(manager: Manager, settings: WorkloadSettings) -> None:
    Scheduler(manager, _recorder(manager, SCHEDULER_REPORTER), now=settings.now, check=settings.check)


def _declare_garbage(manager: Manager, settings: WorkloadSettings) -> None:  # noqa: ARG001 - as every one
    collector = GarbageCollector(manager, _recorder(manager, GARBAGE_REPORTER))
    manager.add(collector, Group.LEADER, "garbage")


def _declare_namespace(manager: Manager, settings: WorkloadSettings) -> None:
    NamespaceController(manager, now=settings.now)


def _declare_accounts(manager: Manager, settings: WorkloadSettings) -> None:
    AccountController(manager, settings.authority)


def _declare_roles(manager: Manager, settings: WorkloadSettings) -> None:  # noqa: ARG001 - as every one
    RoleController(manager)


def _declare_claims(manager: Manager, settings: WorkloadSettings) -> None:
    if settings.volumes is None:
        raise ConfigurationError("volume claims need a folder: set WorkloadSettings.volumes, or leave `claims` out")
    ClaimController(manager, settings.volumes)


def _declare_finished_jobs(manager: Manager, settings: WorkloadSettings) -> None:
    FinishedJobs(manager, now=settings.now)


def _declare_finished_pods(manager: Manager, settings: WorkloadSettings) -> None:
    FinishedPods(manager, most=settings.finished_pods)


WORKLOADS: Mapping[str, Workload] = {
    "job": Workload(tuple(JobController.RULES), _declare_job),
    "jobset": Workload(tuple(JobSetController.RULES), _declare_jobset),
    "finished-jobs": Workload(tuple(FinishedJobs.RULES), _declare_finished_jobs),
    "finished-pods": Workload(tuple(FinishedPods.RULES), _declare_finished_pods),
    "namespace": Workload(tuple(NamespaceController.RULES), _declare_namespace),
    "accounts": Workload(tuple(AccountController.RULES), _declare_accounts),
    "roles": Workload(tuple(RoleController.RULES), _declare_roles),
    "claims": Workload(tuple(ClaimController.RULES), _declare_claims),
    "garbage": Workload(tuple(GarbageCollector.RULES), _declare_garbage),
    "scheduler": Workload(tuple(Scheduler.RULES), _declare_scheduler),
}
"""All controllers by name."""


def declare_workloads(
    manager: Manager, *, settings: WorkloadSettings = WorkloadSettings(), only: tuple[str, ...] = tuple(WORKLOADS)
) -> None:
    """Declare the controllers on a manager, which runs them.

    Args:
        manager: of the process; its kinds must be served when it starts.
        settings: how the controllers work.
        only: names in `WORKLOADS`, such as those that a real cluster does not run already.
    """
    for name in only:
        WORKLOADS[name].declare(manager, settings)


def rights(only: tuple[str, ...] = tuple(WORKLOADS)) -> tuple[Rule, ...]:
    """The rights that the controllers need."""
    return merged(rule for name in only for rule in WORKLOADS[name].rules)
