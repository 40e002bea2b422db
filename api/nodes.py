# SPDX-License-Identifier: Apache-2.0
"""What Node objects say of their machines. Pure functions."""

from trainwright.api.objects import Document

_LOCAL = "local://"
"""Begins the container runtime of the nodes of `trainwright local`, which run pods as processes."""


def is_local(node: Document) -> bool:
    """Whether the node is that of a local cluster, which is this machine: no device plugin runs there."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("containerRuntimeVersion")).startswith(_LOCAL)
