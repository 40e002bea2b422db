# SPDX-License-Identifier: Apache-2.0
"""What the runs of a container need from their pod and their node."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from trainwright.api.objects import Document
from trainwright.controller.local.node.network.networks import Dial
from trainwright.controller.local.node.plan.plan import Places, Plan
from trainwright.controller.local.node.process.containers import ContainerProcess, Order
from trainwright.controller.runtime import TaskScope


class Host(Protocol):
    """What a runner needs from its pod and its node."""

    @property
    def pod(self) -> Document:
        """The pod as it is now."""
        ...

    def goes_on_without(self, container: str) -> bool:
        """Whether another container of the pod runs, or is yet to run."""
        ...

    def changed(self) -> None:
        """The state of a container has changed: report it."""
        ...

    def event(self, kind: str, reason: str, note: str) -> None:
        """Record an event about the pod; `kind` is Normal or Warning."""
        ...

    async def plan(self, container: Document, places: Places) -> Plan:
        """What to run. Raises ConfigError, SourceUnavailableError, CreateError, OSError."""
        ...

    async def start(
        self, order: Order, plan: Plan, record: Path, tasks: TaskScope, *, join: ContainerProcess | None
    ) -> ContainerProcess:
        """Start a process, beside that of `join` if it is given. Raises StartError, OSError."""
        ...

    async def source_change(self) -> None:
        """Wait until a ConfigMap or Secret of the namespace changes."""
        ...

    def dial(self) -> Dial:
        """What connects to ports of the pod."""
        ...

    def moved(self) -> Mapping[int, int]:
        """The ports of the pod that differ from what it declares: the real one by declared one."""
        ...
