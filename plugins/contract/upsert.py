# SPDX-License-Identifier: Apache-2.0
"""Sets one item in a list of a container or a pod.

Lists of Kubernetes have keys: environment variables and volumes their name, mounts their path. An item replaces the
item with its key entirely, at the same place, so that a variable never has both a value and a source; a new item goes
to the end. Ports have rules of their own.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from trainwright.api.kubernetes.core.v1 import ContainerPort

T = TypeVar("T")


def upsert(items: list[T], item: T, same: Callable[[T], bool]) -> T | None:
    """Set an item in the place of the first one that is the same; returns that one."""
    for index, other in enumerate(items):
        if same(other):
            items[index] = item
            return other
    items.append(item)
    return None


def upsert_port(items: list[ContainerPort], item: ContainerPort) -> ContainerPort | None:
    """Set a port; returns the one that it replaced.

    It replaces the port with the same number or the same name. A port without a name also replaces the only other port
    without a name, whatever its number: Kubeflow Trainer does so, and the JobSets of existing jobs cannot be changed.
    With several ports without a name it is ambiguous which one to replace, so the port is added.
    """
    return upsert(items, item, lambda other: other is _port_like(items, item))


def _port_like(items: Sequence[ContainerPort], item: ContainerPort) -> ContainerPort | None:
    for other in items:
        if other.container_port == item.container_port or (item.name and other.name == item.name):
            return other
    nameless = [other for other in items if not other.name]
    return nameless[0] if len(nameless) == 1 and not item.name else None
