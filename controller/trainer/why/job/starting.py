# SPDX-License-Identifier: Apache-2.0
"""Pods that have a node and do not start: images, volumes, variables, programs, sandboxes, nodes that refuse a pod."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from trainwright.api.objects import Document, dig, name_of, uid_of
from trainwright.api.times import moment
from trainwright.controller.trainer.failures.first import NO_PROGRAM, NOT_STARTED
from trainwright.controller.trainer.failures.last_words import telling_line
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import here, of_pods
from trainwright.controller.trainer.why.job.containers import PodContainer, containers_of, made_good
from trainwright.controller.trainer.why.kinds import CLAIM, CONFIG_MAP, SECRET
from trainwright.controller.trainer.why.words import ends_with, quoted, rank_of, role_of
from trainwright.plugins.contract.picture import (
    EVENTS_OF,
    Cause,
    Picture,
    condition_of,
    counted,
    created_at,
    earliest,
    event_since,
    since_of,
)

_FIRST_TRY_SECONDS = 10.0
_WAITING = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_CREATING_SECONDS = 60.0
_LOOK_SECONDS = 10.0
"""Most containers are created within that time, and nothing has to be looked for."""
_KINDS = {"config": CONFIG_MAP, "configmap": CONFIG_MAP, "secret": SECRET}
_START_FAILURES = frozenset({"RunContainerError", "CreateContainerError", "StartError"})


class _Pull(NamedTuple):
    pod: Document
    container: PodContainer
    message: str
    reason: str


def unpulled(picture: Picture) -> Iterator[Cause]:
    """Images that pods wait for; one cause for each image and reason."""
    groups: dict[tuple[str, str], list[_Pull]] = {}
    said: dict[str, str] = {}
    for pod in picture.present_pods:
        for container in containers_of(pod):
            reason = str(dig(container.waiting, "reason"))
            if reason not in _WAITING:
                continue
            since = since_of(condition_of(pod, "PodScheduled")) or created_at(pod)
            if reason == "ErrImagePull" and not picture.lasted(since, _FIRST_TRY_SECONDS):
                continue
            message = str(dig(container.waiting, "message") or "")
            if not any(pattern.search(message) for pattern in messages.PULL_ANSWERS):
                # A back-off that does not repeat the answer. The pods of one image were answered alike.
                if container.image not in said:
                    said[container.image] = _from_events(picture, pod, container.image)
                message = said[container.image] or message
            kind = _kind(reason, message.replace(container.image, ""))
            groups.setdefault((kind, container.image), []).append(_Pull(pod, container, message, reason))
    for (kind, image), pulls in sorted(groups.items()):
        yield _told(picture, kind, image, pulls)


def _from_events(picture: Picture, pod: Document, image: str) -> str:
    """What the registry said, in the last event that quotes it."""
    for event in picture.events(pod):
        text = str(event.get("message", ""))
        if event.get("reason") == "Failed" and image in text and ":" in text.replace(image, ""):
            return text
    return ""


def _kind(reason: str, message: str) -> str:
    if reason in ("InvalidImageName", "ErrImageNeverPull"):
        return "ImageMissing"
    if reason == "RegistryUnavailable":
        return reason
    if messages.PULL_REFUSED.search(message):
        return "ImageForbidden"
    if messages.REGISTRY_SILENT.search(message):
        return "RegistryUnavailable"
    return "ImageMissing" if messages.IMAGE_ABSENT.search(message) else "RegistryUnavailable"


def _told(picture: Picture, kind: str, image: str, pulls: list[_Pull]) -> Cause:
    pods = list({id(pull.pod): pull.pod for pull in pulls}.values())
    same_role = [pod for pod in picture.present_pods if role_of(pod) == role_of(pods[0])]
    who = f"{counted(pods, same_role)} cannot pull {quoted(image, 90)}"
    where = "spec.trainer.image" if dig(picture.job, "spec.trainer.image") == image else "the image in the runtime"
    first = pulls[0]
    if kind == "ImageMissing":
        what = {
            "InvalidImageName": "that is no valid image name",
            "ErrImageNeverPull": "the node does not have it, and imagePullPolicy is Never",
        }.get(first.reason, "there is no such image or tag")
        text = f"{who}: {what}; correct {where} in a new job"
    elif kind == "ImageForbidden":
        text = f"{who} ({where}): the registry refuses it; {_credentials(picture, pods[0])}"
    else:
        told = quoted(first.message.rpartition(": ")[2] or first.message, 90)
        text = f"{who} now: {told or 'the node says no more'}; it is tried again"
    failures = [event for event in picture.events(pods[0]) if event.get("reason") in ("Failed", "BackOff")]
    since = earliest(map(event_since, failures)) if failures else created_at(pods[0])
    return of_pods(kind, text, *pods, since=since, failed=False)


def _credentials(picture: Picture, pod: Document) -> str:
    names = [str(one.get("name")) for one in dig(pod, "spec.imagePullSecrets") or ()]
    if not names:
        return "the pods have no imagePullSecrets: add one to the runtime or to their service account"
    missing = [name for name in names if picture.lacks(SECRET, name)]
    if missing:
        return f"Secret {missing[0]} of imagePullSecrets does not exist in namespace {picture.namespace}: create it"
    return f"check the credentials in Secret {names[0]}, and the name of the image"


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
        if found is None and picture.lasted(since, _CREATING_SECONDS):
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
            volume = messages.VOLUME.search(message)
            yield message, volume[1] if volume else "", event_since(event)


def _missing_by_event(picture: Picture, pod: Document) -> Cause | None:
    """The object, or the key of it, that an event names as missing and that was not made since."""
    for message, volume, since in _mount_events(picture, pod):
        if (found := messages.CLAIM.search(message)) and found[2] == "not found":
            resource, name = CLAIM, found[1]
        elif found := messages.SOURCE_MISSING.search(message):
            resource, name = _KINDS[found[1].lower()], found[2].rpartition("/")[2]
        elif found := messages.NO_KEY.search(message):
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
    resource = _KINDS[kind.lower()]
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


def not_created(picture: Picture) -> Iterator[Cause]:
    """Containers whose variables come from what does not exist, or whose program does not exist."""
    for pod in picture.present_pods:
        for container in containers_of(pod):
            found = _variable(picture, pod, container) or _program(picture, pod, container)
            if found is not None:
                yield found
                return


def _variable(picture: Picture, pod: Document, container: PodContainer) -> Cause | None:
    waiting = container.waiting or {}
    if waiting.get("reason") != "CreateContainerConfigError":
        return None
    message = str(waiting.get("message", ""))
    since = since_of(condition_of(pod, "PodScheduled")) or created_at(pod)
    if found := messages.VARIABLE_KEY.search(message):
        key, kind, name = found[1], found[2], found[3].rpartition("/")[2]
        what, advice = f"{kind} {name}, which has no key {key}", "add the key"
    elif found := messages.SOURCE_MISSING.search(message):
        key, kind, name = "", _KINDS[found[1].lower()].kind, found[2]
        what, advice = f"{kind} {name}, which does not exist in namespace {picture.namespace}", "create it"
    else:
        text = f"container {container.name} cannot be created: {quoted(message, 200)}"
        return of_pods("VariableSourceMissing", text, pod, since=since)
    subject = _subject(container.spec, kind, name, key)
    wrong = "envFrom" if subject == "envFrom" else "the variable"
    text = f"{subject} of container {container.name} comes from {what}: {advice}, or correct {wrong} in a new job"
    return of_pods("VariableSourceMissing", text, pod, about=here(picture, kind, name), since=since)


def _subject(spec: Document, kind: str, name: str, key: str) -> str:
    """The variable of the container that comes from the object."""
    field, all_of = ("configMapKeyRef", "configMapRef") if kind == "ConfigMap" else ("secretKeyRef", "secretRef")
    for variable in spec.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get(field) or {}
        if reference.get("name") == name and key in ("", reference.get("key")):
            return f"variable {variable.get('name')}"
    if any(dig(one.get(all_of), "name") == name for one in spec.get("envFrom") or ()):
        return "envFrom"
    return "a variable"


def _program(picture: Picture, pod: Document, container: PodContainer) -> Cause | None:
    if container.running is not None:
        return None
    waiting, ended = container.waiting or {}, container.ended or {}
    message = str(ended.get("message") or waiting.get("message") or "")
    who = f"container {container.name} of {rank_of(picture, pod)}"
    since = moment(ended.get("finishedAt")) or created_at(pod)
    is_waiting = waiting.get("reason") in _START_FAILURES
    # What cannot even be created may lack a folder as well.
    names_program = waiting.get("reason") != "CreateContainerError" or "exec" in message
    if is_program_missing(ended.get("exitCode"), str(ended.get("reason")), message) or (
        is_waiting and names_program and NO_PROGRAM.search(message) is not None
    ):
        command = container.spec.get("command") or ()
        was_run = ended.get("exitCode") == 127 and ended.get("reason") not in NOT_STARTED
        text = cannot_run(picture, who, message, str(command[0]) if command else "", was_run=was_run)
        if was_run and container.ended is not None:
            # The shell says which program it did not find.
            previous = container.ended is container.last
            text += ends_with(telling_line(picture.log(pod, container.name, previous=previous)))
        return of_pods("ProgramMissing", text, pod, since=since)
    if not is_waiting:
        return None
    why = quoted(message, 245) if message else f"see `kubectl describe pod {name_of(pod)}`"
    return of_pods("ContainerNotStarted", f"{who} cannot be started: {why}", pod, since=since)


def is_program_missing(code: int | None, reason: str, message: str) -> bool:
    """Whether a container ended since its program, or one that this started, does not exist or cannot be executed."""
    return reason in NOT_STARTED or code == 127 or (code == 128 and NO_PROGRAM.search(message) is not None)


def cannot_run(picture: Picture, who: str, message: str, program: str = "", *, was_run: bool = False) -> str:
    """The sentence for a program that cannot be started, whose node says `message`.

    `program` is the first word of the command, if it is known. `was_run`: it was there, and looked for another program.
    """
    named = messages.EXECUTABLE.search(message)
    what = named[1] if named else program or "its command"
    if was_run and named is None:
        what, why = "its command", "a program is not in the image (exit code 127)"
    elif "permission denied" in message.lower():
        why = "the file may not be executed"
    elif message and not NO_PROGRAM.search(message):
        why = quoted(message, 140)
    else:
        why = "it is not in the image"
    trainer = dig(picture.job, "spec.trainer") or {}
    where = "spec.trainer.command" if trainer.get("command") else "the command in the runtime"
    return f"{who} cannot run {what}: {why}; correct {where} or the image in a new job"


def refused_by_node(picture: Picture) -> Iterator[Cause]:
    """Pods that a node did not take, although the scheduler gave them to it."""
    good = made_good(picture)
    for pod in picture.present_pods:
        status = pod.get("status") or {}
        reason = str(status.get("reason", ""))
        if status.get("phase") != "Failed" or uid_of(pod) in good or not messages.POD_REFUSED.fullmatch(reason):
            continue
        node = dig(pod, "spec.nodeName") or "its node"
        text = (
            f"node {node} refused {rank_of(picture, pod)} ({reason}: {quoted(str(status.get('message', '')), 110)}); "
            "the Job makes another pod; if that happens again, ask the administrator to check the node"
        )
        yield of_pods("NodeRefusedPod", text, pod, since=created_at(pod))
        return


def slow(picture: Picture) -> Iterator[Cause]:
    """Pods on a node whose containers are not created for long: their sandbox fails, or nothing says why."""
    for pod in picture.present_pods:
        since = since_of(condition_of(pod, "PodScheduled")) or created_at(pod)
        if not is_creating(pod) or not picture.lasted(since, _CREATING_SECONDS):
            continue
        node = dig(pod, "spec.nodeName")
        for event in picture.events(pod):
            if event.get("reason") == "FailedCreatePodSandBox":
                text = (
                    f"node {node} cannot set up the network of {rank_of(picture, pod)}: "
                    f"{quoted(str(event.get('message', '')))}; it is tried again; ask the administrator of the node"
                )
                yield of_pods("SandboxFailed", text, pod, since=event_since(event))
                return
            if event.get("reason") == "Pulling" and event is picture.events(pod)[0]:
                text = (
                    f"{rank_of(picture, pod)} is still pulling its image on node {node}: "
                    f"{quoted(str(event.get('message', '')), 120)}; large images take minutes"
                )
                yield of_pods("SlowStart", text, pod, since=event_since(event))
                return
        text = (
            f"the containers of {rank_of(picture, pod)} have not been created on node {node} for more than a minute: "
            f"see `kubectl describe pod {pod['metadata']['name']}`"
        )
        yield of_pods("SlowStart", text, pod, since=since)
        return
