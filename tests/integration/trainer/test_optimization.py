# SPDX-License-Identifier: Apache-2.0
"""Searches on an API server that asks our webhooks, with the manager as a process that has the gate."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import condition, counts, progress
from tests.managers import start_manager
from tests.unit.optimization.conftest import optimization_job
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.waiting import eventually_sync
from trainwright.plugins.testing import runtime_document

CRDS = Path(__file__).parents[3] / "config" / "crd"
SECONDS = 120.0


@pytest.fixture(scope="module")
def searching(new_control_plane: type[ControlPlane], jobset_crd: Path) -> Iterator[ControlPlane]:
    with new_control_plane(crds=[CRDS, jobset_crd]) as control_plane:
        start_manager(control_plane, webhooks=True, featureGates={"OptimizationJob": True, "ProgressPull": True})
        yield control_plane


@pytest.fixture
def space(searching: ControlPlane) -> str:
    namespace = searching.create_namespace()
    searching.stored.create(runtime_document("r", namespace=namespace))
    return namespace


def placed(namespace: str, **fields: Any) -> dict[str, Any]:
    document = optimization_job(**fields)
    document["metadata"]["namespace"] = namespace
    return document


def ends(control_plane: ControlPlane, namespace: str, name: str, value: str) -> None:
    """The training of a trial reports its value and ends, as the node and JobSet would say."""
    stored = control_plane.stored
    eventually_sync(lambda: stored.get("jobset", name, namespace), bool, seconds=SECONDS, what=f"JobSet {name}")
    told = progress(metrics={"loss": value}, progressPercentage=100)
    stored.patch("trainjob", name, {"status": {"trainerStatus": told}}, namespace, subresource="status")
    over = {"replicatedJobsStatus": [counts(succeeded=1)], "conditions": [condition("Completed")], "restarts": 0}
    stored.patch("jobset", name, {"status": over}, namespace, subresource="status")


def test_a_search_from_its_submit_to_its_result(searching: ControlPlane, space: str) -> None:
    searching.stored.create(placed(space, numTrials=3, parallelTrials=2))

    def status() -> dict[str, Any]:
        found = searching.stored.get("optimizationjob", "s", space) or {}
        return {"conditions": [], **found.get("status", {})}

    eventually_sync(status, lambda found: bool(found["conditions"]), seconds=SECONDS, what="a status")
    # An end that somebody writes is taken back, and a result.
    forged = {"conditions": [condition("Failed")], "result": {"trainJobName": "mine"}}
    searching.stored.patch("optimizationjob", "s", {"status": forged}, space, subresource="status")

    def is_running(found: dict[str, Any]) -> bool:
        types = {one["type"] for one in found["conditions"]}
        return "Failed" not in types and "TrialsRunning" in types and "result" not in found

    eventually_sync(status, is_running, seconds=SECONDS, what="the status of a search that runs")
    for number in (1, 2, 3):
        ends(searching, space, f"s-{number}", str(number))

    def is_complete(found: dict[str, Any]) -> bool:
        return any(one["type"] == "Complete" and one["status"] == "True" for one in found["conditions"])

    found = eventually_sync(status, is_complete, seconds=SECONDS, what="the end of the search")
    assert found["result"]["trainJobName"] == "s-1"
    messages = {one["type"]: one["message"] for one in found["conditions"]}
    assert (messages["TrialsEnded"], messages["TrialsRunning"], messages["BestTrial"]) == ("3/3", "0", "1")


def test_a_template_that_the_trainer_would_refuse_is_refused(searching: ControlPlane, space: str) -> None:
    template = {"spec": {"runtimeRef": {"name": "none"}}}
    with pytest.raises(ControlPlaneError, match="ClusterTrainingRuntime none does not exist"):
        searching.stored.create(placed(space, trainJobTemplate=template))
    # A dry run stores nothing, neither the search nor its trials.
    searching.stored.create(placed(space), dry_run=True)
    assert searching.stored.list("trainjobs", space) == []


@pytest.mark.real_control_plane("kubectl")
def test_the_columns(searching: ControlPlane, space: str) -> None:
    searching.stored.create(placed(space, numTrials=3, parallelTrials=2))
    ends(searching, space, "s-1", "0.25")

    def columns() -> list[str]:
        return searching.kubectl("get", "optimizationjob", "s", "-n", space, "--no-headers").split()[1:-1]

    eventually_sync(columns, lambda found: found == ["1/3", "2", "0", "0.25"], seconds=SECONDS, what="the columns")
