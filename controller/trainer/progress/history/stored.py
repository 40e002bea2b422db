# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap `<job>-progress` with the history of a TrainJob, for the manager, which writes it, and for every view.

A view reads the ConfigMap with the rights of its user, checks with `belongs` that it is the job's, and calls `read`:

    found = await client.get(ConfigMap, config_map_name(job.name), job.namespace)
    ring = read(found.data) if belongs(found, job) else None

`ring.points()` has the reports with their attempts; `series` has them by metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trainwright.api.objects import AnyObject, Document, labels_of, owners_of, uid_of
from trainwright.api.owners import owner_reference
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.progress.history.ring import Damaged, Ring

LABEL, LABEL_VALUE = "trainwright.dev/progress-history", "v1"
"""Marks the ConfigMaps that the manager made, so that no other one is ever written. Views may select by it."""
KEY = "history.json"
"""The key of the ring in `data`."""
PERCENTAGE = "progressPercentage"
"""The name of the percentage among the series; no metric of a training can hide it, see `series`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a series."""

    at: datetime
    value: float
    step: float | None
    attempt: int | None
    segment: int


def config_map_name(job: str) -> str:
    """The name of the ConfigMap of a TrainJob."""
    return f"{job}-progress"


def belongs(found: AnyObject, job: TrainJob) -> bool:
    """Whether the manager made this ConfigMap for this very job, and not for one of the same name before it."""
    own = any(owner.uid == uid_of(job) and owner.kind == TrainJob.RESOURCE.kind for owner in owners_of(found))
    return own and labels_of(found).get(LABEL) == LABEL_VALUE


def read(data: Mapping[str, str] | None) -> Ring:
    """The ring in the `data` of a ConfigMap. Raises Damaged."""
    text = (data or {}).get(KEY)
    if text is None:
        raise Damaged(f"key {KEY} is missing")
    return Ring.decode(text)


def series(ring: Ring) -> dict[str, list[Sample]]:
    """The samples of each metric, oldest first, and of the percentage under `PERCENTAGE`.

    A metric that has this name itself is left out.
    """
    found: dict[str, list[Sample]] = {PERCENTAGE: []}
    for point in ring.points():
        numbers = {name: number for name, number in point.metrics.items() if name != PERCENTAGE}
        if point.percentage is not None:
            numbers[PERCENTAGE] = float(point.percentage)
        for name, number in numbers.items():
            found.setdefault(name, []).append(Sample(point.at, number, point.step, point.attempt, point.segment))
    return found


def document_of(job: TrainJob, text: str) -> Document:
    """The ConfigMap to create. It goes away with the job, and its changes start no reconcile of the job."""
    reference = {**owner_reference(job, TrainJob.RESOURCE), "controller": False, "blockOwnerDeletion": False}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(job.name),
            "namespace": job.namespace,
            "labels": {LABEL: LABEL_VALUE},
            "ownerReferences": [reference],
        },
        "data": {KEY: text},
    }
