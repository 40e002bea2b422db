# SPDX-License-Identifier: Apache-2.0
"""Which specs of Ginkgo's report count: one that skips itself proves nothing, and one that was not chosen is none."""

from typing import Any

import pytest

from tests.soak._kueue_specs import Spec, specs_of


@pytest.mark.parametrize(
    ("state", "message", "found"),
    [
        pytest.param("passed", "", [Spec("TrainJob runs", True, 1.5)], id="passed"),
        pytest.param("failed", "it hangs", [Spec("TrainJob runs", False, 1.5, "failed: it hangs")], id="failed"),
        pytest.param("skipped", "too old", [Spec("TrainJob runs", False, 1.5, "skipped: too old")], id="skips itself"),
        pytest.param("pending", "", [Spec("TrainJob runs", False, 1.5, "pending: ")], id="is not run at all"),
        pytest.param("skipped", "", [], id="was not chosen"),
    ],
)
def test_specs_that_count(state: str, message: str, found: list[Spec]) -> None:
    spec: dict[str, Any] = {
        "LeafNodeType": "It",
        "LeafNodeText": "runs",
        "ContainerHierarchyTexts": ["TrainJob"],
        "State": state,
        "RunTime": 1_500_000_000,
        **({"Failure": {"Message": message}} if message else {}),
    }
    suite = {"LeafNodeType": "BeforeSuite", "State": "passed", "RunTime": 1}
    assert specs_of([{"SpecReports": [suite, spec]}, {"SpecReports": None}]) == found
