# SPDX-License-Identifier: Apache-2.0
"""After a crash: processes that are left are killed, and their pods have failed.

A guard ends its program when the cluster dies, so usually nothing is left. If guards were killed too, the record of
each process names what may still run: number and start time, so that a reused number is left alone. What a process
started carries the name of its record in its environment.
"""

import json
import logging
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.node.document.pods import status_of
from trainwright.controller.local.node.files import read_end, remove
from trainwright.controller.local.node.process import processes
from trainwright.controller.local.node.process.containers import KILLED
from trainwright.controller.local.node.volumes.temporary import TEMPORARY, remove_temporary

log = logging.getLogger(__name__)

_RECORD_BYTES = 64 * 1024
REASON = "NodeLost"
MESSAGE = "The local cluster ended while the pod was running."


def end_survivors(pods: Path) -> frozenset[str]:
    """Kill what earlier runs of the cluster left running, and remove temporary files.

    Returns the uids of the pods that had started.
    """
    if left := processes.kill_marked(str(pods)):
        log.warning("processes %s of an earlier run of the cluster do not end", left)
    uids = frozenset(folder.name for folder in pods.iterdir() if folder.is_dir())
    for uid in uids:
        remove_temporary(pods / uid / TEMPORARY)
    for record in pods.glob("*/containers/*/*.json"):
        try:
            written = json.loads(read_end(record, _RECORD_BYTES))
            killed = processes.kill_group(int(written["pid"]), str(written["start_time"]))
        except (ValueError, KeyError, TypeError, OSError) as error:
            log.warning("%s is not a record of a process: %s", record, error)
        else:
            if killed:
                log.warning("killed process %s, which an earlier run of the cluster left behind", written["pid"])
        # The folders are those of pods, which may have made anything of them.
        with suppress(OSError):
            remove(record)
    return uids


def has_started(pod: Document) -> bool:
    """Whether the status of a pod shows that a container of it has run."""
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
