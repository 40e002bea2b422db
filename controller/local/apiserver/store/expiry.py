# SPDX-License-Identifier: Apache-2.0
"""Events live for an hour, as with the real server's `--event-ttl`."""

from datetime import datetime, timedelta

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.store import ObjectStore

EVENT_LIFETIME = timedelta(hours=1)
_COLLECTION = "events"


def expire_events(store: ObjectStore, now: datetime) -> int:
    """Delete the events that nobody has written for their lifetime; returns how many."""
    old = [one for one in store.collection(_COLLECTION).listed() if now - _written(one.document()) >= EVENT_LIFETIME]
    for one in old:
        store.delete(_COLLECTION, one)
    return len(old)


def _written(event: Document) -> datetime:
    """When an event was written last. A series of events is written again for each further one."""
    series = event.get("series") or {}
    found = (
        event["metadata"]["creationTimestamp"],
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(times.parse(moment) for moment in found if moment)
