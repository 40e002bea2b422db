# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for `versions.py`: keeps the tests of files that use the programs of the test control plane."""

from typing import Any

import pytest

_FIXTURES = frozenset({"chain", "control_plane", "manager"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the others: what they test is the same for every version of Kubernetes."""
    others = [item for item in items if not _uses_a_control_plane(item)]
    items[:] = [item for item in items if item not in others]
    config.hook.pytest_deselected(items=others)


def _uses_a_control_plane(item: Any) -> bool:
    if "local" in getattr(getattr(item, "callspec", None), "params", {}).values():
        return False  # the same test on the local cluster
    return hasattr(item.module, "ControlPlane") or not _FIXTURES.isdisjoint(item.fixturenames)
