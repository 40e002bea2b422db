# SPDX-License-Identifier: Apache-2.0
"""Runs a case on a cluster, real or local, as its clients see it."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.kubelet.model import Case, Step
from tests.kubelet.normal import Normal
from trainwright.api.kubernetes.core.v1 import Pod, ServiceAccount
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.controller.runtime import Client, NotFound, Resource
from trainwright.controller.runtime.client.exec import PROTOCOLS
from trainwright.controller.runtime.client.transport import Request, WebSocket, object_path
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.runtime.testing.waiting import eventually

Document = dict[str, Any]
POD: Resource = Pod.RESOURCE
EVENT: Resource = Event.RESOURCE
SECONDS = 150.0
"""A kubelet brings a changed ConfigMap to its pods within some 90 s."""
QUIET_SECONDS = 1.0
"""The last event and the last write of a status may still be on their way."""
_CLOSE_STDIN = b"\xff\x00"
_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3


class Run:
    """One run of a case in a namespace of its own."""

    def __init__(self, client: Client, namespace: str, case: Case) -> None:
        self._client = client
        self._namespace = namespace
        self._case = case
        self._last: dict[str, Document] = {}
        """The pods as they were last seen."""

    async def run(self) -> list[Document]:
        """The answers, made comparable. Raises GaveUp if a wait is in vain, ApiError if an object is refused."""
        # Its controller makes it, which a machine under load delays; a pod is refused before.
        await eventually(self._has_account, bool, seconds=SECONDS, what=f"the account of {self._namespace}")
        for one in self._case.objects:
            await self._apply(one)
        for name, spec in self._case.pods.items():
            metadata = {"name": name, "namespace": self._namespace, "labels": {"case": "yes"}}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(spec)}
            self._last[name] = await self._client.create(body, kind=POD)
        found = [(step, await _VERBS[step.verb](self, step)) for step in self._case.steps]
        answers = [{"step": str(step), **answer} for step, answer in found if answer is not None]
        await asyncio.sleep(QUIET_SECONDS)
        # The last status of a pod that is gone hangs on the moment of the last look.
        left = {name: pod for name in self._case.pods if (pod := await self._pod(name))}
        last = {} if self._case.moving else left
        answers += [{"step": f"the status of {name}", "status": pod.get("status")} for name, pod in last.items()]
        answers.append({"step": "the events", "events": await self._events()})
        for name in left:
            with contextlib.suppress(NotFound):
                await self._client.delete(POD, name, self._namespace, grace_period=0)
        normal = Normal(self._namespace, self._last.values())
        return [normal.answer(answer) for answer in answers]

    async def _has_account(self) -> bool:
        try:
            await self._client.get(ServiceAccount.RESOURCE, "default", self._namespace)
        except NotFound:
            return False
        return True

    async def _pod(self, name: str) -> Document:
        """The pod; empty if it is gone, and then the last one is kept."""
        try:
            self._last[name] = await self._client.get(POD, name, self._namespace)
        except NotFound:
            return {}
        return self._last[name]

    async def _until(self, step: Step) -> None:
        async def look() -> Document:
            pod = await self._pod(step.pod)
            return {**pod, "events": await self._events()} if _wants_events(step.argument) else pod

        await eventually(look, _holds(step.argument), seconds=SECONDS, what=f"{self._case.name}: {step}")

    async def _log(self, step: Step) -> Document:
        query = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in step.argument.items()
        }
        request = Request("GET", object_path(POD, step.pod, self._namespace, "log"), query, timeout=SECONDS)
        try:
            return {"text": (await self._client.send(request)).body.decode(errors="backslashreplace")}
        except ApiError as error:
            return _refused(error)

    async def _exec(self, step: Step) -> Document:
        options = dict(step.options)
        stdin, tty = options.pop("stdin", None), options.pop("tty", False)
        query: dict[str, str | tuple[str, ...]] = {"command": tuple(step.argument), "stdout": "true", **options}
        query["tty" if tty else "stderr"] = "true"
        if stdin is not None:
            query["stdin"] = "true"
        request = Request("GET", object_path(POD, step.pod, self._namespace, "exec"), query)
        try:
            async with asyncio.timeout(SECONDS), self._client.connect(request, PROTOCOLS[:1], limit=2**22) as socket:
                if stdin is not None:
                    await socket.send(bytes([_STDIN]) + stdin.encode())
                    if not tty:
                        await socket.send(_CLOSE_STDIN)
                return await _exchange(socket)
        except ApiError as error:
            return _refused(error)

    async def _status(self, step: Step) -> Document:
        return {"status": (await self._pod(step.pod)).get("status")}

    async def _step_apply(self, step: Step) -> None:
        await self._apply(step.argument)

    async def _apply(self, document: Mapping[str, Any]) -> None:
        body = {**document, "metadata": {**document["metadata"], "namespace": self._namespace}}
        plural = document["kind"].lower() + "s"
        kind = Resource(group="", version="v1", kind=document["kind"], plural=plural, namespaced=True)
        await self._client.apply(body, kind=kind, field_manager="test")

    async def _delete(self, step: Step) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(
                POD, step.pod, self._namespace, grace_period=step.argument.get("gracePeriodSeconds")
            )

    async def _sleep(self, step: Step) -> None:
        await asyncio.sleep(step.argument)

    async def _events(self) -> list[Document]:
        return [
            {key: one.get(key) for key in ("type", "reason", "note")}
            for one in (await self._client.list(EVENT, self._namespace)).items
            if one["regarding"]["kind"] == "Pod"
        ]


_VERBS: dict[str, Callable[[Run, Step], Any]] = {
    "until": Run._until,
    "log": Run._log,
    "exec": Run._exec,
    "status": Run._status,
    "apply": Run._step_apply,
    "delete": Run._delete,
    "sleep": Run._sleep,
}


def _refused(error: ApiError) -> Document:
    return {"refused": {"code": error.status, "reason": error.reason, "message": str(error.message)}}


async def _exchange(socket: WebSocket) -> Document:
    """What a command writes, and how it ends."""
    outputs = {_STDOUT: bytearray(), _STDERR: bytearray()}
    while (message := await socket.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == _STATUS:
            ended = json.loads(data)
            texts = {"stdout": outputs[_STDOUT], "stderr": outputs[_STDERR]}
            return {
                **{name: bytes(text).decode(errors="backslashreplace") for name, text in texts.items()},
                "ended": {
                    key: ended[key] for key in ("status", "reason", "message", "details", "code") if key in ended
                },
            }
        outputs[channel] += data
    return {"ended": None}


def _wants_events(wanted: Any) -> bool:
    return isinstance(wanted, dict) and "event" in wanted


def _holds(wanted: Any) -> Callable[[Document], object]:
    """Whether a pod is as a step waits for."""

    def statuses(pod: Document) -> list[Document]:
        status = pod.get("status") or {}
        return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]

    def holds(pod: Document) -> object:
        status = pod.get("status") or {}
        held: object = status.get("phase") == wanted
        match wanted:
            case "gone":
                held = not pod
            case "over":
                held = status.get("phase") in ("Succeeded", "Failed")
            case "ready":
                held = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
            case {"event": reason}:
                # Events and the status are written apart.
                held = "startTime" in status or not pod["spec"].get("nodeName")
                held = held and any(one["reason"] == reason for one in pod["events"])
            case {"restarts": count}:
                held = any(one["restartCount"] >= count for one in statuses(pod))
            case {"running": name}:
                held = any(one["name"] == name and "running" in one["state"] for one in statuses(pod))
            case {"waiting": reason}:
                held = any((one["state"].get("waiting") or {}).get("reason") == reason for one in statuses(pod))
        return held

    return holds
