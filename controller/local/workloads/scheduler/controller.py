# SPDX-License-Identifier: Apache-2.0
"""Binds pending pods to nodes.

All pending pods are looked at together, so that the most important one is placed first. That is one key, which every
change of a pod or a node queues.
"""

from collections.abc import Iterable

from trainwright.api.conditions import find
from trainwright.api.objects import Document, Key, deletion_timestamp_of, generation_of, name_of, namespace_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import Now, format_time, wall_clock
from trainwright.controller.local.workloads.documents import conditions_of, spec_of
from trainwright.controller.local.workloads.kinds import NODE, POD
from trainwright.controller.local.workloads.pods import is_terminal, node_of
from trainwright.controller.local.workloads.scheduler.fit import NO_NODES, Check, places_of, schedule
from trainwright.controller.runtime import (
    ApiError,
    Conflict,
    Done,
    EventRecorder,
    Forbidden,
    Manager,
    NotFound,
    Pacer,
    Result,
    is_namespace_ending,
)

NAME = "scheduler"
REPORTER = "default-scheduler"
"""Reporting controller of the events, and the scheduler that pods name."""
_ALL = Key("", "pending-pods")
_NOTE = 1024
"""Bytes of the note of an event."""


class Scheduler:
    """Schedules pods. The constructor declares its watches on the manager."""

    RULES = (
        Rule.on(POD, *WATCH),
        Rule.on(POD, "create", subresource="binding"),
        Rule.on(POD, "patch", subresource="status"),
        Rule.on(NODE, *WATCH),
        *EventRecorder.RULES,
    )

    def __init__(
        self, manager: Manager, recorder: EventRecorder, *, now: Now = wall_clock, check: Check | None = None
    ) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            recorder: for events; its owner runs it.
            now: for transition times.
        check: a check of the node's own, such as for ports that all pods share.
        """
        self._client, self._cache = manager.client, manager.cache
        self._recorder, self._now, self._check = recorder, now, check
        self._assumed: dict[str, str] = {}
        builder = manager.controller(NAME).watches(POD, _everything).watches(NODE, _everything)
        builder.reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Look at all pending pods once."""
        pods = self._cache.list(POD)
        unseen = {uid_of(pod) for pod in pods if not node_of(pod)}
        self._assumed = {uid: node for uid, node in self._assumed.items() if uid in unseen}
        pending = [pod for pod in pods if _is_pending(pod) and uid_of(pod) not in self._assumed]
        if not pending:
            return Done()
        places = places_of(self._cache.list(NODE), pods, self._assumed)
        pacer = Pacer()
        refused: list[ApiError] = []
        for verdict in schedule(pending, places, self._check):
            if verdict.node:
                try:
                    await self._bind(verdict.pod, verdict.node)
                except ApiError as error:  # A webhook may refuse one binding; the other pods do not wait for it.
                    refused.append(error)
            else:
                await self._refuse(verdict.pod, verdict.message)
            await pacer.pause()
        if refused:
            raise refused[0]
        return Done()

    async def _bind(self, pod: Document, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await self._client.post_subresource(POD, name_of(pod), namespace_of(pod), "binding", body)
        except (NotFound, Conflict):
            return  # deleted, or bound by someone else; its event brings the next look
        except Forbidden as error:
            if is_namespace_ending(error):
                return
            raise
        self._assumed[uid_of(pod)] = node
        note = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}"
        self._recorder.event(pod, "Normal", "Scheduled", note, action="Binding")

    async def _refuse(self, pod: Document, message: str) -> None:
        wanted: Document = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
        }
        current = find(conditions_of(pod), "PodScheduled")
        if current is not None and all(current.get(name) == value for name, value in wanted.items()):
            return
        same = current is not None and current.get("status") == "False"
        wanted["lastTransitionTime"] = (current or {}).get("lastTransitionTime") if same else format_time(self._now())
        if generation_of(pod):
            wanted["observedGeneration"] = generation_of(pod)
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [wanted]}}
        try:
            await self._client.patch(
                POD, name_of(pod), namespace_of(pod), patch, type="strategic", subresource="status"
            )
        except NotFound:
            return
        note = message if len(message) <= _NOTE or message == NO_NODES else f"{message[: _NOTE - 4]} ..."
        self._recorder.event(pod, "Warning", "FailedScheduling", note, action="Scheduling")


def _everything(obj: Document) -> Iterable[Key]:  # noqa: ARG001 - as every mapper
    return (_ALL,)


def _is_pending(pod: Document) -> bool:
    spec = spec_of(pod)
    return (
        not node_of(pod)
        and not spec.get("schedulingGates")
        and deletion_timestamp_of(pod) is None
        and not is_terminal(pod)
        and (spec.get("schedulerName") or REPORTER) == REPORTER
    )
