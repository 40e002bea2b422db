# SPDX-License-Identifier: Apache-2.0
"""The volumes of one pod: a folder of this machine for each, its files, and the mounts of its containers."""

import errno
import functools
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trainwright.api import times
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount
from trainwright.api.objects import Document, labels_of, name_of, namespace_of, spec_of, uid_of
from trainwright.api.times import Now, running_on
from trainwright.controller.local.node.document import (
    ConfigError,
    FieldReferenceError,
    Sources,
    SourceUnavailableError,
    Token,
    VolumeError,
    data_of,
    expand,
    field_value,
    resource_value,
)
from trainwright.controller.local.node.files import lies_below, remove, remove_tree, write_fresh
from trainwright.controller.runtime import Client, KubernetesError, NotFound, finished_in_thread

# ---------------------------------------------------------------------- files of ConfigMaps, Secrets, fields and tokens
#
# Errors have the texts of the kubelet.

FILE_MODE = 0o644
TOKEN_SECONDS = 3600


class ProjectedFile(NamedTuple):
    """One file of a volume."""

    data: bytes
    mode: int


@dataclass(slots=True)
class Payload:
    """The files by path in the volume, and when tokens among them are due."""

    files: dict[str, ProjectedFile]
    mode: int
    """Of files that have none of their own."""
    renew_after: float | None = None

    def add(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Add one file. Raises VolumeError for a path that leaves the volume."""
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
            raise VolumeError(f"invalid path {path!r}: it must be relative and without '..'")
        self.files[str(PurePosixPath(path))] = ProjectedFile(data, _mode(mode, self.mode))


async def payload_of(
    pod: Document, volume: Document, sources: Sources, token: Callable[[str, int], Awaitable[Token]]
) -> Payload | None:
    """The files of a volume; None if the volume is of another kind. `token` gives one for an audience and seconds.

    Raises VolumeError for a missing object or key that is not optional.
    """
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        source = volume.get(kind)
        if source is not None:
            payload = Payload({}, _mode(source.get("defaultMode"), FILE_MODE))
            parts = source.get("sources") or () if kind == "projected" else ({kind: source},)
            for part in parts:
                await _add_source(payload, pod, part, sources, token)
            return payload
    return None


async def _add_source(
    payload: Payload, pod: Document, source: Document, sources: Sources, token: Callable[[str, int], Awaitable[Token]]
) -> None:
    for kind in ("configMap", "secret"):
        if (reference := source.get(kind)) is not None:
            # A volume names the Secret `secretName`, a projected source `name`.
            name = reference.get("secretName") or reference.get("name") or ""
            data = await data_of(kind, namespace_of(pod), name, sources, binary=True)
            if data is not None:
                _add_items(payload, data, reference, "config" if kind == "configMap" else kind)
            elif not reference.get("optional"):
                raise VolumeError(f'{kind.lower()} "{name}" not found')
            return
    if (reference := source.get("downwardAPI")) is not None:
        _add_fields(payload, pod, reference, sources)
    elif (reference := source.get("serviceAccountToken")) is not None:
        found = await token(reference.get("audience") or "", int(reference.get("expirationSeconds") or TOKEN_SECONDS))
        payload.add(reference["path"], found.text.encode())
        due = found.renew_after
        payload.renew_after = due if payload.renew_after is None else min(due, payload.renew_after)
    else:
        raise VolumeError(f"a projected volume cannot hold {', '.join(source)} on this node")


def _add_items(payload: Payload, files: Mapping[str, bytes], reference: Document, kind: str) -> None:
    """Add the selected keys of an object, all of them without `items`."""
    items = reference.get("items")
    if not items:
        for key, data in sorted(files.items()):
            payload.add(key, data)
    for item in items or ():
        key = item["key"]
        if key in files:
            payload.add(item["path"], files[key], item.get("mode"))
        elif not reference.get("optional"):
            raise VolumeError(f"references non-existent {kind} key: {key}")


def _add_fields(payload: Payload, pod: Document, reference: Document, sources: Sources) -> None:
    for item in reference.get("items") or ():
        try:
            if field := item.get("fieldRef"):
                text = field_value(pod, field.get("fieldPath", ""))
            else:
                text = resource_value(pod, item.get("resourceFieldRef") or {}, None, sources.allocatable())
        except FieldReferenceError as error:
            raise VolumeError(str(error)) from None
        payload.add(item["path"], text.encode(), item.get("mode"))


def _mode(value: int | None, default: int) -> int:
    return default if value is None else int(value)


DATA = "..data"


def write(folder: Path, files: Mapping[str, ProjectedFile]) -> None:
    """Make a volume hold exactly these files, all at once: readers see the old ones or the new ones. Raises OSError.

    As the kubelet does it: the files lie in a new hidden folder, the link `..data` points to it and is replaced by a
    rename, and the visible names are links through `..data`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        # All that is not of the volume is removed below.
        raise OSError(f"{folder} was replaced by a link to {folder.readlink()}")
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
    """Remove the folder for temporary files of a pod, if there is one."""
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

    def __init__(self, folder: Path, sources: Sources, *, clock: Callable[[], float] = running_on) -> None:
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
                payload = await payload_of(pod, volume, self._sources, functools.partial(self._token, pod))
                if payload is None:
                    continue
                folder = self._folder / _file_name(name)
                if payload.files != self._written.get(name):
                    # Nobody removes the files of a pod while a thread still writes some.
                    await finished_in_thread(functools.partial(write, folder, payload.files))
                    self._written[name], changed = payload.files, True
            except (VolumeError, SourceUnavailableError, OSError) as error:
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
        folder = self._folder / _file_name(name)
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


# ---------------------------------------------------------------------- sources

PERSISTENT_VOLUME = Resource(
    group="", version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False
)
RENEW_PART = 0.8
"""A token is renewed when this part of its life is over."""


class ClusterSources:
    """Reads through the client, without a cache: a pod may be bound the moment after its ConfigMap was created.

    Failures of the API server are raised as SourceUnavailableError or VolumeError: pods wait until it answers.
    """

    def __init__(self, client: Client, *, allocatable: Callable[[], Mapping[str, str]], now: Now) -> None:
        self._client = client
        self._allocatable = allocatable
        self._now = now

    async def config_map(self, namespace: str, name: str) -> Document | None:
        """One ConfigMap; None if it does not exist."""
        return await self._get(ConfigMap.RESOURCE, namespace, name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        """One Secret; None if it does not exist."""
        return await self._get(Secret.RESOURCE, namespace, name)

    async def token(self, pod: Document, *, audience: str, seconds: int) -> Token:
        """A token of the pod's service account from the TokenRequest API. Raises VolumeError."""
        account = spec_of(pod).get("serviceAccountName") or "default"
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        body: Document = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": reference,
            },
        }
        try:
            answer = await self._client.post_subresource(
                ServiceAccount.RESOURCE, account, namespace_of(pod), "token", body
            )
        except KubernetesError as error:
            raise VolumeError(f"failed to fetch token: {error}") from error
        status = answer["status"]
        life = (times.parse(status["expirationTimestamp"]) - self._now()).total_seconds()
        return Token(status["token"], max(1.0, life * RENEW_PART))

    async def claim_folder(self, namespace: str, claim: str) -> str:
        """The folder of the volume that a claim is bound to. Raises VolumeError."""
        found = await self._get(PersistentVolumeClaim.RESOURCE, namespace, claim)
        if found is None:
            raise VolumeError(f'persistentvolumeclaim "{claim}" not found')
        volume_name = spec_of(found).get("volumeName")
        if not volume_name:
            raise VolumeError(f'persistentvolumeclaim "{claim}" is not bound')
        volume = await self._get(PERSISTENT_VOLUME, "", volume_name)
        if volume is None:
            raise VolumeError(f'persistentvolume "{volume_name}" not found')
        spec = spec_of(volume)
        path = (spec.get("hostPath") or spec.get("local") or {}).get("path")
        if not path:
            raise VolumeError(f'persistentvolume "{volume_name}" is not a folder of this machine')
        return str(path)

    async def job_set(self, pod: Document) -> Document | None:
        """The JobSet that a pod belongs to, by its label; None if there is none."""
        name = labels_of(pod).get(LABEL_JOBSET)
        return await self._get(JobSet.RESOURCE, namespace_of(pod), name) if name else None

    def allocatable(self) -> Mapping[str, str]:
        """What the node has to give to pods."""
        return self._allocatable()

    async def _get(self, kind: Resource, namespace: str, name: str) -> Document | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None
        except KubernetesError as error:
            raise SourceUnavailableError(str(error)) from error
