# SPDX-License-Identifier: Apache-2.0
"""What the node offers to all its pods: sources, plans, processes, events."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from trainwright.api.objects import Document
from trainwright.controller.local.node import containers
from trainwright.controller.local.node.containers import ContainerProcess, Order
from trainwright.controller.local.node.plan import Places, Plan, Workplace, make_plan
from trainwright.controller.local.node.projections import Sources
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.node.volumes import Volumes
from trainwright.controller.runtime.tasks import TaskScope


class Hosting:
    """One node as its pods see it. It keeps nothing of a pod."""

    def __init__(
        self,
        settings: NodeSettings,
        sources: Sources,
        *,
        inherited: Mapping[str, str],
        service: Mapping[str, str],
        pods: Callable[[], Iterable[Document]],
        event: Callable[[Document, str, str, str], None],
    ) -> None:
        """Args:
        settings: of the node.
        sources: what pods refer to.
        inherited: variables of this process that containers get.
        service: KUBERNETES_SERVICE_HOST and its like.
        pods: all pods of the node, for host names.
        event: records an event about a pod: type, reason, note.
        """
        self.settings = settings
        self.sources = sources
        self.event = event
        self._workplace = Workplace(
            images=settings.images,
            lookup=sources,
            inherited=inherited,
            service=service,
            rewrite=True,
            allocatable=sources.allocatable,
            pods=pods,
        )

    async def plan(self, pod: Document, container: Document, volumes: Volumes, places: Places) -> Plan:
        """What a container runs. Raises ConfigError, CreateError."""
        return await make_plan(pod, container, volumes, places, self._workplace, devices={})

    async def start(self, pod: Document, order: Order, plan: Plan, record: Path, tasks: TaskScope) -> ContainerProcess:
        """Start a process. Raises StartError, OSError."""
        del pod, plan
        return await containers.start(order, record=record, follow=tasks.start)
