# SPDX-License-Identifier: Apache-2.0
"""The files of a volume that shows ConfigMaps, Secrets, fields of the pod or tokens: path, bytes and mode of each.

Pure, apart from the lookups that it awaits. Errors have the texts of the kubelet.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol

from trainwright.api.objects import Document, namespace_of
from trainwright.controller.local.node.document.environment import Lookup
from trainwright.controller.local.node.document.fields import FieldReferenceError, field_value, resource_value

FILE_MODE = 0o644
TOKEN_SECONDS = 3600


class VolumeError(Exception):
    """The volume cannot be set up yet. The message says why."""


class Token(NamedTuple):
    """A token of a service account."""

    text: str
    renew_after: float
    """Seconds of its life until it should be renewed."""


class ProjectionSources(Lookup, Protocol):
    """What volumes are made from."""

    async def token(self, pod: Document, *, audience: str, seconds: int) -> Token:
        """A token of the pod's service account, bound to the pod. Raises VolumeError."""
        ...

    async def claim_folder(self, namespace: str, claim: str) -> str:
        """The folder of a bound PersistentVolumeClaim. Raises VolumeError."""
        ...

    def allocatable(self) -> Mapping[str, str]:
        """What the node has to give to pods."""
        ...


class ProjectedFile(NamedTuple):
    """One file of a volume."""

    data: bytes
    mode: int


@dataclass(slots=True)
class Payload:
    """The files by path in the volume, and when tokens among them are due."""

    files: dict[str, ProjectedFile]
    renew_after: float | None = None

    def add(self, path: str, data: bytes, mode: int) -> None:
        """Add one file. Raises VolumeError for a path that leaves the volume."""
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
            raise VolumeError(f"invalid path {path!r}: it must be relative and without '..'")
        self.files[str(PurePosixPath(path))] = ProjectedFile(data, mode)


async def payload_of(pod: Document, volume: Document, sources: ProjectionSources) -> Payload | None:
    """The files of a volume; None if the volume is of another kind.

    Raises VolumeError for a missing object or key that is not optional.
    """
    payload = Payload({})
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        source = volume.get(kind)
        if source is not None:
            mode = _mode(source.get("defaultMode"), FILE_MODE)
            parts = source.get("sources") or () if kind == "projected" else ({kind: source},)
            for part in parts:
                await _add_source(payload, pod, part, sources, mode)
            return payload
    return None


async def _add_source(payload: Payload, pod: Document, source: Document, sources: ProjectionSources, mode: int) -> None:
    namespace = namespace_of(pod)
    if (reference := source.get("configMap")) is not None:
        name = reference.get("name") or ""
        found = await sources.config_map(namespace, name)
        files = {} if found is None else _config_map_files(found)
        _add_items(payload, files, reference, mode, None if found else f'configmap "{name}" not found', "config")
    elif (reference := source.get("secret")) is not None:
        # A volume names the Secret `secretName`, a projected source `name`.
        name = reference.get("secretName") or reference.get("name") or ""
        found = await sources.secret(namespace, name)
        files = {} if found is None else {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}
        _add_items(payload, files, reference, mode, None if found else f'secret "{name}" not found', "secret")
    elif (reference := source.get("downwardAPI")) is not None:
        _add_fields(payload, pod, reference, sources, mode)
    elif (reference := source.get("serviceAccountToken")) is not None:
        token = await sources.token(
            pod,
            audience=reference.get("audience") or "",
            seconds=int(reference.get("expirationSeconds") or TOKEN_SECONDS),
        )
        payload.add(reference["path"], token.text.encode(), mode)
        due = token.renew_after
        payload.renew_after = due if payload.renew_after is None else min(due, payload.renew_after)
    else:
        raise VolumeError(f"a projected volume cannot hold {', '.join(source)} on this node")


def _config_map_files(found: Document) -> dict[str, bytes]:
    files = {key: str(value).encode() for key, value in (found.get("data") or {}).items()}
    files.update({key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()})
    return files


def _add_items(
    payload: Payload, files: Mapping[str, bytes], reference: Document, mode: int, missing: str | None, kind: str
) -> None:
    """Add the selected keys of an object, all of them without `items`."""
    optional = bool(reference.get("optional"))
    if missing:
        if not optional:
            raise VolumeError(missing)
        return
    items = reference.get("items")
    if not items:
        for key, data in sorted(files.items()):
            payload.add(key, data, mode)
        return
    for item in items:
        key = item["key"]
        if key in files:
            payload.add(item["path"], files[key], _mode(item.get("mode"), mode))
        elif not optional:
            raise VolumeError(f"references non-existent {kind} key: {key}")


def _add_fields(payload: Payload, pod: Document, reference: Document, sources: ProjectionSources, mode: int) -> None:
    for item in reference.get("items") or ():
        try:
            if field := item.get("fieldRef"):
                text = field_value(pod, field.get("fieldPath", ""))
            else:
                text = resource_value(pod, item.get("resourceFieldRef") or {}, None, sources.allocatable())
        except FieldReferenceError as error:
            raise VolumeError(str(error)) from None
        payload.add(item["path"], text.encode(), _mode(item.get("mode"), mode))


def _mode(value: int | None, default: int) -> int:
    return default if value is None else int(value)
