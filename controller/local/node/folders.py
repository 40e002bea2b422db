# SPDX-License-Identifier: Apache-2.0
"""What pods leave on the disk: their folders, the logs of pods that are gone, and processes after a crash."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document, controller_of, name_of, namespace_of, status_of, uid_of
from trainwright.api.times import LOOK_SECONDS
from trainwright.controller.local.node.files import remove
from trainwright.controller.local.node.process import lowlevel
from trainwright.controller.local.node.process.supervision import KILLED
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.node.volumes import remove_temporary
from trainwright.controller.runtime import Client, Discovery, KubernetesError, NotFound

log = logging.getLogger(__name__)

# ---------------------------------------------------------------------- logs of pods that are gone
#
# Jobs and JobSets delete pods, and the words of a failure would go with them. So the node keeps the logs of a pod until
# the object at the top of its owners is deleted: of a training that is its TrainJob, which this package does not know.
# A pod without an owner takes its logs along. The folder of a pod's logs holds a file `pod.json`: the owner, and the
# pod as it was last.

RECORD = "pod.json"
_LEVELS = 8
"""Owners above a pod that are looked up: a Job, a JobSet, a TrainJob, and whoever makes those."""


@dataclass(frozen=True, slots=True)
class Top:
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EndedPod:
    top: Top
    document: Document
    """The pod as it was last: labels, annotations, spec and status."""
    folder: Path
    """Its logs: `<container>/<run>.log`; later files of a long one have a number at the end."""

    @property
    def gone(self) -> Document:
        """The same now that it is gone: it is not ending any more."""
        metadata = {name: value for name, value in self.document["metadata"].items() if name != "deletionTimestamp"}
        return {**self.document, "metadata": metadata}

    @property
    def has_nothing(self) -> bool:
        """No container has begun or failed to: there is neither a line nor an end to tell of."""
        phase = (self.document.get("status") or {}).get("phase") or "Pending"
        return phase == "Pending" and not any(True for _ in self.folder.glob("*/*.log*"))

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("*/*.log*") if path.is_file())


def ended_pods(logs: Path, top_uid: str = "") -> list[EndedPod]:
    """The pods whose logs lie in a folder of a node, of one top owner or of all; some may still be there. Blocks."""
    found = [one for record in logs.glob(f"*/{RECORD}") if (one := _read(record)) is not None]
    return [one for one in found if not top_uid or one.top.uid == top_uid]


def _read(record: Path) -> EndedPod | None:
    try:
        written = json.loads(record.read_bytes())
        return EndedPod(Top(**written["top"]), written["pod"], record.parent)
    except (OSError, ValueError, TypeError, KeyError):  # it goes just now, or somebody has changed it
        return None


def remove_logs(logs: Path, uid: str, pod: Document | None = None) -> None:
    """The pod is gone: remove its logs, unless it has begun and has an owner to keep them for. Blocks; raises OSError.

    `pod` is the pod as it was last; None: it is not known better than before.
    """
    if pod is not None:
        note_end(logs, pod)
    for folder in logs.glob(f"*_{uid}"):
        known = _read(folder / RECORD)
        if known is None or known.has_nothing:
            remove(folder)


def note_end(logs: Path, pod: Document) -> None:
    """Write how a pod ended beside its logs, if they are kept. Blocks; raises OSError."""
    for folder in logs.glob(f"*_{uid_of(pod)}"):
        known = _read(folder / RECORD)
        if known is not None:
            _write(folder, known.top, pod)


def _write(folder: Path, top: Top, pod: Document) -> None:
    metadata = {name: value for name, value in pod["metadata"].items() if name != "managedFields"}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f"{RECORD}.new"
    temporary.write_text(json.dumps({"top": asdict(top), "pod": {**pod, "metadata": metadata}}), encoding="utf-8")
    temporary.replace(folder / RECORD)


class EndedLogs:
    """Keeps the logs of the pods of one node. `exists` says whether a pod with a uid is still there."""

    def __init__(self, client: Client, logs: Path, exists: Callable[[str], bool]) -> None:
        self._client, self._logs, self._exists = client, logs, exists
        self._discovery = Discovery(client)
        self._changed = asyncio.Event()

    async def begin(self, pod: Document) -> None:
        """Note whom the pod belongs to, while its owners are there."""
        try:
            top = await self._top_of(pod)
            if top is not None:
                folder = self._logs / f"{namespace_of(pod)}_{name_of(pod)}_{uid_of(pod)}"
                await asyncio.to_thread(_write, folder, top, pod)
        except (KubernetesError, OSError) as error:
            log.warning("the logs of pod %s go with it, since its owner is not known: %s", name_of(pod), error)
        except Exception:
            # A task of the node: raised, it would end all pods.
            log.exception("the logs of pod %s go with it, since its owner is not known", name_of(pod))

    async def _top_of(self, pod: Document) -> Top | None:
        top: Top | None = None
        found: Any = pod
        for _ in range(_LEVELS):
            owner = controller_of(found)
            if owner is None:
                break
            top = Top(owner.api_version, owner.kind, namespace_of(pod), owner.name, owner.uid)
            try:
                found = await self._get(top)
            except NotFound:
                break
        return top

    async def _get(self, top: Top) -> Document:
        """The object. Raises NotFound, also for another one of that name."""
        try:
            resource = await self._discovery.resource(top.api_version, top.kind)
        except NotFound as error:
            # Its definition may be there in a moment, or come back: nothing is known of the object.
            raise KubernetesError(f"{top.kind} of {top.api_version} is not served") from error
        found: Document = await self._client.get(resource, top.name, top.namespace if resource.namespaced else "")
        if uid_of(found) != top.uid:
            raise NotFound(f"{top.kind} {top.name} is another one now", code=404, reason="NotFound")
        return found

    def find(self, namespace: str, name: str) -> Document | None:
        """A pod that is gone, as it was last. Blocks."""
        records = self._logs.glob(f"{namespace}_{name}_*/{RECORD}")
        found = [one for record in records if (one := _read(record)) is not None and name_of(one.document) == name]
        return max(found, key=lambda one: one.folder.stat().st_mtime).document if found else None

    def notice(self) -> None:
        """Pods are gone: look soon whether their owners are there."""
        self._changed.set()

    async def run(self) -> None:
        """Remove what nobody owns any more, now and again, until cancelled."""
        while True:
            try:
                await self.sweep()
            except (KubernetesError, OSError) as error:
                log.warning("logs of pods that are gone were not looked through: %s", error)
            except Exception:
                log.exception("logs of pods that are gone were not looked through")
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()

    async def sweep(self) -> None:
        kept = [
            one for one in await asyncio.to_thread(ended_pods, self._logs) if not self._exists(uid_of(one.document))
        ]
        known: dict[Top, bool] = {}
        for one in kept:
            if one.top not in known:
                known[one.top] = await self._is_there(one.top)
            if not known[one.top]:
                await asyncio.to_thread(remove, one.folder)

    async def _is_there(self, top: Top) -> bool:
        try:
            await self._get(top)
        except NotFound:
            return False
        except KubernetesError as error:
            log.info("%s %s is taken to be there: %s", top.kind, top.name, error)
        return True


# ---------------------------------------------------------------------- folders


def log_folder(root: Path, pod: Document, container: str) -> Path:
    """Where the logs of a container lie: `<namespace>_<pod>_<uid>/<container>`, as on any node."""
    return root / f"{namespace_of(pod)}_{name_of(pod)}_{uid_of(pod)}" / container


def remove_pod(settings: NodeSettings, uid: str, pod: Document | None = None) -> None:
    """Remove what a pod left: its folder, and its logs unless an owner keeps them. Blocks.

    `pod` is the pod as it was last, where that is known.
    """
    try:
        remove(settings.pods / uid)
        remove_logs(settings.logs, uid, pod)
    except OSError as error:
        log.warning("files of the pod with uid %s are left: %s", uid, error)
    except Exception:
        # Raised in a task of the node, it would end all pods.
        log.exception("files of the pod with uid %s are left", uid)


# ---------------------------------------------------------------------- after a crash
#
# A guard ends its program when the cluster dies, and the kernel ends the program of a guard that dies, so usually
# nothing is left. What a program started has the folder of its pod in its environment.

REASON = "NodeLost"
MESSAGE = "The local cluster ended while the pod was running."


def end_survivors(pods: Path) -> frozenset[str]:
    """Kill what earlier runs of the cluster left running, and remove temporary files.

    Returns the uids of the pods that had started.
    """
    if left := lowlevel.kill_marked(str(pods)):
        log.warning("processes %s of an earlier run of the cluster do not end", left)
    uids = frozenset(folder.name for folder in pods.iterdir() if folder.is_dir())
    for uid in uids:
        remove_temporary(uid)
    return uids


def has_started(pod: Document) -> bool:
    status = status_of(pod)
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return any("waiting" not in (one.get("state") or {"waiting": {}}) or one.get("lastState") for one in containers)


def lost_status(pod: Document, now: datetime) -> Document:
    """The status of a pod whose processes ended with the cluster: Failed, containers that ran with code 137.

    The pod was disrupted: rules of Jobs and JobSets must not take that for a failure of its own.
    """
    status = status_of(pod)
    document: Document = {"phase": "Failed", "reason": REASON, "message": MESSAGE}
    for kind in ("initContainerStatuses", "containerStatuses"):
        if listed := status.get(kind):
            document[kind] = [_lost_container(one, now) for one in listed]
    since = {"lastTransitionTime": times.format_time(now)}
    conditions: list[Document] = [
        {"type": kind, "status": "False", "reason": "PodFailed", **since} for kind in ("Ready", "ContainersReady")
    ]
    target = {"type": "DisruptionTarget", "status": "True", "reason": "NodeRestarted", "message": MESSAGE}
    conditions.append({**target, **since})
    return document | {"conditions": conditions}


def _lost_container(container: Document, now: datetime) -> Document:
    state = container.get("state") or {}
    if "terminated" in state:
        return container
    terminated: Document = {"exitCode": KILLED, "reason": REASON, "finishedAt": times.format_time(now)}
    if started := (state.get("running") or {}).get("startedAt"):
        terminated["startedAt"] = started
    if identity := container.get("containerID"):
        terminated["containerID"] = identity
    return {**container, "ready": False, "started": False, "state": {"terminated": terminated}}
