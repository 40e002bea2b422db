# SPDX-License-Identifier: Apache-2.0
"""The volumes of one pod: a folder of this machine for each, its files, and the mounts of its containers."""

import errno
import functools
import os
import secrets
import stat
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from trainwright.api.objects import Document, name_of, namespace_of, spec_of
from trainwright.api.times import running_on
from trainwright.controller.local.node.document import (
    ClusterSources,
    ConfigError,
    Token,
    VolumeError,
    data_of,
    expand,
    field_value,
    resource_value,
)
from trainwright.controller.local.node.files import remove, remove_tree, write_fresh
from trainwright.controller.runtime.tasks import finished_in_thread

# ---------------------------------------------------------------------- files of ConfigMaps, Secrets, fields and tokens
#
# Errors have the texts of the kubelet.

FILE_MODE = 0o644
TOKEN_SECONDS = 3600
TokenSource: TypeAlias = Callable[[str, int], Awaitable[Token]]
"""Gives a token for an audience and seconds. Raises VolumeError."""


class ProjectedFile(NamedTuple):
    data: bytes
    mode: int


class Payload:
    """The files of a volume by path, and when tokens among them are due."""

    def __init__(self, pod: Document, mode: int, sources: ClusterSources, token: TokenSource) -> None:
        """`mode` is that of files that have none of their own."""
        self.files: dict[str, ProjectedFile] = {}
        self.renew_after: float | None = None
        self._pod, self._mode, self._sources, self._token = pod, mode, sources, token

    def _add(self, path: str, data: bytes, mode: int | None = None) -> None:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
            raise VolumeError(f"invalid path {path!r}: it must be relative and without '..'")
        self.files[str(PurePosixPath(path))] = ProjectedFile(data, self._mode if mode is None else int(mode))

    async def add_source(self, source: Document) -> None:
        """Add the files of one source. Raises VolumeError."""
        for kind in ("configMap", "secret"):
            if (reference := source.get(kind)) is not None:
                await self._add_object(kind, reference)
                return
        if (reference := source.get("downwardAPI")) is not None:
            self._add_fields(reference)
        elif (reference := source.get("serviceAccountToken")) is not None:
            seconds = int(reference.get("expirationSeconds") or TOKEN_SECONDS)
            found = await self._token(reference.get("audience") or "", seconds)
            self._add(reference["path"], found.text.encode())
            due = found.renew_after
            self.renew_after = due if self.renew_after is None else min(due, self.renew_after)
        else:
            raise VolumeError(f"a projected volume cannot hold {', '.join(source)} on this node")

    async def _add_object(self, kind: str, reference: Document) -> None:
        """Add the selected keys of an object, all of them without `items`."""
        # A volume names the Secret `secretName`, a projected source `name`.
        name = reference.get("secretName") or reference.get("name") or ""
        data = await data_of(kind, namespace_of(self._pod), name, self._sources, binary=True)
        if data is None:
            if not reference.get("optional"):
                raise VolumeError(f'{kind.lower()} "{name}" not found')
            return
        for item in reference.get("items") or [{"key": key, "path": key} for key in sorted(data)]:
            key = item["key"]
            if key in data:
                self._add(item["path"], data[key], item.get("mode"))
            elif not reference.get("optional"):
                shown = "config" if kind == "configMap" else kind
                raise VolumeError(f"references non-existent {shown} key: {key}")

    def _add_fields(self, reference: Document) -> None:
        for item in reference.get("items") or ():
            if field := item.get("fieldRef"):
                text = field_value(self._pod, field.get("fieldPath", ""))
            else:
                resource = item.get("resourceFieldRef") or {}
                text = resource_value(self._pod, resource, None, self._sources.allocatable())
            self._add(item["path"], text.encode(), item.get("mode"))


async def payload_of(pod: Document, volume: Document, sources: ClusterSources, token: TokenSource) -> Payload | None:
    """The files of a volume; None if the volume is of another kind.

    Raises VolumeError for a missing object or key that is not optional.
    """
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if (source := volume.get(kind)) is not None:
            mode = source.get("defaultMode")
            payload = Payload(pod, FILE_MODE if mode is None else int(mode), sources, token)
            for part in source.get("sources") or () if kind == "projected" else ({kind: source},):
                await payload.add_source(part)
            return payload
    return None


DATA = "..data"


def write(folder: Path, files: Mapping[str, ProjectedFile]) -> None:
    """Make a volume hold exactly these files, all at once: readers see the old ones or the new ones. Raises OSError.

    As the kubelet does it: the files lie in a new hidden folder, the link `..data` points to it and is replaced by a
    rename, and the visible names are links through `..data`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new, fresh = folder / f"..{secrets.token_hex(6)}", folder / f"..{secrets.token_hex(6)}"
    new.mkdir(mode=0o755)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_fresh(target, file.data)  # closed: a secret must not be readable before its mode is set
        target.chmod(file.mode)
    fresh.symlink_to(new.name)
    fresh.replace(folder / DATA)
    names = {path.split("/", 1)[0] for path in files}
    for entry in folder.iterdir():
        if entry.name not in {*names, new.name, DATA}:
            remove(entry)
    for name in names:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{DATA}/{name}")


# ---------------------------------------------------------------------- TMPDIR
#
# Python's multiprocessing, and with it the workers of data loaders, makes sockets in TMPDIR, and the path of a socket
# is limited to 108 bytes. A folder inside the state folder would be too long for many users. So it lies in /tmp, under
# a name that follows from the pod's uid, by which a later run of the cluster can remove it, too. It goes with the pod's
# last process.

SHORT = Path("/tmp")  # noqa: S108 - the name is random, and the folder is the user's alone


def temporary_of(uid: str) -> Path:
    """The folder for temporary files of a pod."""
    top = SHORT if os.access(SHORT, os.W_OK) else Path(tempfile.gettempdir())
    return top / f"tw-{uid.replace('-', '')[:16]}"


def make_temporary(uid: str) -> Path:
    """Make the folder for temporary files of a pod. Raises OSError, also where another user has such a folder."""
    folder = temporary_of(uid)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_ours(folder):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    return folder


def remove_temporary(uid: str) -> None:
    folder = temporary_of(uid)
    if _is_ours(folder):
        with suppress(OSError):
            remove_tree(folder)


def _is_ours(folder: Path) -> bool:
    with suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return False


# ---------------------------------------------------------------------- volumes

_EMPTY_DIR_MODE, _IN_MEMORY_MODE = 0o777, 0o1777


class Mount(NamedTuple):
    """What a container sees at a path."""

    path: str
    """Absolute, inside the container."""
    source: str
    """A folder or file of this machine."""
    read_only: bool


class Volumes:
    """The volumes of one pod. `prepare` makes them, `refresh` follows changes of what they show."""

    def __init__(self, folder: Path, sources: ClusterSources, *, clock: Callable[[], float] = running_on) -> None:
        """`folder`: where the pod's own volumes lie. `clock`: seconds that only grow, also while the machine sleeps."""
        self._folder = folder
        self._clock = clock
        self._sources = sources
        self._tokens: dict[tuple[str, int], tuple[str, float]] = {}
        """Text and time to renew, by audience and lifetime."""
        self.folders: dict[str, str] = {}
        """Folder or file by name of the volume."""
        self._written: dict[str, Mapping[str, ProjectedFile]] = {}
        """The volumes whose files the node writes, and containers only read."""
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
            except (VolumeError, ConfigError, OSError) as error:
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
                payload = await payload_of(pod, volume, self._sources, functools.partial(self._token, pod))
                if payload is None:
                    continue
                folder = self._folder / name
                if payload.files != self._written.get(name):
                    # Nobody removes the files of a pod while a thread still writes some.
                    await finished_in_thread(functools.partial(write, folder, payload.files))
                    self._written[name], changed = payload.files, True
            except (VolumeError, ConfigError, OSError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
            self.folders[name] = str(folder)
            due += [] if payload.renew_after is None else [payload.renew_after]
        self._due = self._clock() + min(due) if due else None
        return changed

    async def _token(self, pod: Document, audience: str, seconds: int) -> Token:
        """The kept token, or a new one if it is due."""
        text, due = self._tokens.get((audience, seconds), ("", 0.0))
        now = self._clock()
        if not text or now >= due:
            fresh = await self._sources.token(pod, audience=audience, seconds=seconds)
            text, due = fresh.text, now + fresh.renew_after
            self._tokens[audience, seconds] = (text, due)
        return Token(text, due - now)

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
        folder = self._folder / name
        if not folder.exists():
            folder.mkdir(parents=True)
            # As a kubelet does, for containers with other users; those of this machine do not reach it.
            folder.chmod(_IN_MEMORY_MODE if medium == "Memory" else _EMPTY_DIR_MODE)
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
    if not target.resolve().is_relative_to(Path(source).resolve()):
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
