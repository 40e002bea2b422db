# SPDX-License-Identifier: Apache-2.0
"""What `trainwright local status` says of the room of its node."""

import pytest

from trainwright.controller.cli.local.content import room_of


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
