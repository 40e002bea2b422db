# SPDX-License-Identifier: Apache-2.0
"""The row of a pod: its status is the reason of the container that matters most."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.api.times import parse
from trainwright.controller.local.apiserver.views.tables.ages import since
from trainwright.controller.local.apiserver.views.tables.reading import (
    NONE,
    Document,
    condition_is_true,
    part,
    parts,
    text,
)

_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(slots=True)
class _Restarts:
    count: int = 0
    last: str = ""

    def add(self, container: Document) -> None:
        """Count a container's restarts, and note when its last run ended."""
        self.count += container.get("restartCount") or 0
        ended = part(container, "lastState", "terminated").get("finishedAt")
        if ended and (not self.last or parse(self.last) < parse(ended)):
            self.last = ended

    def shown(self, now: datetime) -> str:
        return f"{self.count} ({since(self.last, now)} ago)" if self.count and self.last else str(self.count)


@dataclass(slots=True)
class _Findings:
    """What the containers tell of a pod."""

    reason: str
    ready: int = 0
    initializing: bool = False


def pod_cells(pod: Document, now: datetime) -> list[Any]:
    """The cells of a pod."""
    metadata, spec, status = part(pod, "metadata"), part(pod, "spec"), part(pod, "status")
    sidecars = {one.get("name") for one in parts(spec, "initContainers") if one.get("restartPolicy") == "Always"}
    found = _Findings(_pod_reason(status))
    of_all_init, restarts = _Restarts(), _Restarts()
    _look_at_init_containers(pod, sidecars, found, of_all_init, restarts)
    if not found.initializing or condition_is_true(status, "Initialized"):
        _look_at_containers(status, found, restarts)
    else:
        restarts = of_all_init
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            found.reason = "Unknown"
        elif status.get("phase") not in _ENDS:
            found.reason = "Terminating"
    total = len(parts(spec, "containers")) + len(sidecars)
    addresses = parts(status, "podIPs")
    return [
        metadata.get("name"),
        f"{found.ready}/{total}",
        found.reason,
        restarts.shown(now),
        since(metadata.get("creationTimestamp"), now),
        text(addresses[0], "ip", NONE) if addresses else NONE,
        text(spec, "nodeName", NONE),
        text(status, "nominatedNodeName", NONE),
        _gates(spec, status),
    ]


def pod_conditions(pod: Document) -> list[dict[str, str]]:
    """The conditions of a pod's row: whether it is over."""
    phase = part(pod, "status").get("phase")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]


def _pod_reason(status: Document) -> str:
    gated = any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in parts(status, "conditions")
    )
    return "SchedulingGated" if gated else text(status, "reason", text(status, "phase"))


def _look_at_init_containers(
    pod: Document, sidecars: set[Any], found: _Findings, of_all: _Restarts, of_sidecars: _Restarts
) -> None:
    """Up to the first one that has neither ended well nor is a sidecar that runs."""
    statuses = parts(part(pod, "status"), "initContainerStatuses")
    for index, container in enumerate(statuses):
        of_all.add(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            of_sidecars.add(container)
        state = part(container, "state")
        terminated, waiting = state.get("terminated"), part(state, "waiting")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            found.ready += container.get("ready") is True
            continue
        if terminated is not None:
            found.reason = f"Init:{_ended(terminated)}"
        elif text(waiting, "reason", "PodInitializing") != "PodInitializing":
            found.reason = f"Init:{waiting['reason']}"
        else:
            found.reason = f"Init:{index}/{len(parts(part(pod, 'spec'), 'initContainers'))}"
        found.initializing = True
        return


def _look_at_containers(status: Document, found: _Findings, restarts: _Restarts) -> None:
    """The first container's reason counts most, so it is looked at last."""
    running, failure = False, ""
    for container in reversed(parts(status, "containerStatuses")):
        restarts.add(container)
        state = part(container, "state")
        terminated = state.get("terminated")
        if reason := part(state, "waiting").get("reason"):
            found.reason = reason
        elif terminated is not None:
            found.reason = _ended(terminated)
            if terminated.get("exitCode"):
                failure = found.reason
        elif container.get("ready") and state.get("running") is not None:
            running = True
            found.ready += 1
    if found.reason == "Completed":
        if running and any(
            one.get("type") == "Ready" and one.get("status") == "True" for one in parts(status, "conditions")
        ):
            found.reason = "Running"
        elif failure:
            found.reason = failure
        elif running:
            found.reason = "NotReady"


def _ended(terminated: Document) -> str:
    if terminated.get("reason"):
        return text(terminated, "reason")
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _gates(spec: Document, status: Document) -> str:
    gates = parts(spec, "readinessGates")
    true = sum(condition_is_true(status, gate.get("conditionType")) for gate in gates)
    return f"{true}/{len(gates)}" if gates else NONE
