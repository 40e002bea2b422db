# SPDX-License-Identifier: Apache-2.0
"""PriorityClasses and LimitRanges."""

import uuid

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies import amounts
from trainwright.controller.local.apiserver.strategies.parts import ensure, entries, part
from trainwright.controller.local.apiserver.strategies.strategy import Strategy


class PriorityClassStrategy(Strategy):
    """PriorityClasses."""

    def default(self, document: Document) -> None:
        ensure(document, "preemptionPolicy", "PreemptLowerPriority")
        ensure(document, "value", 0)

    def prepare_create(self, document: Document) -> None:
        document["metadata"]["generation"] = 1


class LimitRangeStrategy(Strategy):
    """LimitRanges."""

    create_on_update = True

    def default(self, document: Document) -> None:
        ensure(document, "spec", {})
        ensure(document["spec"], "limits", None)
        for item in entries(document["spec"], "limits"):
            if item.get("type") == "Container":
                _default_container_limits(item)
            for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                amounts.round_up(item, field)

    def prepare_create(self, document: Document) -> None:
        metadata = document["metadata"]
        if not metadata.get("name") and not metadata.get("generateName"):
            metadata["name"] = str(uuid.uuid4())


def _default_container_limits(item: Document) -> None:
    limits = {**part(item, "max"), **part(item, "default")}
    requests = {**part(item, "min"), **limits, **part(item, "defaultRequest")}
    for field, value in (("default", limits), ("defaultRequest", requests)):
        if value:
            item[field] = value
