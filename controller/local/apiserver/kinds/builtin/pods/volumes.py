# SPDX-License-Identifier: Apache-2.0
"""Errors of volumes.

The sources that this cluster mounts are checked in full. Those of storage vendors are checked for being the only one.
"""

from collections.abc import Callable

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.claims import claim_template_errors
from trainwright.controller.local.apiserver.kinds.builtin.formats import Errors, file_path_errors, name_errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.kinds.builtin.pods.environment import (
    field_reference_errors,
    resource_reference_errors,
)
from trainwright.controller.local.apiserver.schema.errors import duplicate, forbidden, invalid, not_supported, required

Sources = dict[str, Document]
"""Valid volumes of a pod by name."""

_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_LARGEST_MODE = 0o777
_SHORTEST_TOKEN_SECONDS = 600
_LONGEST_TOKEN_SECONDS = 2**32
_FIELD_PATHS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""Sources in the order in which the real server looks for them: all after the first are one too many."""


def volume_errors(volumes: list[Document], pod_name: str, field: str) -> tuple[Sources, Errors]:
    """The good volumes of a pod, and the errors of the others."""
    found: Errors = []
    good: Sources = {}
    made = {f"{pod_name}-{volume.get('name')}" for volume in volumes if pod_name and volume.get("ephemeral")}
    for index, volume in enumerate(volumes):
        where, name = f"{field}[{index}]", volume.get("name") or ""
        errors = _source_errors(volume, pod_name, where)
        errors += name_errors(name, f"{where}.name", names.dns_label) if name else [required(f"{where}.name")]
        if name in good:
            errors.append(duplicate(f"{where}.name", name))
        if not errors:
            good[name] = volume
        found += errors
        claim = part(volume, "persistentVolumeClaim").get("claimName")
        if claim in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, text))
    return good, found


def _source_errors(volume: Document, pod_name: str, field: str) -> Errors:
    given = [source for source in _ORDER if volume.get(source) is not None]
    if not given:
        # A source that is not known here is one all the same.
        unknown = any(value is not None for key, value in volume.items() if key != "name")
        return [] if unknown else [required(field, "must specify a volume type")]
    first, *others = given
    check = _CHECKS.get(first)
    found = check(volume[first], f"{field}.{first}") if check else []
    found += [forbidden(f"{field}.{source}", "may not specify more than 1 volume type") for source in others]
    if first == "ephemeral" and pod_name and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        found += [
            invalid(f"{field}.name", claim, f"it is the name of the claim: {text}")
            for text in names.dns_subdomain(claim)
        ]
    return found


def _empty_dir(source: Document, field: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit).nanos < 0:
        return [forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Document, field: str) -> Errors:
    path, kind = source.get("path") or "", source.get("type") or ""
    if not path:
        return [required(f"{field}.path")]
    found = [invalid(f"{field}.path", path, "must not contain '..'")] if ".." in path.split("/") else []
    if kind not in _HOST_PATH_TYPES:
        found.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return found


def _mode(source: Document, name: str, field: str) -> Errors:
    mode = source.get(name)
    if mode is None or 0 <= mode <= _LARGEST_MODE:
        return []
    return [invalid(f"{field}.{name}", mode, _MODE_TEXT)]


def _named(source: Document, name: str, field: str) -> Errors:
    return [] if source.get(name) else [required(f"{field}.{name}")]


def _items(source: Document, field: str) -> Errors:
    found: Errors = []
    for index, item in enumerate(entries(source, "items")):
        found += _item(item, f"{field}.items[{index}]")
    return found


def _item(item: Document, field: str) -> Errors:
    found = _named(item, "key", field) + _named(item, "path", field)
    return found + file_path_errors(item.get("path") or "", f"{field}.path") + _mode(item, "mode", field)


def _secret(source: Document, field: str) -> Errors:
    return _named(source, "secretName", field) + _mode(source, "defaultMode", field) + _items(source, field)


def _config_map(source: Document, field: str) -> Errors:
    return _named(source, "name", field) + _mode(source, "defaultMode", field) + _items(source, field)


def _claim(source: Document, field: str) -> Errors:
    return _named(source, "claimName", field)


def _nfs(source: Document, field: str) -> Errors:
    found = _named(source, "server", field) + _named(source, "path", field)
    if not (source.get("path") or "").startswith("/"):
        found.append(invalid(f"{field}.path", source.get("path") or "", "must be an absolute path"))
    return found


def _downward(source: Document, field: str) -> Errors:
    found = _mode(source, "defaultMode", field)
    for item in entries(source, "items"):
        # The real server leaves out the index.
        found += _downward_item(item, field)
    return found


def _downward_item(item: Document, field: str) -> Errors:
    found = _named(item, "path", field) + file_path_errors(item.get("path") or "", f"{field}.path")
    reference, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if reference is not None:
        found += field_reference_errors(reference, _FIELD_PATHS, f"{field}.fieldRef")
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.append(invalid(field, "resource", text))
    elif resource is not None:
        found += resource_reference_errors(resource, f"{field}.resourceFieldRef", in_volume=True)
    else:
        found.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return found + _mode(item, "mode", field)


def _projected(source: Document, field: str) -> Errors:
    found = _mode(source, "defaultMode", field)
    taken: set[str] = set()
    for index, projection in enumerate(entries(source, "sources")):
        where = f"{field}.sources[{index}]"
        for name in ("secret", "configMap"):
            if projection.get(name) is not None:
                found += _projected_keys(projection[name], f"{where}.{name}", field, taken)
        if projection.get("downwardAPI") is not None:
            for item in entries(projection["downwardAPI"], "items"):
                found += _downward_item(item, f"{where}.downwardAPI")
                found += _path_taken(item.get("path"), item.get("path") or "", field, taken)
        if projection.get("serviceAccountToken") is not None:
            found += _token(projection["serviceAccountToken"], f"{where}.serviceAccountToken", field)
        if sum(1 for value in projection.values() if value is not None) > 1:
            found.append(forbidden(where, "may not specify more than 1 volume type per source"))
    return found


def _projected_keys(source: Document, field: str, volume: str, taken: set[str]) -> Errors:
    found = _named(source, "name", field)
    for index, item in enumerate(entries(source, "items")):
        found += _item(item, f"{field}.items[{index}]")
        found += _path_taken(item.get("path"), source.get("name") or "", volume, taken)
    return found


def _path_taken(path: str | None, shown: str, field: str, taken: set[str]) -> Errors:
    if not path:
        return []
    found = [invalid(field, shown, "conflicting duplicate paths")] if path in taken else []
    taken.add(path)
    return found


def _token(source: Document, field: str, volume: str) -> Errors:
    found: Errors = []
    seconds = source.get("expirationSeconds") or 0
    if seconds < _SHORTEST_TOKEN_SECONDS:
        text = "may not specify a duration less than 10 minutes"
        found.append(invalid(f"{field}.expirationSeconds", seconds, text))
    if seconds > _LONGEST_TOKEN_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
        found.append(invalid(f"{field}.expirationSeconds", seconds, text))
    if not source.get("path"):
        return [*found, required(f"{volume}.path")]
    return found + file_path_errors(source["path"], f"{volume}.path")


def _ephemeral(source: Document, field: str) -> Errors:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{field}.volumeClaimTemplate")]
    return claim_template_errors(template, f"{field}.volumeClaimTemplate")


def _image(source: Document, field: str) -> Errors:
    found = _named(source, "reference", field)
    policy = source.get("pullPolicy") or ""
    supported = ("Always", "IfNotPresent", "Never")
    return found if policy in supported else [*found, not_supported(f"{field}.pullPolicy", policy, supported)]


_CHECKS: dict[str, Callable[[Document, str], Errors]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
    "image": _image,
}
