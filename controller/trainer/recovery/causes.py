# SPDX-License-Identifier: Apache-2.0
"""Why an attempt ended: a pure function of what was seen of its pods and of the log of the culprit.

Evidence of the cluster counts if it began before the first exit, or up to a minute later: lost nodes show late.
What pods show is noted when it is seen, because pods are deleted with the attempt, and their times have whole seconds.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from trainwright.api.jobset.v1alpha2.labels import LABEL_REPLICATED_JOB
from trainwright.api.messages import shortened
from trainwright.api.objects import Document, deletion_timestamp_of, dig, labels_of, name_of, number_in, uid_of
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1.recovery import CANNOT_RUN, Declaration
from trainwright.controller.trainer.failures.first import LATE_SECONDS, NO_PROGRAM, NOT_STARTED, ended_by_deletion
from trainwright.controller.trainer.failures.record import Entry
from trainwright.controller.trainer.job.pods import (
    DISRUPTED,
    container_statuses,
    is_of_initializer,
    limited_of,
    node_of,
    rank_of,
)

RETRIES, MEMORY, INFRASTRUCTURE, HANG = "retries", "memory", "infrastructure", "hang"
FREE, FINAL = "", "final"
"""What no budget pays for; and what ends the job at once."""


class FailureCause(StrEnum):
    """Why an attempt ended; `CHARGED` says which budget pays for it."""

    PREEMPTED = "Preempted"
    SUSPENDED = "Suspended"
    INFRASTRUCTURE = "Infrastructure"
    HANG = "Hang"
    CONFIGURATION = "Configuration"
    MEMORY = "Memory"
    CODE = "Code"


CHARGED: Mapping[FailureCause, str] = {
    FailureCause.PREEMPTED: FREE,
    FailureCause.SUSPENDED: FREE,
    FailureCause.INFRASTRUCTURE: INFRASTRUCTURE,
    FailureCause.HANG: HANG,
    FailureCause.CONFIGURATION: FINAL,
    FailureCause.MEMORY: MEMORY,
    FailureCause.CODE: RETRIES,
}

BY_SCHEDULER = "PreemptionByScheduler"
DELETED = "Deleted"
NODE_LOST = "NodeLost"
NODE_RESTARTED = "NodeRestarted"
"""A node of the local cluster says so of pods that ended with it: it is back already."""
_ON_REQUEST = frozenset({DELETED, "EvictionByEvictionAPI", "DeletionByTaintManager"})
"""Ends that say nothing of the node: it is drained, or somebody deletes the pod."""
_HARDWARE = re.compile(
    r"\bECC error|uncorrectable ECC|\bNVRM: Xid|\bXid \(|\bXid:? \d|\bNVLink\b.{0,40}\b(?:error|fail|fatal|down)"
    r"|fallen off the bus",
    re.IGNORECASE,
)
"""Words of drivers and libraries about a device that is broken."""
_KILLED = re.compile(r"\bexit code -(?:9|15)\b")
"""Of a process below a launcher."""
_NO_MEMORY = "for lack of memory"
"""In the message of a container: what the kernel said of processes that it killed, as a local node writes it."""
_FROM_OUTSIDE = (137, 143)
"""Exit codes of SIGKILL and SIGTERM."""
_SAID = 200
"""Characters of a log's line in a message."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a pod shows of an end that the cluster brought about."""

    cause: FailureCause
    reason: str
    """As Kubernetes writes it, or one of ours."""
    where: str
    """The rank."""
    pod: str
    node: str
    began: datetime | None
    """None: not known."""


@dataclass(frozen=True, slots=True)
class Span:
    """When an attempt began and ended, by the clocks of its nodes, in whole seconds; None: not known."""

    began: datetime | None = None
    ended: datetime | None = None


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_NOTHING: dict[Any, Any] = {}
"""Shared by all attempts that have nothing to note, as most: seven mappings of its own would cost each 450 bytes."""


def _nothing() -> dict[Any, Any]:
    return _NOTHING


def _noted(known: dict[_Key, _Value], more: dict[_Key, _Value]) -> dict[_Key, _Value]:
    if more and known is _NOTHING:
        return more
    known.update(more)
    return known


@dataclass(slots=True)
class Witness:
    """What was seen of one attempt, in the order of seeing. Its mappings are changed by `_noted` alone, or cleared."""

    signs: dict[tuple[str, str], Sign] = field(default_factory=_nothing)
    """By pod, or lost node, and reason."""
    deletions: dict[str, Sign] = field(default_factory=_nothing)
    """Pods that were deleted before anything of this attempt was seen to fail, by name."""
    nodes: dict[str, None] = field(default_factory=_nothing)
    """The nodes of its pods."""
    failed: dict[str, tuple[str, Sequence[str]]] = field(default_factory=_nothing)
    """Of each pod that has failed, by name: its node, and the containers that have a limit of memory."""
    started: int = 0
    """How many pods were seen to run or to end, at most."""
    ours: dict[str, None] = field(default_factory=_nothing)
    """Pods, by uid, that were deleted by our own doing."""
    ran_since: datetime | None = None
    """When a container of it was seen first to run or to end."""
    ran_seconds: float = 0.0
    """How long the container that has ended ran that ran longest."""
    ended: bool = False
    """Whether a container of it was seen to fail."""
    left: dict[str, str] = field(default_factory=_nothing)
    """What containers have left as their termination message, by the name of the pod: perhaps the last report."""
    finished: dict[str, str] = field(default_factory=_nothing)
    """Its ranks that have succeeded; see `finished_ranks`."""
    span: Span = Span()
    """When its first pod started, and when the last container of it ended, as far as was seen."""

    def see(self, pods: Collection[Document], *, is_current: bool = True, is_ours: bool = False) -> None:
        """Note what the pods of the attempt show now.

        `is_current`: Kubernetes has not ended the attempt yet. `is_ours`: pods are deleted because the attempt is held
        back or suspended.
        """
        failing = [pod for pod in pods if _ends(container_statuses(pod)) or dig(pod, "status.phase") == "Failed"]
        self.failed = _noted(self.failed, {name_of(pod): (node_of(pod), limited_of(pod)) for pod in failing})
        self.nodes = _noted(self.nodes, {node: None for pod in pods if (node := node_of(pod))})
        started = [pod for pod in pods if dig(pod, "status.phase") in ("Running", "Failed", "Succeeded")]
        self.started = max(self.started, len(started))
        self.finished = _noted(self.finished, finished_ranks(pods))
        # A pod that is deleted in the same look as a failure of another may be deleted because of it.
        own = any(not _is_stopped(pod) for pod in failing)
        is_first = is_current and not self.ended and not own
        for pod in pods:
            self._see_times(pod)
            for sign in _signs_of(pod):
                self._see_sign((sign.pod, sign.reason), sign)
            if (gone := _deletion_of(pod)) is None:
                continue
            if is_ours:
                self.ours = _noted(self.ours, {uid_of(pod): None})
            elif is_first and uid_of(pod) not in self.ours and gone.pod not in self.deletions:
                self.deletions = _noted(self.deletions, {gone.pod: gone})
        self.ended = self.ended or own

    def _see_sign(self, key: tuple[str, str], sign: Sign) -> None:
        if key not in self.signs:
            self.signs = _noted(self.signs, {key: sign})

    def _see_times(self, pod: Document) -> None:
        starts = self.span.began, moment(dig(pod, "status.startTime"))
        ends = [moment(one.get("finishedAt")) for one in _ends(container_statuses(pod), failed=False)]
        ended = max(filter(None, (self.span.ended, *ends)), default=None)
        self.span = Span(min(filter(None, starts), default=None), ended)
        if is_of_initializer(pod):
            return  # it may load data for hours
        for one in _ends(dig(pod, "status.containerStatuses") or (), failed=False):
            if one.get("message"):
                self.left = _noted(self.left, {name_of(pod): one["message"]})
            start, end = moment(one.get("startedAt")), moment(one.get("finishedAt"))
            if start is not None and end is not None:
                self.ran_seconds = max(self.ran_seconds, (end - start).total_seconds())

    def lost(self, node: str, at: datetime) -> None:
        """Note that a node of the attempt is gone or does not answer."""
        sign = Sign(FailureCause.INFRASTRUCTURE, NODE_LOST, f"node {node}", "", node, at)
        self._see_sign((node, NODE_LOST), sign)


@dataclass(frozen=True, slots=True)
class Attribution:
    """Why an attempt ended, and what shows it."""

    cause: FailureCause
    text: str
    """In words: what shows it."""
    is_certain: bool = True
    """Whether later evidence cannot change it. A rank that lost its peers says nothing of the reason."""
    node: str = ""
    """The node that may be the reason; empty: none, or it is not known."""
    is_hardware: bool = False
    """Whether the log reports broken hardware."""
    is_past: bool = False
    """Whether what was the reason is over, so that the next attempt need not wait for that."""

    @property
    def charged(self) -> str:
        return CHARGED[self.cause]


def attribute(entry: Entry | None, witness: Witness, wanted: Declaration, *, suspended: bool = False) -> Attribution:
    """Why an attempt ended.

    `entry` is the culprit, None if no container was seen to fail; `suspended`: its owner or a queue has suspended the
    job.
    """
    if suspended:
        return Attribution(FailureCause.SUSPENDED, "the job was suspended")
    return next(_reasons(entry, witness, wanted))


def _reasons(entry: Entry | None, witness: Witness, wanted: Declaration) -> Iterator[Attribution]:
    """All that explains the end, what counts most first."""
    failed_at = moment(entry.ended_at) if entry is not None else None
    limit = failed_at + timedelta(seconds=LATE_SECONDS) if failed_at is not None else None
    signs = [one for one in witness.signs.values() if limit is None or one.began is None or one.began <= limit]
    for sign in signs:
        if sign.cause is FailureCause.PREEMPTED:
            yield Attribution(sign.cause, f"{sign.where} was preempted")
    for sign in signs:
        # An end that somebody has asked for says nothing of the node.
        node = sign.node if sign.reason not in _ON_REQUEST else ""
        yield Attribution(sign.cause, f"{sign.where}: {sign.reason}", node=node, is_past=sign.reason == NODE_RESTARTED)
    told = _told(entry) if entry is not None else ""
    own = list(_by_end(entry, told, witness, wanted)) if entry is not None else []
    yield from (one for one in own if one.cause is FailureCause.INFRASTRUCTURE)
    speaks = entry is not None and not entry.is_victim
    for gone in witness.deletions.values():
        # Unless the culprit failed by itself before.
        if not (speaks and failed_at is not None and gone.began is not None and failed_at < gone.began):
            yield Attribution(gone.cause, f"{gone.where} was deleted")
    yield from own
    if entry is None:
        yield Attribution(FailureCause.CODE, "no container was seen to fail", is_certain=False)
    else:
        # A signal from outside may come with a lost node.
        is_certain = speaks and entry.exit_code not in _FROM_OUTSIDE
        yield Attribution(FailureCause.CODE, told, is_certain=is_certain, node=_own_node(entry, witness))


def _own_node(entry: Entry, witness: Witness) -> str:
    """The node of the culprit, if the attempt ran on others, too, and it speaks for itself."""
    return _node_of(entry, witness) if len(witness.nodes) > 1 and not entry.is_victim else ""


def _node_of(entry: Entry, witness: Witness) -> str:
    return witness.failed[entry.pod][0] if entry.pod in witness.failed else ""


def fingerprint(entry: Entry) -> str:
    """What tells two failures alike: exit code and words, without numbers. Empty: it does not tell enough.

    A rank that lost its peers, or that a signal ended from outside, does not say what was wrong.
    """
    if entry.is_victim or entry.exit_code in (None, *_FROM_OUTSIDE) or _KILLED.search(entry.said):
        return ""
    words = re.sub(r"(?:0x[0-9a-f]+|\d+)", "#", entry.said or entry.message, flags=re.IGNORECASE).strip()
    return f"{entry.exit_code} {words}" if words else ""


def _by_end(entry: Entry, told: str, witness: Witness, wanted: Declaration) -> Iterator[Attribution]:
    """What the end of the culprit itself shows, if it shows more than that it failed, which `told` says."""
    code, said, node = entry.exit_code, entry.said, _own_node(entry, witness)
    is_start, is_memory = entry.reason in NOT_STARTED, entry.reason == "OOMKilled"
    no_program = is_start and NO_PROGRAM.search(entry.message) is not None
    cluster = FailureCause.INFRASTRUCTURE
    if is_memory and entry.pod in witness.failed and entry.container not in witness.failed[entry.pod][1]:
        yield Attribution(cluster, f"{told}; it has no limit, so its node ran out of memory", node=node)
    if code in wanted.free or (is_start and not no_program):
        yield Attribution(cluster, told, node=node)
    if _HARDWARE.search(said) or _HARDWARE.search(entry.log):
        text, broken = f"{told}; its log reports broken hardware", _node_of(entry, witness)
        yield Attribution(cluster, text, node=broken, is_hardware=True)
    if code in CANNOT_RUN or code in wanted.no_retry or no_program:
        yield Attribution(FailureCause.CONFIGURATION, told)
    if is_memory or (_NO_MEMORY in entry.message and _KILLED.search(said)):
        yield Attribution(FailureCause.MEMORY, told, node=node)


def _told(entry: Entry) -> str:
    where = entry.where
    if not entry.container:
        return f"{where} failed ({entry.reason or 'no reason given'})"
    reason = f" ({entry.reason})" if entry.reason not in ("", "Error") else ""
    said = shortened(entry.said, _SAID)
    more = f"; its log ends with: {said}" if said else f": {shortened(entry.message, _SAID)}" if entry.message else ""
    return f"{where} failed with exit code {entry.exit_code}{reason}{more}"


def _signs_of(pod: Document) -> Iterator[Sign]:
    def sign(cause: FailureCause, reason: str, began: datetime | None) -> Sign:
        return Sign(cause, reason, rank_of(pod), name_of(pod), node_of(pod), began)

    for condition in dig(pod, "status.conditions") or ():
        if condition.get("type") == DISRUPTED and condition.get("status") == "True":
            reason = condition.get("reason") or DISRUPTED
            cause = FailureCause.PREEMPTED if reason == BY_SCHEDULER else FailureCause.INFRASTRUCTURE
            yield sign(cause, reason, moment(condition.get("lastTransitionTime")))
    if (reason := dig(pod, "status.reason")) and dig(pod, "status.phase") == "Failed":
        # The kubelet gives a reason to a pod that it has ended as a whole: Evicted, NodeShutdown and the like.
        yield sign(FailureCause.INFRASTRUCTURE, reason, None)


def _deletion_of(pod: Document) -> Sign | None:
    gone = moment(deletion_timestamp_of(pod))
    if gone is None:
        return None
    began = gone - timedelta(seconds=number_in(str(dig(pod, "metadata.deletionGracePeriodSeconds") or 0)))
    return Sign(FailureCause.INFRASTRUCTURE, DELETED, rank_of(pod), name_of(pod), node_of(pod), began)


def _ends(statuses: Iterable[Document], *, failed: bool = True) -> list[Document]:
    """How containers have ended; `failed`: those alone that have failed."""
    found = (dig(one, "state.terminated") for one in statuses)
    return [ended for ended in found if ended and (ended.get("exitCode") or not failed)]


def finished_ranks(pods: Iterable[Document]) -> dict[str, str]:
    """The replicated jobs of pods that have succeeded, by the uid of the pod, but for those of initializers.

    A Job never runs such a rank again, also if the pod succeeded while it was deleted, and is gone.
    """
    return {
        uid_of(pod): labels_of(pod).get(LABEL_REPLICATED_JOB, "")
        for pod in pods
        if dig(pod, "status.phase") == "Succeeded" and not is_of_initializer(pod)
    }


def _is_stopped(pod: Document) -> bool:
    """Whether all that ended in the pod did so since it is deleted."""
    ends = _ends(container_statuses(pod))
    return ended_by_deletion(pod, min((str(one.get("finishedAt") or "") for one in ends), default=""))
