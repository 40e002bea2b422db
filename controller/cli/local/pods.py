# SPDX-License-Identifier: Apache-2.0
"""What the pods of a job say: each state that they had, which of them failed first, which logs can be read."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, dig, labels_of, uid_of
from trainwright.api.times import parse
from trainwright.controller.runtime import Client, KubernetesError
from trainwright.controller.trainer.failures.first import LATE_SECONDS, WrittenFailure, written_failures
from trainwright.controller.trainer.failures.last_words import (
    LAUNCHER_SECONDS,
    is_launched,
    is_victim,
    program_ended,
    telling_line,
)
from trainwright.controller.trainer.job.pods import container_statuses, rank_of
from trainwright.plugins.contract.picture import index_of

STARTING = frozenset({None, "ContainerCreating", "PodInitializing"})
"""Reasons of containers that wait for nothing but their node."""
_LOOK_SECONDS = 0.05
_RETRY_SECONDS = 0.1
_SIGNALS = 128
"""Exit codes above it stand for a signal."""


async def pods_of(client: Client, namespace: str, job: str) -> list[Document]:
    """The pods of a job, by rank."""
    listed = await client.list(Pod.RESOURCE, namespace, label_selector=f"{LABEL_JOBSET}={job}")
    return sorted(listed.items, key=by_rank)


async def still_running(client: Client, namespace: str, job: str, seconds: float) -> list[Document]:
    """Wait until no pod of a job runs; returns those that still do after so long."""
    return await outstaying(client, namespace, job, seconds, lambda pod: not has_ended(pod))


async def outstaying(
    client: Client, namespace: str, job: str, seconds: float, holds: Callable[[Document], bool]
) -> list[Document]:
    """Wait until no pod of a job is as `holds` says; returns those that still are after so long."""
    limit = asyncio.get_running_loop().time() + seconds
    while pods := [pod for pod in await pods_of(client, namespace, job) if holds(pod)]:
        if asyncio.get_running_loop().time() >= limit:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return pods


def by_rank(pod: Document) -> tuple[str, int, str]:
    """Sorts pods by rank. After stop and resume, one attempt has several pods of a rank: the older ones come first."""
    created = pod["metadata"].get("creationTimestamp") or ""
    return labels_of(pod).get(LABEL_REPLICATED_JOB, ""), index_of(pod), created


class PodWatch:
    """Watches the pods of a selector; `take` is called with each state of each, also if it is gone at once."""

    def __init__(self, client: Client, namespace: str, selector: str, take: Callable[[Document], None]) -> None:
        self._client, self._namespace, self._selector, self._take = client, namespace, selector, take
        self.present: set[str] = set()
        """The uids of the pods that are there."""
        self.changed = asyncio.Event()
        """Set with each change. Clear it before you wait."""

    async def run(self) -> None:
        """Watch until cancelled; after a broken watch, from a new list on."""
        while True:
            with suppress(KubernetesError):
                listed = await self._client.list(Pod.RESOURCE, self._namespace, label_selector=self._selector)
                self.present = {uid_of(pod) for pod in listed.items}
                for pod in listed.items:
                    self._take(pod)
                self.changed.set()
                await self._follow(listed.resource_version)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self, version: str) -> None:
        async with self._client.watch(
            Pod.RESOURCE, self._namespace, label_selector=self._selector, resource_version=version
        ) as batches:
            async for batch in batches:
                for frame in batch:
                    if frame.type == "ERROR":
                        return
                    if frame.type == "BOOKMARK":
                        continue
                    pod: Document = msgspec.json.decode(frame.object)
                    if frame.type == "DELETED":
                        self.present.discard(uid_of(pod))
                    else:
                        self.present.add(uid_of(pod))
                    self._take(pod)
                self.changed.set()


@dataclass(frozen=True, slots=True)
class FirstFailure:
    code: int
    message: str


Run: TypeAlias = tuple[str, str, int]
"""The uid of a pod, a container of it, and the number of its run."""


def first_failure(pods: list[Document], words: Mapping[Run, Sequence[str]] | None = None) -> FirstFailure | None:
    """The container of the job that failed first, and not because of another one.

    As the node wrote it down; it knows the order of all ends. Else, in its present or its last run, in whole seconds.
    One that the node has stopped is a victim, unless its launcher says that its process had failed before. So is one
    whose last words, if they are known, tell of a lost peer, where another one failed by itself a little later:
    programs close their connections before they end.
    """
    written = sorted(
        ((pod, entry) for pod in pods for entry in written_failures(pod)), key=lambda one: (one[1].stopped, one[1].at)
    )
    if written:
        pod, entry = _first_cause(written, words or {})
        ends = (end for name, _, end in _failed_runs(pod) if name == entry.container)
        said = telling_line(_words((pod, entry), words or {}), entry.code)
        return _failure(pod, entry.code, next((end for end in ends if end["exitCode"] == entry.code), {}), said)
    found = [(pod, end) for pod in pods for *_, end in _failed_runs(pod)]
    if not found:
        return None
    pod, end = min(found, key=lambda one: (str(one[1].get("finishedAt")), int(one[1]["exitCode"])))
    return _failure(pod, int(end["exitCode"]), end)


_Written: TypeAlias = tuple[Document, WrittenFailure]


def _first_cause(written: Sequence[_Written], words: Mapping[Run, Sequence[str]]) -> _Written:
    _, first = written[0]
    began = parse(program_ended(_words(written[0], words), first.at))
    for one in written:
        _, ended = one
        if (parse(ended.at) - began).total_seconds() > LATE_SECONDS + LAUNCHER_SECONDS:
            continue
        lines = _words(one, words)
        is_late = (parse(program_ended(lines, ended.at)) - began).total_seconds() > LATE_SECONDS
        if not is_late and not is_victim(lines, ended.code, stopped=ended.stopped):
            return one
    return written[0]


def _words(one: _Written, words: Mapping[Run, Sequence[str]]) -> Sequence[str]:
    pod, entry = one
    return words.get((uid_of(pod), entry.container, entry.run), ())


def _failure(pod: Document, code: int, ended: Document, said: str = "") -> FirstFailure:
    reason = ended.get("reason") or "Error"
    signalled = signal_of(code)
    text = (
        f"{rank_of(pod)} failed with exit code {code} ({reason if reason != 'Error' or not signalled else signalled})"
    )
    if signalled and reason != "Error":
        text += f", {signalled}"
    message, _, _ = str(ended.get("message") or "").partition("\n")
    if message and (reason == "StartError" or message.startswith("the kernel killed")):
        text += f": {message}"
    elif is_launched(said):
        text += f": {said}"
    return FirstFailure(code, text)


def signal_of(code: int) -> str:
    """The name of the signal that an exit code stands for, such as `SIGKILL`; empty: it stands for none."""
    try:
        return signal.Signals(code - _SIGNALS).name if code > _SIGNALS else ""
    except ValueError:
        return ""


def runs_of(pod: Document) -> Iterator[tuple[str, int, Document | None]]:
    """The present run of each container and the one before: container, number, and how it ended; None: it runs."""
    for status in container_statuses(pod):
        for state in (status.get("lastState") or {}, status.get("state") or {}):
            if ended := state.get("terminated"):
                yield status["name"], _run_of(status, ended), ended
        if "running" in (status.get("state") or {}):
            yield status["name"], status.get("restartCount") or 0, None


def _failed_runs(pod: Document) -> Iterator[tuple[str, int, Document]]:
    return ((name, run, end) for name, run, end in runs_of(pod) if end and end.get("exitCode"))


def failed_runs(pod: Document) -> list[tuple[str, int]]:
    seen = {(one.container, one.run) for one in written_failures(pod)}
    return sorted(seen | {(name, run) for name, run, _ in _failed_runs(pod)})


def runs_with_logs(pod: Document) -> list[tuple[str, int]]:
    """The runs of the pod's containers whose logs can be read."""
    return [*dict.fromkeys((name, run) for name, run, _ in runs_of(pod))]


def _run_of(status: Document, ended: Document) -> int:
    """The number of a run that ended, which is at the end of its id."""
    number = str(ended.get("containerID") or "").rpartition("/")[2]
    if number.isdecimal():
        return int(number)
    restarts = status.get("restartCount") or 0
    return restarts if ended is dig(status, "state.terminated") else max(0, restarts - 1)


def is_starting(pod: Document) -> bool:
    """Whether a node has taken the pod and has not said yet that a container of it runs, or cannot."""
    status = pod.get("status") or {}
    if not dig(pod, "spec.nodeName") or status.get("phase") not in (None, "Pending"):
        return False
    waits = all(dig(one, "state.waiting.reason") in STARTING for one in container_statuses(pod))
    return waits and not any(runs_of(pod))


def has_ended(pod: Document) -> bool:
    """Whether nothing of the pod runs, or ever will."""
    return dig(pod, "status.phase") in ("Succeeded", "Failed")
