# SPDX-License-Identifier: Apache-2.0
"""What goes some time after the end of a job, on a real API server."""

from typing import Any

from tests.builders import condition
from tests.integration.trainer.conftest import TIME, User, conditions, working
from trainwright.api.config.v1alpha1 import Cleanup
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.job.cleanup import ANNOTATION_JOB, ANNOTATION_OBJECTS
from trainwright.plugins.testing import replicated_job, runtime_document

RUNTIME: dict[str, Any] = runtime_document(
    "runtime",
    replicated_job("launcher", step="trainer"),
    replicated_job(),
    policy={"mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}},
)["spec"]
"""Its jobs have a Secret."""


async def ended(user: User, name: str) -> None:
    """Create a job with a Secret, and let it end."""
    await user.job(name)
    await user.until("jobset", name, bool)
    done = condition("Completed", at=TIME)
    await user.patch("jobset", name, {"status": {"conditions": [done]}}, subresource="status")
    await user.until("trainjob", name, lambda job: "Complete" in conditions(job))


async def gone(user: User, kind: str, name: str) -> None:
    await eventually(lambda: user.get(kind, name), lambda found: found is None, what=f"{kind} {name} to be gone")


async def test_a_finished_job_goes_in_time(with_jobsets: ControlPlane, namespace: str) -> None:
    async with working(with_jobsets, namespace) as user:
        await user.create("TrainingRuntime", "runtime", RUNTIME)
        for name in ("by-default", "kept", "soon"):
            await ended(user, name)
        await user.annotate("trainjob", "kept", ANNOTATION_OBJECTS, "never")
        await user.annotate("trainjob", "soon", ANNOTATION_JOB, "0")
        # Ended, too, but another controller's.
        await user.job("foreign", managedBy="kueue.x-k8s.io/multikueue")
        await user.annotate("trainjob", "foreign", ANNOTATION_JOB, "0")
        done = condition("Complete", at=TIME)
        await user.patch("trainjob", "foreign", {"status": {"conditions": [done]}}, subresource="status")
        await user.job("later")
        await user.until("jobset", "later", bool)
        # Off unless the Configuration asks for it.
        assert await user.get("trainjob", "soon") is not None
    async with working(with_jobsets, namespace, cleanup=Cleanup(object_ttl_seconds=0)) as user:
        await gone(user, "trainjob", "soon")
        await gone(user, "secret", "by-default-mpi-ssh-auth")
        await ended(user, "new")
        await gone(user, "secret", "new-mpi-ssh-auth")
        assert await user.get("secret", "kept-mpi-ssh-auth") is not None
        assert await user.get("trainjob", "by-default") is not None
        assert await user.get("trainjob", "foreign") is not None
        assert await user.get("jobset", "by-default") is not None
