# SPDX-License-Identifier: Apache-2.0
"""Containers that cannot be created or started: variables, programs, sandboxes, and nodes that refuse a pod."""

import re
from collections.abc import Iterator

from trainwright.api.objects import Document, dig, name_of, uid_of
from trainwright.api.times import moment
from trainwright.controller.trainer.failures.first import EVICTED, NO_PROGRAM, NOT_STARTED
from trainwright.controller.trainer.failures.last_words import telling_line
from trainwright.controller.trainer.why.catalogue import here, of_pods
from trainwright.controller.trainer.why.job.claims import CREATING_SECONDS, KINDS, SOURCE_MISSING, is_creating
from trainwright.controller.trainer.why.job.containers import PodContainer, containers_of, made_good
from trainwright.controller.trainer.why.words import ends_with, quoted, rank_of
from trainwright.plugins.contract import Cause, Picture, condition_of, created_at, holds, since_of
from trainwright.plugins.contract.picture import event_since

_KEY = re.compile(r"couldn't find key (\S+) in (ConfigMap|Secret) (\S+)")
_START_FAILURES = frozenset({"RunContainerError", "CreateContainerError", "StartError"})
_ABSENT = re.compile(r'exec: "([^"]+)": (?:executable file not found|stat |no such file)')
_REFUSALS = re.compile(
    r"UnexpectedAdmissionError|OutOf\w+|NodeAffinity|TopologyAffinityError|NodeShutdown|Preempting|PodOSSelector\w+|"
    r"UnsupportedPod\w*|SysctlForbidden|AppArmor"
)


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
    if found := _KEY.search(message):
        key, kind, name = found[1], found[2], found[3].rpartition("/")[2]
        what, advice = f"{kind} {name}, which has no key {key}", "add the key"
    elif found := SOURCE_MISSING.search(message):
        key, kind, name = "", KINDS[found[1].lower()].kind, found[2]
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
    if is_program_missing(ended.get("exitCode"), str(ended.get("reason")), message) or (
        is_waiting and NO_PROGRAM.search(message) is not None
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
    why = quoted(message, 180) if message else f"see `kubectl describe pod {name_of(pod)}`"
    return of_pods("ContainerNotStarted", f"{who} cannot be started: {why}", pod, since=since)


def is_program_missing(code: int | None, reason: str, message: str) -> bool:
    """Whether a container ended since its program, or one that this started, does not exist or cannot be executed."""
    return reason in NOT_STARTED or code == 127 or (code == 128 and NO_PROGRAM.search(message) is not None)


def cannot_run(picture: Picture, who: str, message: str, program: str = "", *, was_run: bool = False) -> str:
    """The sentence for a program that cannot be started, whose node says `message`.

    `program` is the first word of the command, if it is known. `was_run`: it was there, and looked for another program.
    """
    named = _ABSENT.search(message)
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
        if status.get("phase") != "Failed" or not reason or reason == EVICTED or uid_of(pod) in good:
            continue
        if not _REFUSALS.fullmatch(reason):
            yield from _failed_as_a_whole(picture, pod, reason)
            continue
        node = dig(pod, "spec.nodeName") or "its node"
        text = (
            f"node {node} refused {rank_of(picture, pod)} ({reason}: {quoted(str(status.get('message', '')), 110)}); "
            "the Job makes another pod; if that happens again, ask the administrator to check the node"
        )
        yield of_pods("NodeRefusedPod", text, pod, since=created_at(pod))
        return


def _failed_as_a_whole(picture: Picture, pod: Document, reason: str) -> Iterator[Cause]:
    """A pod that was ended with its containers, as by a deadline of its own; no container tells why."""
    if holds(pod, "DisruptionTarget") or any(container.ended for container in containers_of(pod)):
        return
    message = quoted(str(dig(pod, "status.message") or ""))
    text = f"{rank_of(picture, pod)} failed ({reason}{': ' if message else ''}{message})"
    yield of_pods("RankFailed", text, pod, since=created_at(pod))


def slow(picture: Picture) -> Iterator[Cause]:
    """Pods on a node whose containers are not created for long: their sandbox fails, or nothing says why."""
    for pod in picture.present_pods:
        since = since_of(condition_of(pod, "PodScheduled")) or created_at(pod)
        if not is_creating(pod) or not picture.lasted(since, CREATING_SECONDS):
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
