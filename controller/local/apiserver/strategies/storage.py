# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes, PersistentVolumeClaims and StorageClasses."""

from collections.abc import Callable
from datetime import datetime

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies import amounts
from trainwright.controller.local.apiserver.strategies.parts import ensure, ensure_filled, part
from trainwright.controller.local.apiserver.strategies.pods.defaults import default_claim_spec
from trainwright.controller.local.apiserver.strategies.strategy import Strategy, WithSpec

_SNAPSHOTS = "snapshot.storage.k8s.io"


class PersistentVolumeStrategy(WithSpec):
    """PersistentVolumes. The status says when the phase changed.

    Args:
        now: the clock.
    """

    has_generation = False

    def __init__(self, now: Callable[[], datetime] = times.wall_clock) -> None:
        self._now = now

    def default(self, document: Document) -> None:
        ensure(document, "spec", {})
        ensure(document, "status", {})
        ensure_filled(document["status"], "phase", "Pending")
        spec = document["spec"]
        ensure_filled(spec, "persistentVolumeReclaimPolicy", "Retain")
        ensure(spec, "volumeMode", "Filesystem")
        if spec.get("hostPath") is not None:
            ensure(spec["hostPath"], "type", "")
        amounts.round_up(spec, "capacity")

    def prepare_create(self, document: Document) -> None:
        document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": times.format_time(self._now())}

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            return
        status, before = new["status"], part(old, "status")
        said, known = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if said is None and known is not None:
                status["lastPhaseTransitionTime"] = known
        elif said is None or said == known:
            status["lastPhaseTransitionTime"] = times.format_time(self._now())


class PersistentVolumeClaimStrategy(WithSpec):
    """PersistentVolumeClaims."""

    has_generation = False

    def default(self, document: Document) -> None:
        ensure(document, "spec", {})
        ensure(document, "status", {})
        ensure_filled(document["status"], "phase", "Pending")
        default_claim_spec(document["spec"])
        for field in ("capacity", "allocatedResources"):
            amounts.round_up(document["status"], field)

    def prepare_create(self, document: Document) -> None:
        # The phase that the default set is lost here; it comes back when the stored object is read.
        document["status"] = {"phase": "Pending"}
        _normalise_sources(document["spec"], None)

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if not subresource:
            _normalise_sources(new["spec"], part(old, "spec"))


def _normalise_sources(spec: Document, before: Document | None) -> None:
    """Keep `dataSource` and `dataSourceRef` alike. An old source that is neither claim nor snapshot is dropped."""
    in_use = before is not None and (before.get("dataSource") or before.get("dataSourceRef"))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if not in_use and reference is None and source is not None:
        group = source.get("apiGroup") or ""
        if (group, source.get("kind")) not in (("", "PersistentVolumeClaim"), (_SNAPSHOTS, "VolumeSnapshot")):
            del spec["dataSource"]
            source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = _reference(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = _reference(reference)


def _reference(source: Document) -> Document:
    return {field: source[field] for field in ("apiGroup", "kind", "name") if source.get(field) is not None}


class StorageClassStrategy(Strategy):
    """StorageClasses."""

    def default(self, document: Document) -> None:
        ensure(document, "reclaimPolicy", "Delete")
        ensure(document, "volumeBindingMode", "Immediate")
