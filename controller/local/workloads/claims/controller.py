# SPDX-License-Identifier: Apache-2.0
"""Reconciles claims, and the volumes that outlive them. Folders are made and removed in threads."""

import asyncio
import logging
import shutil
from pathlib import Path

from trainwright.api.objects import Document, Key, deletion_timestamp_of, finalizers_of, name_of, namespace_of
from trainwright.api.rights import READ, WATCH, Rule
from trainwright.controller.local.workloads.claims.volumes import (
    PROTECTION,
    VOLUME_PROTECTION,
    belongs_to,
    binding,
    bound_status,
    folder_in,
    folder_of,
    is_ours,
    uses,
    volume_name,
    volume_of,
)
from trainwright.controller.local.workloads.documents import spec_of, status_of
from trainwright.controller.local.workloads.kinds import CLAIM, POD, VOLUME
from trainwright.controller.local.workloads.pods import is_terminal
from trainwright.controller.local.workloads.writes import remove_finalizer, write_status
from trainwright.controller.runtime import AlreadyExists, Backoff, Manager, NotFound, Result

log = logging.getLogger(__name__)

NAME = "claims"


class ClaimController:
    """Reconciles claims and volumes. The constructor declares its watches on the manager."""

    RULES = (
        Rule.on(CLAIM, *READ, "patch"),
        Rule.on(CLAIM, "patch", subresource="status"),
        Rule.on(VOLUME, *READ, "create", "delete", "patch"),
        Rule.on(VOLUME, "patch", subresource="status"),
        Rule.on(POD, *WATCH),
    )

    def __init__(self, manager: Manager, root: Path) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            root: folder in which each claim gets one.
        """
        self._client, self._cache, self._root = manager.client, manager.cache, root
        manager.controller(NAME).for_(CLAIM).watches(POD, _claims_of).reconcile(self.reconcile)
        manager.controller(f"{NAME}-volumes").for_(VOLUME).watches(CLAIM, self._volume_of).reconcile(self.reclaim)

    async def reconcile(self, key: Key) -> Result:
        """Bind one claim, or let it go."""
        claim = self._cache.get(CLAIM, key.name, key.namespace)
        if claim is None:
            return None
        if deletion_timestamp_of(claim) is not None:
            if PROTECTION in finalizers_of(claim) and not self._is_used(claim):
                await remove_finalizer(self._client, CLAIM, claim, PROTECTION)
            return None
        wanted = spec_of(claim).get("volumeName") or volume_name(claim)
        volume = self._cache.get(VOLUME, wanted)
        if volume is None:
            if wanted != volume_name(claim):
                return Backoff(f"volume {wanted} does not exist")
            volume = await self._make(claim)
        if patch := binding(claim, volume):
            claim = await self._client.patch(CLAIM, key.name, key.namespace, patch)
        await write_status(self._client, CLAIM, claim, bound_status(claim, volume))
        return None

    async def _make(self, claim: Document) -> Document:
        await asyncio.to_thread(folder_of(claim, self._root).mkdir, parents=True, exist_ok=True)
        try:
            return await self._client.create(volume_of(claim, self._root), kind=VOLUME)
        except AlreadyExists:
            return await self._client.get(VOLUME, volume_name(claim))

    def _is_used(self, claim: Document) -> bool:
        pods = self._cache.list(POD, namespace_of(claim))
        return any(uses(pod, name_of(claim)) and not is_terminal(pod) for pod in pods)

    async def reclaim(self, key: Key) -> Result:
        """Show that one volume is bound; delete it with its folder when its claim is gone."""
        volume = self._cache.get(VOLUME, key.name)
        if volume is None or not is_ours(volume):
            return None
        reference = spec_of(volume).get("claimRef") or {}
        claim = self._cache.get(CLAIM, str(reference.get("name")), str(reference.get("namespace")))
        if claim is None:
            # The cache may be behind, and what follows cannot be taken back.
            claim = await self._look_up(str(reference.get("name")), str(reference.get("namespace")))
        if belongs_to(volume, claim):
            await write_status(self._client, VOLUME, volume, {**status_of(volume), "phase": "Bound"})
            return None
        if spec_of(volume).get("persistentVolumeReclaimPolicy") != "Delete":
            await write_status(self._client, VOLUME, volume, {**status_of(volume), "phase": "Released"})
            return None
        await self._delete(volume)
        return None

    async def _look_up(self, name: str, namespace: str) -> Document | None:
        try:
            return await self._client.get(CLAIM, name, namespace)
        except NotFound:
            return None

    async def _delete(self, volume: Document) -> None:
        folder = folder_in(self._root, volume)
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        else:
            log.warning("volume %s: its path is not a folder of %s and is kept", name_of(volume), self._root)
        try:
            await self._client.delete(VOLUME, name_of(volume))
        except NotFound:
            return
        if VOLUME_PROTECTION in finalizers_of(volume):
            await remove_finalizer(self._client, VOLUME, volume, VOLUME_PROTECTION)

    def _volume_of(self, claim: Document) -> list[Key]:
        return [Key("", spec_of(claim).get("volumeName") or volume_name(claim))]


def _claims_of(pod: Document) -> list[Key]:
    names = [
        (volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in spec_of(pod).get("volumes") or ()
    ]
    return [Key(namespace_of(pod), str(name)) for name in names if name]
