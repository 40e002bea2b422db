# SPDX-License-Identifier: Apache-2.0
# Generated from the schemas in api/ by `make generate`. Edit those, not this file.
# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105
# fmt: off
"""The structs of events.k8s.io/v1; import them from the package."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from trainwright.api.base import Merge, Object, OrEmpty, Resource, Struct
from trainwright.api.kubernetes.core.v1 import models as core_v1
from trainwright.api.kubernetes.meta.v1 import models as meta_v1


class EventSeries(Struct, kw_only=True):
    """EventSeries of events.k8s.io/v1."""

    count: int
    last_observed_time: str = field(name="lastObservedTime")


class Event(Object, kw_only=True):
    """Event of events.k8s.io/v1."""

    RESOURCE: ClassVar[Resource] = Resource(
        group="events.k8s.io",
        version="v1",
        kind="Event",
        plural="events",
        namespaced=True,
    )

    MERGE: ClassVar[Mapping[str, Merge]] = {
        "regarding": Merge("atomic"),
        "related": Merge("atomic"),
    }

    action: str | None = None
    api_version: str | None = field(name="apiVersion", default=None)
    deprecated_count: int | None = field(name="deprecatedCount", default=None)
    deprecated_first_timestamp: str | None = field(name="deprecatedFirstTimestamp", default=None)
    deprecated_last_timestamp: str | None = field(name="deprecatedLastTimestamp", default=None)
    deprecated_source: core_v1.EventSource | None = field(name="deprecatedSource", default=None)
    event_time: str | None = field(name="eventTime", default=None)
    kind: str | None = None
    metadata: meta_v1.ObjectMeta | None = None
    note: str | None = None
    reason: str | None = None
    regarding: core_v1.ObjectReference | None = None
    related: core_v1.ObjectReference | None = None
    reporting_controller: str | None = field(name="reportingController", default=None)
    reporting_instance: str | None = field(name="reportingInstance", default=None)
    series: EventSeries | None = None
    type: str | None = None

    deprecated_source_or_empty = OrEmpty(core_v1.EventSource)
    metadata_or_empty = OrEmpty(meta_v1.ObjectMeta)
    regarding_or_empty = OrEmpty(core_v1.ObjectReference)
    related_or_empty = OrEmpty(core_v1.ObjectReference)
    series_or_empty = OrEmpty(EventSeries)
