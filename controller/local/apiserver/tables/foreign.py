# SPDX-License-Identifier: Apache-2.0
"""The rows of kinds that only controllers from elsewhere act on."""

from datetime import datetime
from typing import Any

from trainwright.controller.local.apiserver.tables.cells import Cells, age_cells, name_of
from trainwright.controller.local.apiserver.tables.reading import Document, pairs, part, parts, selector_text, text

_UNSET = "<unset>"


def _age(document: Document, now: datetime) -> Any:
    return age_cells(document, now)[-1]


def _containers(document: Document) -> list[str]:
    containers = parts(part(document, "spec", "template", "spec"), "containers")
    return [",".join(text(one, key) for one in containers) for key in ("name", "image")]


def replicas_cells(document: Document, now: datetime) -> Cells:
    """The cells of a ReplicationController or ReplicaSet."""
    spec, status = part(document, "spec"), part(document, "status")
    selector = part(spec, "selector")
    is_set = document.get("kind") == "ReplicaSet"
    counts = [spec.get("replicas") or 0, status.get("replicas") or 0, status.get("readyReplicas") or 0]
    shown = selector_text(selector) if is_set else pairs(selector)
    return [name_of(document), *counts, _age(document, now), *_containers(document), shown]


def stateful_set_cells(document: Document, now: datetime) -> Cells:
    """The cells of a StatefulSet."""
    ready = part(document, "status").get("readyReplicas") or 0
    shown = f"{ready}/{part(document, 'spec').get('replicas') or 0}"
    return [name_of(document), shown, _age(document, now), *_containers(document)]


def budget_cells(budget: Document, now: datetime) -> Cells:
    """The cells of a PodDisruptionBudget."""
    spec = part(budget, "spec")
    shares = ["N/A" if spec.get(name) is None else str(spec[name]) for name in ("minAvailable", "maxUnavailable")]
    return [name_of(budget), *shares, part(budget, "status").get("disruptionsAllowed") or 0, _age(budget, now)]


def csi_driver_cells(driver: Document, now: datetime) -> Cells:
    """The cells of a CSIDriver."""
    spec = part(driver, "spec")
    flags = [bool(spec.get(name, name == "attachRequired")) for name in ("attachRequired", "podInfoOnMount")]
    requests = spec.get("tokenRequests")
    audiences = _UNSET if requests is None else ",".join(text(one, "audience") for one in requests)
    modes = ",".join(parts(spec, "volumeLifecycleModes")) or "<none>"
    capacity, republish = (bool(spec.get(name)) for name in ("storageCapacity", "requiresRepublish"))
    return [name_of(driver), *flags, capacity, audiences, republish, modes, _age(driver, now)]


def csi_node_cells(node: Document, now: datetime) -> Cells:
    """The cells of a CSINode."""
    return [name_of(node), len(parts(part(node, "spec"), "drivers")), _age(node, now)]


def csi_capacity_cells(capacity: Document, _: datetime) -> Cells:
    """The cells of a CSIStorageCapacity."""
    amount = capacity.get("capacity")
    return [name_of(capacity), text(capacity, "storageClassName"), _UNSET if amount is None else str(amount)]


def attachment_cells(attachment: Document, now: datetime) -> Cells:
    """The cells of a VolumeAttachment."""
    spec, attached = part(attachment, "spec"), bool(part(attachment, "status").get("attached"))
    volume = text(part(spec, "source"), "persistentVolumeName")
    names = [text(spec, "attacher"), volume, text(spec, "nodeName")]
    return [name_of(attachment), *names, attached, _age(attachment, now)]


def resource_claim_cells(claim: Document, now: datetime) -> Cells:
    """The cells of a ResourceClaim."""
    status = part(claim, "status")
    deleted = bool(part(claim, "metadata").get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    return [name_of(claim), ",".join(states), _age(claim, now)]


def resource_slice_cells(one: Document, now: datetime) -> Cells:
    """The cells of a ResourceSlice."""
    spec = part(one, "spec")
    names = [text(spec, "nodeName"), text(spec, "driver"), text(part(spec, "pool"), "name")]
    return [name_of(one), *names, _age(one, now)]
