# SPDX-License-Identifier: Apache-2.0
"""The volume of a claim, and what binds the two: pure functions.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/
"""

from pathlib import Path

from trainwright.api.objects import (
    Document,
    annotations_of,
    finalizers_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
)
from trainwright.controller.local.workloads.documents import spec_of, status_of
from trainwright.controller.local.workloads.kinds import CLAIM, VOLUME

PROVISIONER = "trainwright.local/folder"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
"""Finalizers so that nothing vanishes under a pod. Kubernetes' API server adds them. Ours may run alone, where nothing
would remove them, and does not; so the controller adds the claim's, as Kubernetes' own does where it is missing."""


def volume_name(claim: Document) -> str:
    """The name of the volume that is made for a claim."""
    return f"pvc-{uid_of(claim)}"


def folder_of(claim: Document, root: Path) -> Path:
    """The folder of a claim. It has the names in it, so that people find their data."""
    return root / f"{namespace_of(claim)}-{name_of(claim)}-{uid_of(claim)}"


def folder_in(root: Path, volume: Document) -> Path | None:
    """The folder that goes with the volume; None if it is not one of the root's.

    The path comes from an object that any user may have changed: `root/..` has the root as its parent, too.
    """
    folder = Path((spec_of(volume).get("hostPath") or {}).get("path") or "")
    return folder if folder.parent == root and folder.name != ".." else None


def volume_of(claim: Document, root: Path) -> Document:
    """The volume for a claim."""
    spec = spec_of(claim)
    reference = {
        "apiVersion": CLAIM.api_version,
        "kind": CLAIM.kind,
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "resourceVersion": resource_version_of(claim),
    }
    return {
        "apiVersion": VOLUME.api_version,
        "kind": VOLUME.kind,
        "metadata": {"name": volume_name(claim), "annotations": {_PROVISIONED: PROVISIONER}},
        "spec": {
            "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": reference,
            "hostPath": {"path": str(folder_of(claim, root)), "type": "DirectoryOrCreate"},
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            **({"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}),
        },
    }


def binding(claim: Document, volume: Document) -> Document:
    """The merge patch that binds a claim to its volume and protects it while pods use it; empty if both is done."""
    patch: Document = {}
    metadata: Document = {}
    if spec_of(claim).get("volumeName") != name_of(volume):
        patch["spec"] = {"volumeName": name_of(volume)}
    if not _BOUND.items() <= annotations_of(claim).items():
        metadata["annotations"] = _BOUND
    if PROTECTION not in finalizers_of(claim):
        metadata["finalizers"] = [*finalizers_of(claim), PROTECTION]
    return {**patch, "metadata": metadata} if metadata else patch


def bound_status(claim: Document, volume: Document) -> Document:
    """The status of a claim that is bound."""
    spec = spec_of(volume)
    return {
        **status_of(claim),
        "phase": "Bound",
        "accessModes": spec.get("accessModes"),
        "capacity": spec.get("capacity"),
    }


def belongs_to(volume: Document, claim: Document | None) -> bool:
    """Whether a volume is the one of a claim."""
    reference = spec_of(volume).get("claimRef") or {}
    return claim is not None and reference.get("uid") == uid_of(claim)


def is_ours(volume: Document) -> bool:
    """Whether the volume was made here, so that it goes with its claim."""
    return annotations_of(volume).get(_PROVISIONED) == PROVISIONER


def uses(pod: Document, claim: str) -> bool:
    """Whether a pod mounts a claim of its namespace."""
    volumes = spec_of(pod).get("volumes") or ()
    return any((volume.get("persistentVolumeClaim") or {}).get("claimName") == claim for volume in volumes)
