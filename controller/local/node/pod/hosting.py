# SPDX-License-Identifier: Apache-2.0
"""What the node offers to all its pods: sources, plans, processes, events."""

import asyncio
import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from trainwright.api.objects import Document, uid_of
from trainwright.controller.local.node.network.networks import Dial, Networks, Streams
from trainwright.controller.local.node.network.ports import REFUSED, Ports
from trainwright.controller.local.node.plan.capacity import usable_cpus
from trainwright.controller.local.node.plan.gpus import Gpus
from trainwright.controller.local.node.plan.isolation import (
    Launch,
    container_launch,
    hosts_text,
    launcher_command,
    write_hosts,
)
from trainwright.controller.local.node.plan.plan import CreateError, Places, Plan, Workplace, make_plan
from trainwright.controller.local.node.process import containers
from trainwright.controller.local.node.process.containers import ContainerProcess, Order
from trainwright.controller.local.node.process.ends import Ends
from trainwright.controller.local.node.process.spawning import Spawner
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.node.volumes.projections import ProjectionSources
from trainwright.controller.local.node.volumes.volumes import Volumes
from trainwright.controller.runtime import TaskScope


class NodeSources(ProjectionSources, Protocol):
    """What pods refer to, and what they belong to."""

    async def job_set(self, pod: Document) -> Document | None:
        """The JobSet of a pod; None if it has none."""
        ...


class Hosting:
    """One node as its pods see it. Of pods it keeps only who has which GPUs and ports."""

    def __init__(
        self,
        settings: NodeSettings,
        sources: NodeSources,
        *,
        inherited: Mapping[str, str],
        service: Mapping[str, str],
        pods: Callable[[], Iterable[Document]],
        event: Callable[[Document, str, str, str], None],
        released: Callable[[], None],
    ) -> None:
        """Args:
        settings: of the node.
        sources: what pods refer to.
        inherited: variables of this process that containers get.
        service: KUBERNETES_SERVICE_HOST and its like.
        pods: all pods of the node, for host names.
        event: records an event about a pod: type, reason, note.
        released: called when a pod has given its devices and ports back.
        """
        self.settings = settings
        self.gpus = Gpus()
        self.ports = Ports()
        self.networks: Networks | None = None
        """Those of the jobs; None if pods have that of the machine."""
        self.spawner = Spawner()
        self.ends = Ends()
        # More at once than there are CPUs start none of them earlier, and hold up the event loop.
        self._starts = asyncio.Semaphore(usable_cpus())
        self.sources = sources
        self.event = event
        self._released = released
        self._writing_hosts = threading.Lock()
        self._workplace = Workplace(
            images=settings.images,
            lookup=sources,
            inherited=inherited,
            service=service,
            rewrite=True,
            allocatable=sources.allocatable,
            pods=pods,
            job_set=sources.job_set,
            cluster=settings.folder,
        )

    async def plan(self, pod: Document, container: Document, volumes: Volumes, places: Places) -> Plan:
        """What a container runs. Raises ConfigError, CreateError."""
        if not self.ports.admit(pod, self._workplace.pods()):
            raise CreateError(REFUSED)
        return await make_plan(
            pod,
            container,
            volumes,
            places,
            self._workplace,
            devices=self.gpus.variables(pod, container),
            moved=self.ports.moved(pod),
        )

    def release(self, pod: Document) -> None:
        """Nothing of the pod runs any more: others can have its devices and ports.

        Raises the first error, after it has tried everything. It can be called again.
        """
        errors: list[Exception] = []
        steps: list[Callable[[], object]] = [
            lambda: self.gpus.release(uid_of(pod)),
            lambda: self.ports.release(pod),
            *([] if (networks := self.networks) is None else [lambda: networks.release(pod)]),
            self._released,
        ]
        for give_back in steps:
            try:
                give_back()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def isolate(self, *, rewrite: bool, networks: Networks | None = None) -> None:
        """Choose between namespaces and rewriting, before the first pod, and which network pods have."""
        self._workplace = replace(self._workplace, rewrite=rewrite)
        self.networks = networks
        self.ports.separate = networks is not None

    def close(self) -> None:
        """Give back what the node holds of the machine, when no pod runs any more. Blocks."""
        self.ports.close()
        self.gpus.close()
        self.spawner.close()
        if self.networks is not None:
            self.networks.close()

    def dial(self, pod: Document) -> Dial:
        """What connects to ports of a pod."""
        if self.networks is None:
            return asyncio.open_connection
        return functools.partial(self._dial, self.networks, pod)

    @staticmethod
    async def _dial(networks: Networks, pod: Document, host: str, port: int, **how: Any) -> Streams:
        return await (await networks.of(pod)).dial(host, port, **how)

    async def start(
        self, pod: Document, order: Order, plan: Plan, record: Path, tasks: TaskScope, *, join: ContainerProcess | None
    ) -> ContainerProcess:
        """Start a process, beside that of `join` if it is given. Raises StartError, OSError."""
        if not self._workplace.rewrite:
            pid = join.pid if join is not None else 0
            network = (await self.networks.of(pod)).pid if self.networks is not None else 0
            launcher = await asyncio.to_thread(self._launcher, pod, order, plan, record, pid, network)
            order = replace(order, launcher=launcher)
        async with self._starts:
            return await containers.start(
                order,
                record=record,
                follow=tasks.start,
                spawn=self.spawner.start,
                # What runs beside a container says nothing about which one failed first.
                ends=self.ends if join is None else None,
            )

    def _launcher(self, pod: Document, order: Order, plan: Plan, record: Path, join: int, network: int) -> list[str]:
        scratch = self._scratch(record.parent)
        scratch.mkdir(exist_ok=True)
        if join:
            launch = Launch(
                command=order.command, folder=order.folder, join=join, terminal=order.terminal, network=network
            )
        else:
            with self._writing_hosts:
                write_hosts(scratch / "hosts", hosts_text(pod, self._workplace.pods()))
            work = record.parent / "work"
            launch = container_launch(
                pod, order.command, order.folder, plan.mounts, scratch=scratch, work=work, network=network
            )
        return launcher_command(launch, scratch / f"{record.stem}.json")

    def write_hosts(self, pod: Document, container: Path) -> None:
        """Bring the hosts file of a container up to date; `container` is its folder. Rewriting has none."""
        file = self._scratch(container) / "hosts"
        # Looked for, made and written in one go: a thread with an older text must not be the last to write it. Whoever
        # makes the file later knows all pods of this moment.
        with self._writing_hosts:
            if file.exists():
                write_hosts(file, hosts_text(pod, self._workplace.pods()))

    @staticmethod
    def _scratch(container: Path) -> Path:
        return container / "namespaces"
