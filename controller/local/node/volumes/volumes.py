# SPDX-License-Identifier: Apache-2.0
"""The volumes of one pod: a folder of this machine for each, and the mounts of its containers."""

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trainwright.api.objects import Document, name_of, namespace_of
from trainwright.api.times import running_on
from trainwright.controller.local.node.document.environment import ConfigError, SourceUnavailableError
from trainwright.controller.local.node.document.expansion import expand
from trainwright.controller.local.node.document.pods import spec_of
from trainwright.controller.local.node.files import lies_below, refuse_link
from trainwright.controller.local.node.volumes import atomic
from trainwright.controller.local.node.volumes.projections import ProjectionSources, Token, VolumeError, payload_of
from trainwright.controller.runtime import finished_in_thread

_EMPTY_DIR_MODE, _IN_MEMORY_MODE = 0o777, 0o1777
_UNREADABLE = re.compile(r"[^-a-z0-9]")


class Mount(NamedTuple):
    """What a container sees at a path."""

    path: str
    """Absolute, inside the container."""
    source: str
    """A folder or file of this machine."""
    read_only: bool


class Volumes:
    """The volumes of one pod. `prepare` makes them, `refresh` follows changes of what they show."""

    def __init__(self, folder: Path, sources: ProjectionSources, *, clock: Callable[[], float] = running_on) -> None:
        """`folder`: where the pod's own volumes lie. `clock`: seconds that only grow, also while the machine sleeps."""
        self._folder = folder
        self._clock = clock
        self._sources = KeptTokens(sources, clock)
        self.folders: dict[str, str] = {}
        """Folder or file by name of the volume."""
        self._written: set[str] = set()
        """Names of the volumes whose files the node writes; containers only read them."""
        self._due: float | None = None

    @property
    def renew_after(self) -> float | None:
        """Seconds until the first token should be renewed; None: there is none."""
        return None if self._due is None else self._due - self._clock()

    async def prepare(self, pod: Document) -> None:
        """Make all volumes. Raises VolumeError for the first that cannot be made yet."""
        await self.refresh(pod)
        for volume in spec_of(pod).get("volumes") or ():
            name = volume["name"]
            if name in self.folders:
                continue
            try:
                self.folders[name] = await self._locate(pod, volume)
            except (VolumeError, SourceUnavailableError, OSError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error

    async def refresh(self, pod: Document) -> bool:
        """Write the files of ConfigMaps, Secrets, fields and tokens anew where they changed.

        Returns whether something changed. Raises VolumeError; files that are there stay as they are then.
        """
        changed = False
        due: list[float] = []
        for volume in spec_of(pod).get("volumes") or ():
            name = volume["name"]
            try:
                payload = await payload_of(pod, volume, self._sources)
                if payload is None:
                    continue
                folder = self._folder / _file_name(name)
                # Nobody removes the files of a pod while a thread still writes some.
                changed |= await finished_in_thread(functools.partial(atomic.write, folder, payload.files))
            except (VolumeError, SourceUnavailableError, OSError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
            self.folders[name] = str(folder)
            self._written.add(name)
            due += [] if payload.renew_after is None else [payload.renew_after]
        self._due = self._clock() + min(due) if due else None
        return changed

    async def _locate(self, pod: Document, volume: Document) -> str:
        """The folder of a volume that is not made of files."""
        if (source := volume.get("emptyDir")) is not None:
            return self._own_folder(volume["name"], source.get("medium") or "")
        if (source := volume.get("hostPath")) is not None:
            return _host_path(source)
        if (source := volume.get("persistentVolumeClaim")) is not None:
            return await self._sources.claim_folder(namespace_of(pod), source["claimName"])
        if volume.get("ephemeral") is not None:
            return await self._sources.claim_folder(namespace_of(pod), f"{name_of(pod)}-{volume['name']}")
        kinds = ", ".join(key for key in volume if key != "name")
        raise VolumeError(f"volumes of kind {kinds or 'none'} are not supported on this node")

    def _own_folder(self, name: str, medium: str) -> str:
        folder = self._folder / _file_name(name)
        if not folder.is_symlink() and not folder.exists():
            folder.mkdir(parents=True)
            # As a kubelet does, for containers with other users; those of this machine do not reach it.
            folder.chmod(_IN_MEMORY_MODE if medium == "Memory" else _EMPTY_DIR_MODE)
        refuse_link(folder)
        return str(folder)

    def mounts_of(self, container: Document, variables: Mapping[str, str]) -> list[Mount]:
        """The mounts of a container, in order. `variables` are those of the container, for `subPathExpr`.

        Raises ConfigError for a path that leaves its volume.
        """
        mounts = []
        for mount in container.get("volumeMounts") or ():
            source = self.folders.get(mount["name"])
            if source is None:
                raise ConfigError(f'volume "{mount["name"]}" is not mounted')
            if below := mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables):
                source = _below(source, below, mount["name"])
            read_only = bool(mount.get("readOnly")) or mount["name"] in self._written
            mounts.append(Mount(str(PurePosixPath("/", mount["mountPath"])), source, read_only))
        return mounts


def _below(source: str, path: str, name: str) -> str:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise ConfigError(f'subPath {path!r} of volume "{name}" must be relative and without ".."')
    target = Path(source, path)
    if not lies_below(str(target), source):
        # A container that can write to the volume may have put a link there.
        raise ConfigError(f'subPath {path!r} of volume "{name}" leads out of the volume')
    if not target.exists():
        target.mkdir(parents=True)
    return str(target)


def _host_path(source: Document) -> str:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    if kind.startswith("Directory") and not path.is_dir():
        raise VolumeError("hostPath type check failed: " + f"{path} is not a directory")
    if kind.startswith("File") and not path.is_file():
        raise VolumeError("hostPath type check failed: " + f"{path} is not a file")
    return str(path)


def _file_name(name: str) -> str:
    """Names of volumes are DNS labels; anything else would come from a server without validation."""
    return _UNREADABLE.sub("_", name)


class KeptTokens:
    """The sources of one pod, with its tokens kept; a `ProjectionSources`."""

    def __init__(self, sources: ProjectionSources, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that only grow, also while the machine sleeps: tokens expire meanwhile."""
        self._sources = sources
        self._clock = clock
        self._kept: dict[tuple[str, int], tuple[str, float]] = {}
        """Text and time to renew, by audience and lifetime."""

    async def config_map(self, namespace: str, name: str) -> Document | None:
        """One ConfigMap."""
        return await self._sources.config_map(namespace, name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        """One Secret."""
        return await self._sources.secret(namespace, name)

    async def token(self, pod: Document, *, audience: str, seconds: int) -> Token:
        """The kept token, or a new one if it is due."""
        text, due = self._kept.get((audience, seconds), ("", 0.0))
        now = self._clock()
        if not text or now >= due:
            fresh = await self._sources.token(pod, audience=audience, seconds=seconds)
            text, due = fresh.text, now + fresh.renew_after
            self._kept[audience, seconds] = (text, due)
        return Token(text, due - now)

    async def claim_folder(self, namespace: str, claim: str) -> str:
        """The folder of a claim."""
        return await self._sources.claim_folder(namespace, claim)

    def allocatable(self) -> Mapping[str, str]:
        """What the node has to give to pods."""
        return self._sources.allocatable()
