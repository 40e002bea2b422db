# SPDX-License-Identifier: Apache-2.0
"""Pods that share ports and a network: those of one JobSet or subdomain, which know each other by name."""

from typing import TypeAlias

from trainwright.api.objects import Document, namespace_of, uid_of
from trainwright.controller.local.node.network.hostnames import group_of

Holder: TypeAlias = tuple[str, str]
"""Namespace and JobSet or subdomain; or namespace and uid of a pod that has no group."""


def holder_of(pod: Document) -> Holder:
    """Who holds the ports and the network of a pod."""
    group = group_of(pod)
    return group if group[1] else (namespace_of(pod), uid_of(pod))


class Holders:
    """Which pods of each holder are there."""

    def __init__(self) -> None:
        self._pods: dict[Holder, set[str]] = {}

    def join(self, pod: Document) -> None:
        """The pod uses what its holder has."""
        self._pods.setdefault(holder_of(pod), set()).add(uid_of(pod))

    def leave(self, pod: Document) -> bool:
        """Nothing of the pod runs any more. Whether no pod of its holder is left."""
        holder = holder_of(pod)
        left = self._pods.get(holder, set())
        left.discard(uid_of(pod))
        if not left:
            self._pods.pop(holder, None)
        return not left

    def clear(self) -> None:
        """Forget all of them."""
        self._pods.clear()
