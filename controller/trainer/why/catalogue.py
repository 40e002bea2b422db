# SPDX-License-Identifier: Apache-2.0
"""Every cause that the built-in checks give: its reason, how much it asks of people, and its place in the chain.

The number is stable and never used again. docs/users/causes.md lists them for users.
"""

from datetime import datetime
from typing import Any, NamedTuple

from trainwright.plugins.contract import About, Cause, Link, Severity


class Entry(NamedTuple):
    """What is the same for all causes of one reason."""

    number: int
    severity: Severity
    link: Link = Link.JOB
    failed: bool = False
    """Whether something ended or was refused."""
    explains: frozenset[str] = frozenset()
    """Reasons that are only consequences of this one."""


_E, _D, _P, _M, _W = Severity.ENDED, Severity.DELIBERATE, Severity.STUCK, Severity.TEMPORARY, Severity.WAITS

CATALOGUE: dict[str, Entry] = {
    # Nothing was made yet.
    "RuntimeMissing": Entry(1, _P),
    "SuspendedByOwner": Entry(2, _D),
    "QueueFull": Entry(3, _M),
    "QueueTooSmall": Entry(4, _P),
    "QueueMissing": Entry(5, _P),
    "QueueStopped": Entry(6, _P),
    "AdmissionCheckPending": Entry(7, _M),
    "EvictedByQueue": Entry(8, _M),
    "NotQueued": Entry(9, _P),
    "ManagedElsewhere": Entry(10, _D),
    "ManagerMissing": Entry(11, _P),
    "JobSetMissing": Entry(12, _P),
    "WebhookUnreachable": Entry(13, _M, Link.JOBSET),
    "ManagerForbidden": Entry(14, _P, Link.JOBSET),
    "NameTooLong": Entry(15, _P, Link.JOBSET),
    "NameTaken": Entry(16, _P, Link.JOBSET),
    "SnapshotInvalid": Entry(17, _P),
    "BuildFailed": Entry(18, _P),
    "ObjectQuotaExceeded": Entry(19, _M, Link.JOBSET),
    "GangSchedulerMissing": Entry(20, _P),
    "Refused": Entry(0, _P, Link.JOBSET),
    # The JobSet and its Jobs.
    "JobSetControllerSilent": Entry(21, _P, Link.JOBSET),
    "JobNotCreated": Entry(22, _P, Link.BATCH_JOB, failed=True),
    "ServiceNotCreated": Entry(23, _P, Link.BATCH_JOB, failed=True),
    "ServiceTaken": Entry(24, _P, Link.NETWORK),
    "ClaimNotCreated": Entry(25, _P, Link.BATCH_JOB, failed=True),
    "StepWaits": Entry(26, _W, Link.BATCH_JOB),
    # Pods cannot be created.
    "QuotaExceeded": Entry(27, _M, Link.PODS),
    "PodSecurityRefused": Entry(28, _P, Link.PODS),
    "ServiceAccountMissing": Entry(29, _P, Link.PODS),
    "PriorityClassMissing": Entry(30, _P, Link.PODS),
    "RuntimeClassMissing": Entry(31, _P, Link.PODS),
    "LimitRangeRefused": Entry(32, _P, Link.PODS),
    "PodWebhookUnreachable": Entry(33, _M, Link.PODS),
    "PodsRefused": Entry(0, _P, Link.PODS),
    # Pods cannot be scheduled.
    "NoFreeNode": Entry(34, _M, Link.SCHEDULING),
    "NodesTooSmall": Entry(35, _P, Link.SCHEDULING),
    "NoNodeMatches": Entry(36, _P, Link.SCHEDULING),
    "NodesTainted": Entry(37, _P, Link.SCHEDULING),
    "ClaimMissing": Entry(38, _P, Link.SCHEDULING),
    "ClaimPending": Entry(39, _M, Link.SCHEDULING),
    "SchedulerMissing": Entry(40, _P, Link.SCHEDULING),
    "SchedulingGated": Entry(41, _W, Link.SCHEDULING),
    "GangDoesNotFit": Entry(42, _M, Link.SCHEDULING),
    "GangCannotForm": Entry(44, _P, Link.SCHEDULING),
    "NodeComing": Entry(45, _W, Link.SCHEDULING),
    "Unschedulable": Entry(0, _M, Link.SCHEDULING),
    # Containers cannot start.
    "ImageMissing": Entry(46, _P, Link.START),
    "ImageForbidden": Entry(47, _P, Link.START),
    "RegistryUnavailable": Entry(48, _M, Link.START),
    "VariableSourceMissing": Entry(49, _P, Link.START),
    "VolumeSourceMissing": Entry(50, _P, Link.START, explains=frozenset({"SlowStart"})),
    "VolumeNotMounted": Entry(0, _M, Link.START, explains=frozenset({"SlowStart"})),
    "ContainerNotStarted": Entry(0, _P, Link.START),
    "ProgramMissing": Entry(51, _P, Link.START, failed=True, explains=frozenset({"BackOff"})),
    "InitializerFailed": Entry(52, _P, Link.START, failed=True),
    "NodeRefusedPod": Entry(53, _M, Link.START, failed=True),
    "SandboxFailed": Entry(54, _M, Link.START),
    "SlowStart": Entry(0, _M, Link.START),
    # Running, and over.
    "OutOfMemory": Entry(55, _P, Link.READINESS, failed=True, explains=frozenset({"RankFailed", "CrashLoop"})),
    "RankFailed": Entry(56, _P, Link.READINESS, failed=True),
    "CrashLoop": Entry(57, _P, Link.READINESS, failed=True),
    "Preempted": Entry(58, _M, Link.READINESS, failed=True),
    "EvictedByNode": Entry(59, _M, Link.READINESS, failed=True),
    "NodeLost": Entry(60, _M, Link.READINESS, failed=True),
    "Restarting": Entry(61, _M, Link.JOBSET, failed=True),
    "RestartsExhausted": Entry(62, _E, failed=True),
    "DeadlineExceeded": Entry(63, _E, failed=True),
    "JobDeadlineExceeded": Entry(64, _E, failed=True),
    "EvidenceGone": Entry(65, _E, failed=True),
    "Failed": Entry(0, _E, failed=True),
    "NotReady": Entry(66, _P, Link.READINESS),
    "PodsRemain": Entry(67, _M, Link.JOB),
    "DeletionWaits": Entry(68, _P, Link.JOB),
    "Deleting": Entry(0, _W, Link.JOB),
    "NoReport": Entry(69, _P, Link.NETWORK),
    "RankEnded": Entry(0, _P, Link.NETWORK),
    "Running": Entry(70, _W, Link.NETWORK),
    "Complete": Entry(0, _E),
    "Starting": Entry(0, _W),
    "PodsEnding": Entry(0, _W),
}
"""By reason. Number 0: a cause beside the numbered ones, such as an answer that is quoted because it is not known."""


def cause(
    reason: str, message: str, *, about: About | None = None, since: datetime | None = None, **more: Any
) -> Cause:
    """A cause of the catalogue; `more` holds further fields, or replaces those of its entry."""
    entry = CATALOGUE[reason]
    fields: dict[str, Any] = {
        "severity": entry.severity,
        "link": entry.link,
        "failed": entry.failed,
        "explains": entry.explains,
        **more,
    }
    return Cause(reason=reason, message=message, about=about, since=since, **fields)
