# SPDX-License-Identifier: Apache-2.0
"""Containers that a kubelet ended: since a probe failed, or since it evicted their pod."""

import re
from datetime import datetime, timedelta
from typing import Any

from trainwright.api.objects import Document, dig
from trainwright.api.times import moment
from trainwright.controller.trainer.failures.first import EVICTED
from trainwright.controller.trainer.why.catalogue import cause, of_pods
from trainwright.controller.trainer.why.job.containers import FailedRun
from trainwright.controller.trainer.why.words import quoted, rank_of
from trainwright.plugins.contract import Cause, Picture, holds, since_of
from trainwright.plugins.contract.picture import event_time

_FAILED = re.compile(r"(Liveness|Startup) probe failed: ")
"""The event `Unhealthy` of a probe that ends its container; a readiness probe does not."""
_KILLED = re.compile(r"(?:Container (\S+) failed (?:liveness|startup) probe|Stopping container (\S+)$)")
"""The event `Killing` of a kubelet; the second one is of a container that does not start again."""
_PROBES = ("livenessProbe", "startupProbe")
_WHOLE_SECONDS = timedelta(seconds=2)
"""Events and the ends of containers are written in whole seconds."""
_LOW = re.compile(r"node was low on resource: ([\w./-]+)")
_USED = re.compile(r"Container (\S+) was using (\S+?),")


def probe_of_run(picture: Picture, failure: FailedRun) -> str:
    """The probe for which the run was stopped, in words; empty if it ended by itself, or with its pod."""
    if failure.stopped or not any(failure.container.spec.get(kind) for kind in _PROBES):
        return ""
    began, ended = (moment(failure.state.get(field)) for field in ("startedAt", "finishedAt"))
    return probe_that_failed(picture, failure.pod, failure.container.name, began, ended)


def probe_that_failed(
    picture: Picture, pod: Document, container: str, began: datetime | None, ended: datetime | None
) -> str:
    """The probe for which a run of a container of the pod was stopped, in words.

    The pod needs no more than its uid, since events outlive their pods. `began`: when the run began, if that is known.
    """
    if ended is None:
        return ""
    events = [
        (at, event)
        for event in picture.events(pod)
        if (at := moment(event_time(event))) is not None
        and at <= ended + _WHOLE_SECONDS
        and (began is None or at >= began - _WHOLE_SECONDS)
    ]
    killed = [at for at, event in events if container in _killed_by(event)]
    for at, event in events:
        failed = _FAILED.match(str(event.get("message", ""))) if event.get("reason") == "Unhealthy" else None
        where = str(dig(event, "involvedObject.fieldPath") or "")
        if failed is None or (where and not where.endswith(f"{{{container}}}")):
            continue
        # The last failure of a probe and the kill for it are one moment.
        if any(abs(at - kill) <= _WHOLE_SECONDS for kill in killed):
            answer = str(event["message"])[failed.end() :].strip()
            probe = f"its {failed[1].lower()} probe failed"
            return f"{probe}: {quoted(answer, 120)}" if answer else probe
    return ""


def _killed_by(event: Document) -> tuple[str | None, ...]:
    found = _KILLED.match(str(event.get("message", ""))) if event.get("reason") == "Killing" else None
    return found.groups() if found is not None else ()


def eviction(picture: Picture, pod: Document) -> Cause | None:
    """That a kubelet evicted the pod, and what for."""
    status = pod.get("status") or {}
    if status.get("reason") != EVICTED:
        return None
    node = f"node {dig(pod, 'spec.nodeName')}" if dig(pod, "spec.nodeName") else "its node"
    text = _evicted(picture, node, rank_of(picture, pod), str(status.get("message", "")))
    return of_pods("EvictedByNode", text, pod, since=since_of(holds(pod, "DisruptionTarget")))


def recorded_eviction(picture: Picture, who: str, message: str, **more: Any) -> Cause:
    """The same of a pod that is gone, from what the record of failures keeps of it."""
    return cause("EvictedByNode", _evicted(picture, "its node", who, message), **more)


def _evicted(picture: Picture, node: str, who: str, message: str) -> str:
    """Which node evicted which rank, and what for. `message` is that of the pod's status."""
    low, used = _LOW.search(message), _USED.search(message)
    if not low:
        return f"{node} evicted {who}: {quoted(message)}{made_again(picture)}"
    use = f", which used {used[2]}" if used else ""
    return f"{node} was low on {low[1].rstrip('.')} and evicted {who}{use}{made_again(picture)}; request what it needs"


def made_again(picture: Picture) -> str:
    """What becomes of a pod that the cluster ended, as the end of a sentence; empty once the job has failed."""
    return "" if holds(picture.job, "Failed") else "; the pod is made again"
