# SPDX-License-Identifier: Apache-2.0
"""What the definition of OptimizationJobs refuses, in the words of its rules, and what it fills in."""

from typing import Any

import pytest

from tests.unit.optimization.conftest import optimization_job
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError


def space(**kinds: Any) -> dict[str, Any]:
    return {"parameters": [{"name": "x", "searchSpace": kinds}]}


def bounds(low: str, high: str, **more: str) -> dict[str, str]:
    return {"min": low, "max": high, **more}


ONE_SPACE = "exactly one of the fields in [uniform logUniform categorical] must be set"
ONE_ALGORITHM = "exactly one of the fields in [random grid] must be set"
GRID = "Grid search requires all parameters to be Categorical; Uniform and LogUniform are not supported."
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "more at once than trials": ({"numTrials": 2, "parallelTrials": 3}, "parallelTrials cannot exceed numTrials"),
    "too many trials": ({"numTrials": 101}, "should be less than or equal to 100"),
    "a grid of numbers": ({"searchAlgorithm": {"grid": {}}}, GRID),
    "two algorithms": ({"searchAlgorithm": {"grid": {}, "random": {}}}, ONE_ALGORITHM),
    "no algorithm": ({"searchAlgorithm": {}}, ONE_ALGORITHM),
    "two spaces": (space(uniform=bounds("0", "1"), categorical={"choices": ["1"]}), ONE_SPACE),
    "no space": (space(), ONE_SPACE),
    "an empty range": (space(uniform=bounds("1", "1")), "min must be strictly less than max"),
    "a range by its number": (space(uniform=bounds("10", "9")), "min must be strictly less than max"),
    "a logarithm of 0": (space(logUniform=bounds("0", "1")), "min must be strictly greater than 0"),
    "a bound that is a word": (space(uniform=bounds("low", "1")), "should match"),
    "another type": (space(uniform=bounds("0", "1", type="int")), 'supported values: "Int", "Float"'),
    "the same choice twice": (space(categorical={"choices": ["1", "1"]}), "Duplicate value"),
    "two objectives": ({"objectives": [{"metric": "a"}, {"metric": "b"}]}, "must have at most 1 item"),
    "a direction as in the proposal": (
        {"objectives": [{"metric": "a", "direction": "minimize"}]},
        'Unsupported value: "minimize": supported values: "Maximize", "Minimize"',
    ),
    "the name of a template": (
        {"trainJobTemplate": {"metadata": {"name": "a"}, "spec": {"runtimeRef": {"name": "r"}}}},
        "name and namespace cannot be set in a template.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(control_plane: ControlPlane, namespace: str, name: str) -> None:
    fields, said = REFUSED[name]
    document = optimization_job(**fields)
    document["metadata"]["namespace"] = namespace
    with pytest.raises(ControlPlaneError) as error:
        control_plane.stored.create(document)
    assert said in str(error.value)


def test_defaults_and_an_edit(control_plane: ControlPlane, namespace: str) -> None:
    document = optimization_job()
    document["metadata"]["namespace"] = namespace
    del document["spec"]["searchAlgorithm"]
    spec = control_plane.stored.create(document)["spec"]
    assert (spec["numTrials"], spec["parallelTrials"], spec["searchAlgorithm"]) == (1, 1, {"random": {}})
    assert spec["objectives"] == [{"metric": "loss", "direction": "Minimize"}]
    assert spec["parameters"][0]["searchSpace"]["uniform"]["type"] == "Float"
    with pytest.raises(ControlPlaneError) as error:
        control_plane.stored.patch("optimizationjob", "s", {"spec": {"numTrials": 2}}, namespace)
    assert "OptimizationJobSpec is immutable and cannot be updated after creation" in str(error.value)
    # Its metadata can change.
    changed = control_plane.stored.patch("optimizationjob", "s", {"metadata": {"labels": {"a": "b"}}}, namespace)
    assert changed["metadata"]["labels"] == {"a": "b"}
