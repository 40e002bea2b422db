# SPDX-License-Identifier: Apache-2.0
"""What a job of `local run --queue` asks for."""

from typing import Any

import pytest

from trainwright.controller.cli.local.feasibility import ask_for_share

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("allocatable", "parts", "asked"),
    [
        ({"cpu": "3600m"}, 2, {"requests": {"cpu": "1800m"}}),
        ({"cpu": "2"}, 3, {"requests": {"cpu": "666m"}}),
        ({"cpu": "8", GPU: "4"}, 2, {"requests": {GPU: "2"}, "limits": {GPU: "2"}}),
        ({"cpu": "8", GPU: "1"}, 2, {"requests": {GPU: "1"}, "limits": {GPU: "1"}}),
        ({}, 2, {"requests": {"cpu": "1m"}}),
    ],
)
@pytest.mark.parametrize("spec", [{}, {"trainer": None}])
def test_each_node_asks_for_its_part_of_the_machine(
    allocatable: dict[str, str], parts: int, asked: dict[str, Any], spec: dict[str, Any]
) -> None:
    job: dict[str, Any] = {"spec": dict(spec)}
    ask_for_share(job, [{"status": {"allocatable": allocatable}}], parts)
    assert job["spec"]["trainer"]["resourcesPerNode"] == asked


@pytest.mark.parametrize(
    ("allocatable", "own", "is_torch", "processes"),
    [
        ({"cpu": "8"}, {}, True, 1),
        ({"cpu": "8"}, {"numProcPerNode": 4}, True, 4),
        ({"cpu": "8"}, {}, False, None),
        ({"cpu": "8", GPU: "4"}, {}, True, None),  # one for each GPU
    ],
)
def test_its_part_of_the_cpus_does_not_make_more_processes(
    allocatable: dict[str, str], own: dict[str, Any], is_torch: bool, processes: int | None
) -> None:
    job: dict[str, Any] = {"spec": {"trainer": dict(own)}}
    ask_for_share(job, [{"status": {"allocatable": allocatable}}], 2, is_torch=is_torch)
    assert job["spec"]["trainer"].get("numProcPerNode") == processes


def test_what_a_manifest_asks_for_stays() -> None:
    job: dict[str, Any] = {"spec": {"trainer": {"resourcesPerNode": {"requests": {"cpu": "1"}}}}}
    ask_for_share(job, [{"status": {"allocatable": {"cpu": "4"}}}], 2)
    assert job["spec"]["trainer"]["resourcesPerNode"] == {"requests": {"cpu": "1"}}
