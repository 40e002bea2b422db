# SPDX-License-Identifier: Apache-2.0
"""The controllers of the local cluster: the work of kube-controller-manager, kube-scheduler and JobSet's manager.

Each is an ordinary controller on `controller.runtime` that reaches the API server through the client alone, so each
also runs against a real cluster. They share one informer per kind. Decisions are pure functions on documents, apart
from the reconcilers that carry them out: read `base`, then `job_plan` and `job`.
"""

from collections.abc import Mapping

from trainwright.controller.local.controllers.base import ControllerBase, ControllerSettings
from trainwright.controller.local.controllers.claims import ClaimController
from trainwright.controller.local.controllers.garbage import GarbageCollector
from trainwright.controller.local.controllers.job import FinishedJobs, JobController
from trainwright.controller.local.controllers.jobset import JobSetController
from trainwright.controller.local.controllers.namespaces import AccountController, NamespaceController
from trainwright.controller.local.controllers.roles import RoleController
from trainwright.controller.local.controllers.scheduler import Scheduler
from trainwright.controller.runtime import Manager

CONTROLLERS: Mapping[str, type[ControllerBase]] = {
    "job": JobController,
    "jobset": JobSetController,
    "finished-jobs": FinishedJobs,
    "namespace": NamespaceController,
    "accounts": AccountController,
    "roles": RoleController,
    "claims": ClaimController,
    "garbage": GarbageCollector,
    "scheduler": Scheduler,
}
"""All controllers by name."""


def declare_controllers(
    manager: Manager, *, settings: ControllerSettings | None = None, only: tuple[str, ...] = tuple(CONTROLLERS)
) -> None:
    """Declare controllers of `CONTROLLERS` on a manager, which runs them; their kinds must be served when it starts."""
    for name in only:
        CONTROLLERS[name](manager, settings)
