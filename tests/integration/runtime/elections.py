# SPDX-License-Identifier: Apache-2.0
"""Replicas as processes, and what the audit log of the API server shows."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainwright.api.times import parse
from trainwright.controller.runtime.leaderelection.fence import Timing
from trainwright.controller.runtime.testing import AuditedCall, ControlPlane
from trainwright.controller.runtime.testing.component import ControlPlaneComponent
from trainwright.controller.runtime.testing.waiting import at_least, eventually

PROGRAM = Path(__file__).with_name("election_replica.py")
SHORT = Timing(lease=5.0, renew=3.5, retry=0.5)
LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Election:
    """One namespace with its Lease and its replicas."""

    control_plane: ControlPlane
    namespace: str
    timing: Timing

    def start(self, name: str, *, kubeconfig: Path | None = None) -> ControlPlaneComponent:
        """Start a replica; `name` is unique in the control plane."""
        timing = f"{self.timing.lease},{self.timing.renew},{self.timing.retry}"
        command = [
            sys.executable,
            str(PROGRAM),
            f"--kubeconfig={kubeconfig or self.control_plane.kubeconfig}",
            f"--namespace={self.namespace}",
            f"--name={name}",
            f"--timing={timing}",
        ]
        return self.control_plane.launch(name, command)

    def writes(self, name: str = "") -> Iterator[AuditedCall]:
        """Writes of leader-elected work, oldest first; of one replica or of all."""
        for call in self._calls("configmaps"):
            if call.is_write and (not name or call.user_agent.endswith(f" {name}")):
                yield call

    def lease_calls(self, name: str) -> Iterator[AuditedCall]:
        """What a replica's elector asked."""
        return (c for c in self._calls("leases") if c.user_agent.endswith(f" {name} leader-election"))

    def _calls(self, resource: str) -> Iterator[AuditedCall]:
        for call in self.control_plane.audit_log.calls(user_agent="trainwright/"):
            if call.namespace == self.namespace and call.resource == resource:
                yield call

    def turns(self) -> list[str]:
        """Who wrote, in order, one entry per turn: two writers at once would show as a name that comes again."""
        turns: list[str] = []
        for call in sorted(self.writes(), key=lambda c: c.time):
            name = call.user_agent.rpartition(" ")[2]
            if not turns or turns[-1] != name:
                turns.append(name)
        return turns

    async def wait_writes(self, name: str, *, more: int = 1) -> None:
        """Wait until a replica has written `more` times from now on."""
        before = sum(1 for _ in self.writes(name))
        await eventually(
            lambda: sum(1 for _ in self.writes(name)),
            at_least(before + more),
            seconds=LIMIT_SECONDS,
            what=f"{name} writes",
        )

    async def wait_stands(self, name: str) -> None:
        """Wait until a replica has seen the Lease."""
        await eventually(lambda: [*self.lease_calls(name)], seconds=LIMIT_SECONDS, what=f"{name} looks at the lease")

    def gap(self, before: str, after: str) -> float:
        """Seconds from the last renewal of one leader to the first write of the next, by the server's clock."""
        last = max(moment(c) for c in self.lease_calls(before) if c.verb in {"patch", "create"} and c.code < 300)
        return (min(moment(c) for c in self.writes(after)) - last).total_seconds()

    def lease(self) -> dict[str, object]:
        """The Lease's spec."""
        found = self.control_plane.stored.get("lease", "replicas", self.namespace)
        assert found is not None
        spec: dict[str, object] = found["spec"]
        return spec


def moment(call: AuditedCall) -> datetime:
    """When a call was answered."""
    return parse(call.time)
