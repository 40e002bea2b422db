# SPDX-License-Identifier: Apache-2.0
"""Gives each PersistentVolumeClaim a folder of its own; reconciles claims, and the volumes that outlive them.

Folders are made and removed in threads. Known differences to a cluster: sizes and access modes are not enforced, and a
volume that somebody made beforehand is used only by the claim that names it.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/
"""

import asyncio
import logging
import shutil
from contextlib import suppress
from pathlib import Path

from trainwright.api.objects import (
    Document,
    Key,
    annotations_of,
    deletion_timestamp_of,
    finalizers_of,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.controller.local.controllers.base import ControllerBase, Plan, PlannedWrite, released
from trainwright.controller.local.controllers.objects import CLAIM, POD, VOLUME, is_terminal
from trainwright.controller.runtime import AlreadyExists, Backoff, ConfigurationError, Manager, NotFound, Result

log = logging.getLogger(__name__)

PROVISIONER = "trainwright.local/folder"
_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
"""Finalizers so that nothing vanishes under a pod. Kubernetes' API server adds them. Ours may run alone, where nothing
would remove them, and does not; so the controller adds the claim's, as Kubernetes' own does where it is missing."""


def volume_name(claim: Document) -> str:
    """The name of the volume of a claim: the one that it names, or the one that is made for it."""
    return str(spec_of(claim).get("volumeName") or f"pvc-{uid_of(claim)}")


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


def plan_for_claim(claim: Document, volume: Document) -> Plan:
    """Bind a claim to its volume, protect it while pods use it, and then show that it is bound."""
    body: Document = {}
    metadata: Document = {}
    if spec_of(claim).get("volumeName") != name_of(volume):
        body["spec"] = {"volumeName": name_of(volume)}
    if not _BOUND.items() <= annotations_of(claim).items():
        metadata["annotations"] = _BOUND
    if PROTECTION not in finalizers_of(claim):
        metadata["finalizers"] = [*finalizers_of(claim), PROTECTION]
    body |= {"metadata": metadata} if metadata else {}
    if body:
        return Plan(writes=[PlannedWrite(verb="patch", kind=CLAIM, obj=claim, body=body)])
    amounts = {name: spec_of(volume).get(name) for name in ("accessModes", "capacity")}
    return Plan(status={**status_of(claim), "phase": "Bound", **amounts})


def plan_for_volume(volume: Document, claim: Document | None) -> Plan:
    """Show that a volume that was made here is bound or released; delete it when its claim is gone.

    `claim`: the one that has the name of its claim.
    """
    spec = spec_of(volume)
    if claim is not None and (spec.get("claimRef") or {}).get("uid") == uid_of(claim):
        return Plan(status={**status_of(volume), "phase": "Bound"})
    if spec.get("persistentVolumeReclaimPolicy") != "Delete":
        return Plan(status={**status_of(volume), "phase": "Released"})
    writes = [PlannedWrite(verb="delete", kind=VOLUME, obj=volume)]
    if VOLUME_PROTECTION in finalizers_of(volume):
        writes.append(released(VOLUME, volume, VOLUME_PROTECTION))
    return Plan(writes=writes)


def claims_of(pod: Document) -> list[str]:
    claims = [volume.get("persistentVolumeClaim") or {} for volume in spec_of(pod).get("volumes") or ()]
    return [str(claim["claimName"]) for claim in claims if claim.get("claimName")]


class ClaimController(ControllerBase):
    def declare(self, manager: Manager) -> None:
        """Declare what it watches. Raises ConfigurationError if the settings have no folder for volumes."""
        if self.settings.volumes is None:
            raise ConfigurationError("volume claims need a folder: set the settings' `volumes`, or leave `claims` out")
        self._root = self.settings.volumes
        manager.controller("claims").for_(CLAIM).watches(
            POD, lambda pod: [Key(namespace_of(pod), name) for name in claims_of(pod)]
        ).reconcile(self.reconcile)
        manager.controller("claims-volumes").for_(VOLUME).watches(
            CLAIM, lambda claim: (Key("", volume_name(claim)),)
        ).reconcile(self.reclaim)

    async def reconcile(self, key: Key) -> Result:
        """Bind one claim, or let it go."""
        claim = self.cache.get(CLAIM, key.name, key.namespace)
        if claim is None:
            return None
        if deletion_timestamp_of(claim) is not None:
            if PROTECTION in finalizers_of(claim) and not self._is_used(claim):
                await self.make([released(CLAIM, claim, PROTECTION)])
            return None
        volume = self.cache.get(VOLUME, volume_name(claim))
        if volume is None:
            if spec_of(claim).get("volumeName") not in (None, "", f"pvc-{uid_of(claim)}"):
                return Backoff(f"volume {volume_name(claim)} does not exist")
            await asyncio.to_thread(folder_of(claim, self._root).mkdir, parents=True, exist_ok=True)
            volume = volume_of(claim, self._root)
            await self.make([PlannedWrite(verb="create", kind=VOLUME, obj=volume, tolerate=AlreadyExists)])
        if await self.carry_out(plan_for_claim(claim, volume), CLAIM, claim):
            bound = self.cache.get(CLAIM, key.name, key.namespace) or claim
            await self.carry_out(plan_for_claim(bound, volume), CLAIM, bound)
        return None

    def _is_used(self, claim: Document) -> bool:
        pods = self.cache.list(POD, namespace_of(claim))
        return any(name_of(claim) in claims_of(pod) and not is_terminal(pod) for pod in pods)

    async def reclaim(self, key: Key) -> Result:
        """Show that one volume is bound; delete it with its folder when its claim is gone."""
        volume = self.cache.get(VOLUME, key.name)
        if volume is None or annotations_of(volume).get(_PROVISIONED) != PROVISIONER:
            return None
        reference = spec_of(volume).get("claimRef") or {}
        name, namespace = str(reference.get("name")), str(reference.get("namespace"))
        claim = self.cache.get(CLAIM, name, namespace)
        if claim is None:
            # The cache may be behind, and what follows cannot be taken back.
            with suppress(NotFound):
                claim = await self.client.get(CLAIM, name, namespace)
        plan = plan_for_volume(volume, claim)
        if plan.writes:
            folder = folder_in(self._root, volume)
            if folder is not None:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            else:
                log.warning("volume %s: its path is not a folder of %s and is kept", key.name, self._root)
        await self.carry_out(plan, VOLUME, volume)
        return None
