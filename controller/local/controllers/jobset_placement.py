# SPDX-License-Identifier: Apache-2.0
"""Exclusive placement: all pods of a Job in one topology domain, and no other Job in it.

The first pod of a Job chooses the domain by its affinity, which `defaulting` sets. The others follow it by a node
selector, so they are refused until the first one is on a node. The Job controller tries again.

Source: JobSet 0.12.0; the annotation is `alpha.jobset.sigs.k8s.io/exclusive-topology`.
"""

from trainwright.api.objects import (
    Document,
    annotations_of,
    controller_of,
    deletion_timestamp_of,
    labels_of,
    name_of,
    namespace_of,
)
from trainwright.api.rights import Rule
from trainwright.controller.local.controllers.job_pods import COMPLETION_INDEX
from trainwright.controller.local.controllers.jobset_objects import (
    EXCLUSIVE,
    JOB_INDEX,
    JOB_KEY,
    JOBSET_NAME,
    NODE_SELECTOR_STRATEGY,
    REPLICATED_JOB,
)
from trainwright.controller.local.controllers.objects import NODE, POD, node_of, spec_of
from trainwright.controller.runtime import Client

_FIRST = "0"


class Misplaced(Exception):  # noqa: N818 - what is wrong with the pod
    """Why a pod cannot be created now."""


def is_follower(pod: Document) -> bool:
    """Whether the pod has to follow the first pod of its Job."""
    annotations = annotations_of(pod)
    return (
        JOBSET_NAME in annotations
        and EXCLUSIVE in annotations
        and NODE_SELECTOR_STRATEGY not in annotations
        and annotations.get(COMPLETION_INDEX) != _FIRST
    )


class Followers:
    """Finds the first pod of a Job and its node, at the API server: a cache may not know them yet."""

    RULES = (Rule.on(POD, "list"), Rule.on(NODE, "get"))

    def __init__(self, client: Client) -> None:
        self._client = client

    async def follow(self, pod: Document) -> None:
        """Set the node selector of a follower, in place, if the first pod is on a node."""
        if not is_follower(pod):
            return
        try:
            first = await self._first_of(pod)
        except Misplaced:
            return  # the validation refuses the pod
        if not node_of(first):
            return
        topology = annotations_of(pod)[EXCLUSIVE]
        node = await self._client.get(NODE, node_of(first))
        domain = labels_of(node).get(topology)
        if domain is None:
            raise Misplaced(f"node does not have topology label: {topology}")
        spec = pod["spec"]
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), topology: domain}

    async def check(self, pod: Document) -> None:
        """Raise Misplaced for a follower that cannot be created now."""
        if not is_follower(pod):
            return
        selector, topology = spec_of(pod).get("nodeSelector"), annotations_of(pod)[EXCLUSIVE]
        if not selector:
            raise Misplaced("follower pod node selector not set")
        if topology not in selector:
            raise Misplaced(f"follower pod node selector for topology domain not found. missing selector: {topology}")
        if not node_of(await self._first_of(pod)):
            raise Misplaced(
                "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"
            )

    async def _first_of(self, pod: Document) -> Document:
        labels = labels_of(pod)
        job = f"{JOB_KEY}={labels.get(JOB_KEY, '')}"
        found = await self._client.list(POD, namespace_of(pod), label_selector=f"{job},{COMPLETION_INDEX}={_FIRST}")
        alive: list[Document] = [other for other in found.items if deletion_timestamp_of(other) is None]
        if len(alive) != 1:
            parts = (JOBSET_NAME, REPLICATED_JOB, JOB_INDEX)
            name = "-".join(labels.get(part, "") for part in parts)
            raise Misplaced(
                f"expected 1 leader pod ({name}-{_FIRST}), but got {len(alive)}. this is an expected, transient error"
            )
        _check_owners(alive[0], pod)
        return alive[0]


def _check_owners(first: Document, pod: Document) -> None:
    owner, wanted = controller_of(first), controller_of(pod)
    if wanted is None:
        raise Misplaced("follower pod has no owner reference")
    if owner is None:
        raise Misplaced(f'leader pod "{name_of(first)}" has no owner reference')
    if owner.uid != wanted.uid:
        raise Misplaced(f"follower pod owner UID ({wanted.uid}) != leader pod owner UID ({owner.uid})")
