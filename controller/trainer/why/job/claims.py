# SPDX-License-Identifier: Apache-2.0
"""Volume claims, and the ConfigMaps and Secrets of volumes and variables."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from trainwright.api.objects import Document, dig, name_of
from trainwright.controller.trainer.why.catalogue import here, of_pods
from trainwright.controller.trainer.why.job.containers import containers_of
from trainwright.controller.trainer.why.kinds import CLAIM, CONFIG_MAP, SECRET, STORAGE_CLASS
from trainwright.controller.trainer.why.words import quoted
from trainwright.plugins.contract import About, Cause, Picture, created_at, since_of
from trainwright.plugins.contract.picture import EVENTS_OF, condition_of, event_since

CREATING_SECONDS = 60.0
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)')
_VOLUME = re.compile(r'volume "([^"]+)"')
SOURCE_MISSING = re.compile(r'(configmap|secret) "([^"]+)" not found', re.IGNORECASE)
_NO_KEY = re.compile(r"references non-existent (config|secret) key: (\S+)")
_LOOK_SECONDS = 10.0
"""Most containers are created within that time, and nothing has to be looked for."""
KINDS = {"config": CONFIG_MAP, "configmap": CONFIG_MAP, "secret": SECRET}


def unscheduled(picture: Picture, message: str, told: Callable[..., Cause]) -> Cause | None:
    """The scheduler stops at a claim that is missing or has no volume."""
    if found := _CLAIM.search(message):
        return _claim_missing(picture, found[1], told) if found[2] == "not found" else None
    if "unbound immediate PersistentVolumeClaims" not in message:
        return None
    for pod in picture.present_pods:
        for name in claims_of(pod):
            claim = picture.get(CLAIM, name)
            if claim is None and picture.lacks(CLAIM, name):
                return _claim_missing(picture, name, told)
            if claim is not None and dig(claim, "status.phase") == "Pending":
                return _claim_pending(picture, claim, told)
    return told("ClaimPending", "a PersistentVolumeClaim of the pods has no volume yet: see `kubectl get pvc`")


def claims_of(pod: Document) -> list[str]:
    volumes = dig(pod, "spec.volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim")]


def _claim_missing(picture: Picture, name: str, told: Callable[..., Cause]) -> Cause:
    text = (
        f"PersistentVolumeClaim {name} does not exist in namespace {picture.namespace}: create it, or correct the "
        "volume in the runtime and create the job again"
    )
    return told("ClaimMissing", text, about=here(picture, "PersistentVolumeClaim", name))


def _claim_pending(picture: Picture, claim: Document, told: Callable[..., Cause]) -> Cause:
    name = name_of(claim)
    storage = dig(claim, "spec.storageClassName")
    if storage and picture.lacks(STORAGE_CLASS, storage):
        why = f"StorageClass {storage} does not exist; use another class"
    else:
        warned = [one for one in picture.events(claim) if one.get("type") == "Warning"]
        any_of = warned or list(picture.events(claim))
        why = (
            quoted(str(any_of[0].get("message", "")))
            if any_of
            else f"no volume was made for it; see `kubectl describe pvc {name}`"
        )
    about = About.of(claim, "PersistentVolumeClaim")
    return told("ClaimPending", f"PersistentVolumeClaim {name} is Pending: {why}", about=about)


def unmounted(picture: Picture) -> Iterator[Cause]:
    """Volumes that a node cannot mount.

    What does not exist is said as soon as an event names it, or is looked for after a moment; other reasons may pass by
    themselves, so they are said of pods whose containers are not created for long.
    """
    for pod in [pod for pod in picture.present_pods if is_creating(pod)][:EVENTS_OF]:
        since = since_of(condition_of(pod, "PodScheduled")) or created_at(pod)
        found = _missing_by_event(picture, pod)
        if found is None and picture.lasted(since, _LOOK_SECONDS):
            found = _from_volumes(picture, pod, since)
        if found is None and picture.lasted(since, CREATING_SECONDS):
            found = _not_mounted(picture, pod)
        if found is not None:
            yield found
            return


def is_creating(pod: Document) -> bool:
    """Whether the pod has a node, and no container was created yet."""
    status = pod.get("status") or {}
    if status.get("phase") != "Pending" or not dig(pod, "spec.nodeName"):
        return False
    found = list(containers_of(pod))
    waiting = {dig(one.waiting, "reason") for one in found}
    return waiting <= {"ContainerCreating", "PodInitializing", None} and all(
        one.running is None and one.terminated is None for one in found
    )


def _mount_events(picture: Picture, pod: Document) -> Iterator[tuple[str, str, Any]]:
    """Message, volume and time of each event of a mount that failed, the latest first."""
    for event in picture.events(pod):
        if event.get("reason") in ("FailedMount", "FailedAttachVolume"):
            message = str(event.get("message", ""))
            volume = _VOLUME.search(message)
            yield message, volume[1] if volume else "", event_since(event)


def _missing_by_event(picture: Picture, pod: Document) -> Cause | None:
    """The object, or the key of it, that an event names as missing and that was not made since."""
    for message, volume, since in _mount_events(picture, pod):
        if (found := _CLAIM.search(message)) and found[2] == "not found":
            resource, name = CLAIM, found[1]
        elif found := SOURCE_MISSING.search(message):
            resource, name = KINDS[found[1].lower()], found[2].rpartition("/")[2]
        elif found := _NO_KEY.search(message):
            return _key_missing(pod, found[1], found[2], volume, since)
        else:
            continue
        if picture.get(resource, name) is None:
            return _source_missing(picture, pod, resource.kind, name, volume, since)
    return None


def _not_mounted(picture: Picture, pod: Document) -> Cause | None:
    for message, volume, since in _mount_events(picture, pod):
        text = (
            f"volume {volume or 'of the pods'} cannot be mounted on node {dig(pod, 'spec.nodeName')}: {quoted(message)}"
        )
        return of_pods("VolumeNotMounted", text, pod, since=since)
    return None


def _key_missing(pod: Document, kind: str, key: str, volume: str, since: Any) -> Cause:
    resource = KINDS[kind.lower()]
    volumes = dig(pod, "spec.volumes") or ()
    names = [name for one in volumes if one.get("name") == volume for found, name in _sources(one) if found == resource]
    named = f"{resource.kind} {names[0]}" if names else f"a {resource.kind}"
    text = (
        f"volume {volume or 'of the pods'} takes key {key} from {named}, which does not have it: add the key, or "
        "correct the runtime and create the job again"
    )
    return of_pods("VolumeSourceMissing", text, pod, since=since)


def _from_volumes(picture: Picture, pod: Document, since: Any) -> Cause | None:
    for volume in dig(pod, "spec.volumes") or ():
        for resource, name in _sources(volume):
            if picture.lacks(resource, name):
                return _source_missing(picture, pod, resource.kind, name, volume["name"], since)
    return None


def _sources(volume: Document) -> Iterator[tuple[Any, str]]:
    for source in (volume, *(dig(volume, "projected.sources") or ())):
        config, secret = source.get("configMap") or {}, source.get("secret") or {}
        if config.get("name") and not config.get("optional"):
            yield CONFIG_MAP, config["name"]
        name = secret.get("secretName") or secret.get("name")
        if name and not secret.get("optional"):
            yield SECRET, name
    claim = dig(volume, "persistentVolumeClaim.claimName")
    if claim:
        yield CLAIM, claim


def _source_missing(picture: Picture, pod: Document, kind: str, name: str, volume: str, since: Any) -> Cause:
    text = (
        f"volume {volume} is made from {kind} {name}, which does not exist in namespace {picture.namespace}: create "
        "it, or correct the runtime and create the job again"
    )
    return of_pods("VolumeSourceMissing", text, pod, about=here(picture, kind, name), since=since)
