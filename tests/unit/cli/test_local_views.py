# SPDX-License-Identifier: Apache-2.0
"""What `trainwright local` shows: the room of its node, and the order of pods."""

import pytest

from tests import builders
from trainwright.api.objects import Document
from trainwright.controller.cli.local.local_jobs import room_of
from trainwright.controller.cli.local.pods import by_rank


@pytest.mark.parametrize(
    ("allocatable", "said"),
    [
        ({"cpu": "1800m", "memory": "22215682Ki", "pods": "110"}, "1.8 CPUs, 21695 MiB of memory"),
        ({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}, "1 CPU, 1024 MiB of memory, 1 GPU"),
        ({"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}, "64 CPUs, 524288 MiB of memory, 8 GPUs"),
        ({"cpu": "2", "memory": "4e9", "nvidia.com/gpu": "0"}, "2 CPUs, 3814 MiB of memory, 0 GPUs"),
        ({}, ""),
    ],
)
def test_amounts_have_units_that_people_use(allocatable: dict[str, str], said: str) -> None:
    assert room_of(allocatable) == said


def test_the_pods_of_one_rank_come_in_the_order_in_which_they_ran() -> None:
    def pod(name: str, index: int, created: str) -> Document:
        return builders.pod(index, name=name, created=created)

    pods = [
        pod("a-resumed", 1, "2026-11-26T02:42:37Z"),
        pod("last", 10, "2026-11-26T02:41:00Z"),
        pod("b-stopped", 1, "2026-11-26T02:41:57Z"),
    ]
    assert [one["metadata"]["name"] for one in sorted(pods, key=by_rank)] == ["b-stopped", "a-resumed", "last"]
