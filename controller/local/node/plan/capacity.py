# SPDX-License-Identifier: Apache-2.0
"""What the machine has to give: CPUs and memory less a tenth, and what the settings say instead."""

import os
from collections.abc import Mapping

from trainwright.api.quantity import Quantity, Style

PODS = 110
RESERVED = 10
"""Percent of CPUs and memory that stay with the user."""
_NANO = 10**9


def machine_capacity() -> dict[str, str]:
    """CPUs (those that this process may use), memory and the number of pods."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": str(usable_cpus()), "memory": f"{memory // 1024}Ki", "pods": str(PODS)}


def usable_cpus() -> int:
    """The number of CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def node_resources(
    machine: Mapping[str, str], devices: Mapping[str, str], overrides: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable of a node.

    Overrides replace both: whoever names an amount wants to give exactly that. Raises ValueError for one that is no
    quantity.
    """
    given = {name: Quantity.parse(value).canonical() for name, value in overrides.items()}
    capacity = {**machine, **devices, **given}
    allocatable = {name: _less(name, value) for name, value in {**machine, **devices}.items()} | given
    return capacity, allocatable


def _less(name: str, value: str) -> str:
    amount = Quantity.parse(value)
    if name == "cpu":
        return Quantity(amount.nanos * (100 - RESERVED) // 100).canonical()
    if name == "memory":
        kibibytes = amount.nanos // _NANO * (100 - RESERVED) // 100 // 1024
        return Quantity(kibibytes * 1024 * _NANO, Style.BINARY).canonical()
    return value
