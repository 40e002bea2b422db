# SPDX-License-Identifier: Apache-2.0
"""Devices, claims for them, and storage drivers, which schedulers of others read.

Nothing of this process acts on them. Of their fields only types, finalizers and what may not change are checked.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.strategies.formats import finalizer_errors, immutable_errors
from trainwright.controller.local.apiserver.strategies.parts import ensure, ensure_filled, entries, part
from trainwright.controller.local.apiserver.strategies.strategy import BuiltInStrategy, WithSpec, null_if_empty


class _KeptSpec(BuiltInStrategy):
    """A kind without a status whose deletion answers with the object."""

    returns_deleted = True
    counted: bool = False
    """Whether the kind counts changes of its spec."""
    kept: tuple[str, ...] = ()
    """Fields of the document that an update may not change."""

    def prepare_create(self, document: Document) -> None:
        if self.counted:
            document["metadata"]["generation"] = 1

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        if self.counted and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate(self, document: Document) -> list[DocumentError]:
        return finalizer_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:  # noqa: ARG002
        found = finalizer_errors(new)
        for field in self.kept:
            found += immutable_errors(new.get(field), old.get(field), field)
        return found


class DeviceClassStrategy(_KeptSpec):
    """DeviceClasses."""

    struct = "resource/v1.DeviceClass"
    counted = True


class ResourceClaimStrategy(WithSpec):
    """ResourceClaims."""

    struct = "resource/v1.ResourceClaim"
    returns_deleted = True
    has_generation = False

    def fill_in(self, document: Document) -> None:
        _default_requests(document["spec"])

    def prepare_create(self, document: Document) -> None:
        super().prepare_create(document)
        document["status"] = {}

    def validate(self, document: Document) -> list[DocumentError]:
        return finalizer_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = finalizer_errors(new)
        return found if subresource == "status" else found + immutable_errors(new["spec"], old["spec"], "spec")


class ResourceClaimTemplateStrategy(_KeptSpec):
    """ResourceClaimTemplates."""

    struct = "resource/v1.ResourceClaimTemplate"
    kept = ("spec",)

    def fill_in(self, document: Document) -> None:
        _default_requests(document["spec"]["spec"])


def _default_requests(spec: Document) -> None:
    for request in _requests(spec):
        ensure_filled(request, "allocationMode", "ExactCount")
        if request["allocationMode"] == "ExactCount":
            ensure_filled(request, "count", 1)


def _requests(spec: Document) -> Iterator[Document]:
    for request in entries(part(spec, "devices"), "requests"):
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from entries(request, "firstAvailable")


class ResourceSliceStrategy(_KeptSpec):
    """ResourceSlices. A taint of a device says since when.

    Args:
        now: the clock.
    """

    struct = "resource/v1.ResourceSlice"
    counted = True

    def __init__(self, now: Callable[[], datetime] = times.wall_clock) -> None:
        self._now = now

    def fill_in(self, document: Document) -> None:
        for device in entries(document["spec"], "devices"):
            for taint in entries(device, "taints"):
                ensure(taint, "timeAdded", times.format_time(self._now()))

    def selectable(self, document: Document) -> dict[str, str]:
        spec = part(document, "spec")
        found = {f"spec.{field}": spec.get(field) or "" for field in ("nodeName", "driver")}
        return {**super().selectable(document), **found}


class CSIDriverStrategy(_KeptSpec):
    """CSIDrivers."""

    struct = "storage/v1.CSIDriver"
    unconditional_update = False

    def fill_in(self, document: Document) -> None:
        spec = document["spec"]
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            ensure(spec, field, False)
        ensure(spec, "attachRequired", True)
        ensure(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
        ensure_filled(spec, "volumeLifecycleModes", ["Persistent"])

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        # No generation at creation, as on the real server.
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


class CSINodeStrategy(_KeptSpec):
    """CSINodes."""

    struct = "storage/v1.CSINode"
    unconditional_update = False

    def prepare_create(self, document: Document) -> None:
        null_if_empty(document["spec"], "drivers")

    def prepare_update(self, new: Document, old: Document, subresource: str) -> None:  # noqa: ARG002
        null_if_empty(new["spec"], "drivers")


class CSIStorageCapacityStrategy(_KeptSpec):
    """CSIStorageCapacities."""

    struct = "storage/v1.CSIStorageCapacity"
    unconditional_update = False
    returns_deleted = False
    kept = ("nodeTopology", "storageClassName")


class VolumeAttachmentStrategy(WithSpec):
    """VolumeAttachments."""

    struct = "storage/v1.VolumeAttachment"
    unconditional_update = False
    returns_deleted = True
    has_generation = False

    def prepare_create(self, document: Document) -> None:
        super().prepare_create(document)
        document["status"] = {"attached": False}

    def validate(self, document: Document) -> list[DocumentError]:
        return finalizer_errors(document)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = finalizer_errors(new)
        return found if subresource == "status" else found + immutable_errors(new["spec"], old["spec"], "spec")
