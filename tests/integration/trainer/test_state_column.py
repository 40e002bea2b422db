# SPDX-License-Identifier: Apache-2.0
"""The column State of `kubectl get trainjobs`: the first condition that is True, of the status that we write."""

import json
from typing import Any

import msgspec
import pytest

from tests.builders import condition, train_job
from tests.integration.trainer.conftest import TIME
from trainwright.api.objects import wire
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.trainer.job.decision import BuildOutcome, decide
from trainwright.controller.trainer.job.obstacles import Obstacle, Reason

pytestmark = pytest.mark.real_control_plane("kubectl")

BLOCKED = Obstacle(Reason.APPLY_REFUSED, "no", RuntimeError(), final=False)
RUNNING, CREATED = BuildOutcome(), BuildOutcome(created=True)
LATER = parse("2100-01-01T00:00:00Z")


def state(control_plane: ControlPlane, namespace: str, name: str) -> str:
    """What the column shows; the table is made by the API server."""
    header, row = control_plane.kubectl("--namespace", namespace, "get", "trainjob", name).splitlines()
    column = header.index("STATE")
    return row[column : header.index("AGE")].strip()


def create(control_plane: ControlPlane, namespace: str, name: str, **spec: Any) -> None:
    control_plane.stored.create(wire(train_job(name, namespace, uid="", **spec)))


def patch_status(control_plane: ControlPlane, namespace: str, name: str, patch: dict[str, Any]) -> None:
    options = ("--subresource=status", "--type=merge", "--patch", json.dumps(patch))
    control_plane.kubectl("--namespace", namespace, "patch", "trainjob", name, *options)


def test_the_first_condition_that_holds_is_shown(control_plane: ControlPlane, namespace: str) -> None:
    create(control_plane, namespace, "job")
    assert state(control_plane, namespace, "job") == ""
    for conditions, shown in (
        ([condition("Suspended", "False")], ""),
        ([condition("Suspended", "False"), condition("Complete")], "Complete"),
        ([condition("Suspended"), condition("Complete")], "Suspended"),
        ([condition("Complete"), condition("Created")], "Complete"),
        ([condition("Created"), condition("Complete")], "Created"),
    ):
        patch_status(control_plane, namespace, "job", {"status": {"conditions": conditions}})
        assert state(control_plane, namespace, "job") == shown


@pytest.mark.parametrize(
    ("spec", "observed", "outcome", "shown"),
    [
        pytest.param({}, None, CREATED, "Created", id="running"),
        pytest.param({}, "Complete", CREATED, "Complete", id="complete"),
        pytest.param({}, "Failed", CREATED, "Failed", id="failed"),
        pytest.param({"activeDeadlineSeconds": 1}, None, CREATED, "Failed", id="deadline"),
        pytest.param({"suspend": True}, None, CREATED, "Suspended", id="suspended"),
        pytest.param({}, None, BuildOutcome(failed=True, obstacle=BLOCKED), "Blocked", id="blocked"),
        pytest.param({}, "Complete", RUNNING, "Complete", id="gate-turned-off"),
        # Kubeflow Trainer writes the two in this order, and so do we: docs/api-additions.md says so.
        pytest.param({"suspend": True}, "Complete", CREATED, "Suspended", id="complete-while-suspended"),
    ],
)
def test_created_hides_nothing(
    control_plane: ControlPlane,
    namespace: str,
    spec: dict[str, Any],
    observed: str | None,
    outcome: BuildOutcome,
    shown: str,
) -> None:
    """A job that has the condition `Created` meets what comes after it; the status is the one that we would write."""
    create(control_plane, namespace, "job", **spec)
    patch_status(control_plane, namespace, "job", {"status": {"conditions": [condition("Created")]}})
    text = control_plane.kubectl("--namespace", namespace, "get", "trainjob", "job", "--output=json")
    job = msgspec.json.decode(text, type=TrainJob)
    conditions = [condition("Created"), *([condition(observed)] if observed else ())]
    status = msgspec.convert({"conditions": conditions}, TrainJobStatus)
    decision = decide(job, status, outcome, LATER)
    if decision.status is not None:
        patch_status(control_plane, namespace, "job", decision.status)
    assert state(control_plane, namespace, "job") == shown


def test_progress_is_shown_beside_the_state(control_plane: ControlPlane, namespace: str) -> None:
    """Scenario 72 of progress."""
    create(control_plane, namespace, "job")
    told = {"progressPercentage": 42, "estimatedRemainingSeconds": 795, "lastUpdatedTime": TIME}
    patch_status(
        control_plane, namespace, "job", {"status": {"conditions": [condition("Stalled")], "trainerStatus": told}}
    )

    def row(*options: str) -> dict[str, str]:
        header, cells = control_plane.kubectl("--namespace", namespace, "get", "trainjob", "job", *options).splitlines()
        return dict(zip(header.split(), cells.split(), strict=True))

    narrow, wide = row(), row("--output=wide")
    assert list(narrow) == ["NAME", "STATE", "PROGRESS", "REPORTED", "AGE"]
    assert list(wide) == ["NAME", "STATE", "PROGRESS", "REPORTED", "ETA", "AGE"]
    assert (wide["STATE"], wide["PROGRESS"], wide["ETA"]) == ("Stalled", "42", "795")
    # An age, not a time.
    assert wide["REPORTED"][-1] in "smhdy"
    assert wide["REPORTED"][0].isdigit()
