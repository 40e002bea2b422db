# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscalers of autoscaling/v1 and v2, which are the same objects; v2 is stored.

v1 has one metric. Others, and the behavior, go into annotations there: writing back what was read loses nothing.
"""

import json

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part

_CPU = "targetCPUUtilizationPercentage"
_KEPT = "autoscaling.alpha.kubernetes.io/"
_IN_V2 = {"spec": ("metrics", "behavior"), "status": ("currentMetrics", "conditions")}


def to_v2(scaler: Document) -> Document:
    """The stored form of an object of v1."""
    made = {**scaler, "apiVersion": "autoscaling/v2", "metadata": dict(scaler.get("metadata") or {})}
    annotations = dict(part(made["metadata"], "annotations"))
    for field, names in _IN_V2.items():
        inner = dict(part(scaler, field))
        percent = inner.pop(_CPU, None)
        inner.pop("currentCPUUtilizationPercentage", None)
        for name in names:
            if (text := annotations.pop(_KEPT + name, None)) is not None:
                inner[name] = json.loads(text)
        if percent is not None:
            target = {"type": "Utilization", "averageUtilization": percent}
            metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
            inner["metrics"] = [metric, *entries(inner, "metrics")]
        if inner or field in scaler:
            made[field] = inner
    return _annotated(made, annotations)


def to_v1(scaler: Document) -> Document:
    """A stored object in the form of v1."""
    made = {**scaler, "apiVersion": "autoscaling/v1", "metadata": dict(scaler.get("metadata") or {})}
    annotations = dict(part(made["metadata"], "annotations"))
    for field, names in _IN_V2.items():
        inner = dict(part(scaler, field))
        percents = [one for one in entries(inner, "metrics") if _percent(one) is not None]
        if percents:
            inner[_CPU] = _percent(percents[0])
            inner["metrics"] = [one for one in entries(inner, "metrics") if one is not percents[0]]
        for name in names:
            value = inner.pop(name, None)
            if value:
                annotations[_KEPT + name] = json.dumps(value, separators=(",", ":"))
        if inner or field in scaler:
            made[field] = inner
    return _annotated(made, annotations)


def _percent(metric: Document) -> int | None:
    """The share of requested CPU that a metric wants."""
    resource = part(metric, "resource")
    found: int | None = part(resource, "target").get("averageUtilization") if resource.get("name") == "cpu" else None
    return found


def _annotated(made: Document, annotations: dict[str, str]) -> Document:
    if annotations:
        made["metadata"]["annotations"] = annotations
    else:
        made["metadata"].pop("annotations", None)
    return made
