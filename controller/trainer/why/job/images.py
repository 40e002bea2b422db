# SPDX-License-Identifier: Apache-2.0
"""Images that cannot be pulled: they do not exist, the registry refuses, or it does not answer."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from trainwright.api.objects import Document, dig
from trainwright.controller.trainer.why.catalogue import of_pods
from trainwright.controller.trainer.why.job.containers import PodContainer, containers_of
from trainwright.controller.trainer.why.kinds import SECRET
from trainwright.controller.trainer.why.words import quoted, role_of
from trainwright.plugins.contract import Cause, Picture, created_at, since_of
from trainwright.plugins.contract.picture import condition_of, counted, earliest, event_since

FIRST_TRY_SECONDS = 10.0
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
_REFUSED = re.compile(
    r"\b(401|403|unauthorized|forbidden|authentication required|no basic auth|access denied|denied)\b", re.IGNORECASE
)
_ABSENT = re.compile(
    r"not found|manifest unknown|name unknown|does not exist|no such (?:image|manifest)|404", re.IGNORECASE
)
_SILENT = re.compile(
    r"time-?d? ?out|timeout|\b429\b|too ?many ?requests|\b50[0-9]\b|no such host|connection re(?:fused|set)|EOF|"
    r"temporary failure|unreachable|server misbehaving|handshake|service unavailable|deadline exceeded",
    re.IGNORECASE,
)


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
            if reason == "ErrImagePull" and not picture.lasted(since, FIRST_TRY_SECONDS):
                continue
            message = str(dig(container.waiting, "message") or "")
            if not any(pattern.search(message) for pattern in (_ABSENT, _REFUSED, _SILENT)):
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
    if _REFUSED.search(message):
        return "ImageForbidden"
    if _SILENT.search(message):
        return "RegistryUnavailable"
    return "ImageMissing" if _ABSENT.search(message) else "RegistryUnavailable"


def _told(picture: Picture, kind: str, image: str, pulls: list[_Pull]) -> Cause:
    pods = list({id(pull.pod): pull.pod for pull in pulls}.values())
    same_role = [pod for pod in picture.present_pods if role_of(pod) == role_of(pods[0])]
    who = f"{counted(pods, same_role)} cannot pull {quoted(image, 90)}"
    where = _where(picture, image)
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


def _where(picture: Picture, image: str) -> str:
    trainer = dig(picture.job, "spec.trainer.image")
    return "spec.trainer.image" if trainer == image else "the image in the runtime"


def _credentials(picture: Picture, pod: Document) -> str:
    names = [str(one.get("name")) for one in dig(pod, "spec.imagePullSecrets") or ()]
    if not names:
        return "the pods have no imagePullSecrets: add one to the runtime or to their service account"
    missing = [name for name in names if picture.lacks(SECRET, name)]
    if missing:
        return f"Secret {missing[0]} of imagePullSecrets does not exist in namespace {picture.namespace}: create it"
    return f"check the credentials in Secret {names[0]}, and the name of the image"
