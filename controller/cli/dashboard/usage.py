# SPDX-License-Identifier: Apache-2.0
"""What pods use now, from metrics.k8s.io: the local cluster serves it, and metrics-server does in others.

Where it is not served, or may not be read, pages show nothing of it, and are not told why: a job trains without it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.objects import Document, dig
from trainwright.api.quantity import Quantity
from trainwright.controller.cli.dashboard import contract
from trainwright.controller.runtime import Client, KubernetesError

PODS = Resource(group="metrics.k8s.io", version="v1beta1", kind="PodMetrics", plural="pods", namespaced=True)
GPU, GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"
READ_SECONDS = 3.0
"""The page does not wait longer for it."""
AGAIN_SECONDS = 60.0
"""It is not asked for again so soon where it could not be read."""
_NANO = 10**9


class Usage:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._not_before: dict[str, float] = {}
        """By namespace; time of the event loop."""

    async def read(self, namespace: str, job: str) -> dict[str, contract.UsageView]:
        """By the names of the job's pods; empty where it is not known."""
        clock = asyncio.get_running_loop().time
        if clock() < self._not_before.get(namespace, 0.0):
            return {}
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await self._client.list(PODS, namespace, label_selector=f"{LABEL_JOBSET}={job}")
        except (KubernetesError, TimeoutError):
            self._not_before[namespace] = clock() + AGAIN_SECONDS
            return {}
        return {str(dig(one, "metadata.name")): usage_of(one) for one in found.items}


def usage_of(metrics: Document) -> contract.UsageView:
    used = [one.get("usage") or {} for one in metrics.get("containers") or ()]
    memory, gpu_memory = _sum(used, "memory"), _sum(used, GPU_MEMORY)
    return contract.UsageView(
        cpu=_sum(used, "cpu"),
        memory=int(memory) if memory is not None else None,
        gpu=_sum(used, GPU),
        gpu_memory=int(gpu_memory) if gpu_memory is not None else None,
    )


def _sum(used: Sequence[Any], name: str) -> float | None:
    """The sum of a resource; None if no container tells it."""
    found = []
    for one in used:
        try:
            found.append(Quantity.parse(str(one[name])).nanos / _NANO)
        except (KeyError, ValueError, TypeError):
            continue
    return sum(found) if found else None
