# SPDX-License-Identifier: Apache-2.0
"""What Node objects say of their machines, and which of them a requirement selects. Pure functions."""

from collections.abc import Sequence

from trainwright.api.objects import Document

_LOCAL = "local://"
"""Begins the container runtime of the nodes of `trainwright local`, which run pods as processes."""


def is_local(node: Document) -> bool:
    """Whether the node is that of a local cluster, which is this machine: no device plugin runs there."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("containerRuntimeVersion")).startswith(_LOCAL)


def is_required_value(value: str | None, operator: str | None, values: Sequence[str]) -> bool:
    """Whether a label or field with this value, None if it is absent, meets a requirement of a node selector.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
    """
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(values) == 1 and _is_integer(value) and _is_integer(values[0]):
            return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return False


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
