# SPDX-License-Identifier: Apache-2.0
"""Containers that fail again and again. Between two failures such a container runs, and so does its job, it seems."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from trainwright.api.objects import Document, deletion_timestamp_of, dig
from trainwright.api.times import parse

LOOP = 2
"""A container that was restarted so often, and ended with an error each time, fails again and again."""
CALM_SECONDS = 600.0
"""Until it has run for so long: then a kubelet, too, forgets the failures before."""


def loops(pod: Document, now: datetime) -> bool:
    """Whether a container of the pod fails again and again."""
    return any(seconds > 0 for seconds in _seconds_of(pod, now))


def calm_in(pods: Iterable[Document], now: datetime) -> float | None:
    """Seconds until no container of the pods counts as failing again and again; None: none does now."""
    return max((seconds for pod in pods for seconds in _seconds_of(pod, now) if seconds > 0), default=None)


def _seconds_of(pod: Document, now: datetime) -> Iterator[float]:
    """Of each container that was restarted after failures: how long it counts as failing again and again."""
    status = pod.get("status") or {}
    if deletion_timestamp_of(pod) is not None or status.get("phase") in ("Succeeded", "Failed"):
        return
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state, last = one.get("state") or {}, dig(one, "lastState.terminated") or {}
        ended = state.get("terminated")
        if (one.get("restartCount") or 0) < LOOP or not last.get("exitCode"):
            continue
        if ended is not None and not ended.get("exitCode"):
            continue
        running = state.get("running")
        yield CALM_SECONDS - (_age(running.get("startedAt"), now) if running is not None else 0.0)


def _age(started: str | None, now: datetime) -> float:
    try:
        return (now - parse(started)).total_seconds() if started else 0.0
    except ValueError:  # no API server stores such a time
        return 0.0
