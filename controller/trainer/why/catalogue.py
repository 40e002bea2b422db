# SPDX-License-Identifier: Apache-2.0
"""Every cause that the built-in checks give: its reason, how much it asks of people, and its place in the chain.

The number is stable and never used again. docs/users/causes.md lists them for users.
"""

from datetime import datetime
from typing import Any, NamedTuple

from trainwright.api.objects import Document, dig
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime
from trainwright.plugins.contract.picture import About, Cause, Link, Picture, Severity, index_of


class CatalogueRow(NamedTuple):
    number: int
    severity: Severity
    link: Link = Link.JOB
    failed: bool = False
    """Whether something ended or was refused."""
    explains: frozenset[str] = frozenset()
    """Reasons that are only consequences of this one."""


_E, _D, _P, _M, _W = Severity.ENDED, Severity.DELIBERATE, Severity.STUCK, Severity.TEMPORARY, Severity.WAITS

CATALOGUE: dict[str, CatalogueRow] = {
    # Nothing was made yet.
    "RuntimeMissing": CatalogueRow(1, _P),
    "SuspendedByOwner": CatalogueRow(2, _D),
    "QueueFull": CatalogueRow(3, _M),
    "QueueTooSmall": CatalogueRow(4, _P),
    "QueueMissing": CatalogueRow(5, _P),
    "QueueStopped": CatalogueRow(6, _P),
    "AdmissionCheckPending": CatalogueRow(7, _M),
    "EvictedByQueue": CatalogueRow(8, _M),
    "NotQueued": CatalogueRow(9, _P),
    "ManagedElsewhere": CatalogueRow(10, _D),
    "ManagerMissing": CatalogueRow(11, _P),
    "JobSetMissing": CatalogueRow(12, _P),
    "WebhookUnreachable": CatalogueRow(13, _M, Link.JOBSET),
    "ManagerForbidden": CatalogueRow(14, _P, Link.JOBSET),
    "NameTooLong": CatalogueRow(15, _P, Link.JOBSET),
    "NameTaken": CatalogueRow(16, _P, Link.JOBSET),
    "SnapshotInvalid": CatalogueRow(17, _P),
    "BuildFailed": CatalogueRow(18, _P),
    "ObjectQuotaExceeded": CatalogueRow(19, _M, Link.JOBSET),
    "GangSchedulerMissing": CatalogueRow(20, _P),
    "Refused": CatalogueRow(0, _P, Link.JOBSET),
    # The JobSet and its Jobs.
    "JobSetControllerSilent": CatalogueRow(21, _P, Link.JOBSET),
    "JobNotCreated": CatalogueRow(22, _P, Link.BATCH_JOB, failed=True),
    "ServiceNotCreated": CatalogueRow(23, _P, Link.BATCH_JOB, failed=True),
    "ServiceTaken": CatalogueRow(24, _P, Link.NETWORK),
    "ClaimNotCreated": CatalogueRow(25, _P, Link.BATCH_JOB, failed=True),
    "StepWaits": CatalogueRow(26, _W, Link.BATCH_JOB),
    # Pods cannot be created.
    "QuotaExceeded": CatalogueRow(27, _M, Link.PODS),
    "PodSecurityRefused": CatalogueRow(28, _P, Link.PODS),
    "ServiceAccountMissing": CatalogueRow(29, _P, Link.PODS),
    "PriorityClassMissing": CatalogueRow(30, _P, Link.PODS),
    "RuntimeClassMissing": CatalogueRow(31, _P, Link.PODS),
    "LimitRangeRefused": CatalogueRow(32, _P, Link.PODS),
    "PodWebhookUnreachable": CatalogueRow(33, _M, Link.PODS),
    "PodsRefused": CatalogueRow(0, _P, Link.PODS),
    # Pods cannot be scheduled.
    "NoFreeNode": CatalogueRow(34, _M, Link.SCHEDULING),
    "NodesTooSmall": CatalogueRow(35, _P, Link.SCHEDULING),
    "NoNodeMatches": CatalogueRow(36, _P, Link.SCHEDULING),
    "NodesTainted": CatalogueRow(37, _P, Link.SCHEDULING),
    "ClaimMissing": CatalogueRow(38, _P, Link.SCHEDULING),
    "ClaimPending": CatalogueRow(39, _M, Link.SCHEDULING),
    "SchedulerMissing": CatalogueRow(40, _P, Link.SCHEDULING),
    "SchedulingGated": CatalogueRow(41, _W, Link.SCHEDULING),
    "GangDoesNotFit": CatalogueRow(42, _M, Link.SCHEDULING),
    "GangCannotForm": CatalogueRow(44, _P, Link.SCHEDULING),
    "NodeComing": CatalogueRow(45, _W, Link.SCHEDULING),
    "Unschedulable": CatalogueRow(0, _M, Link.SCHEDULING),
    # Containers cannot start.
    "ImageMissing": CatalogueRow(46, _P, Link.START),
    "ImageForbidden": CatalogueRow(47, _P, Link.START),
    "RegistryUnavailable": CatalogueRow(48, _M, Link.START),
    "VariableSourceMissing": CatalogueRow(49, _P, Link.START),
    "VolumeSourceMissing": CatalogueRow(50, _P, Link.START, explains=frozenset({"SlowStart"})),
    "VolumeNotMounted": CatalogueRow(0, _M, Link.START, explains=frozenset({"SlowStart"})),
    "ContainerNotStarted": CatalogueRow(0, _P, Link.START),
    "ProgramMissing": CatalogueRow(51, _P, Link.START, failed=True, explains=frozenset({"BackOff"})),
    "InitializerFailed": CatalogueRow(52, _P, Link.START, failed=True),
    "NodeRefusedPod": CatalogueRow(53, _M, Link.START, failed=True),
    "SandboxFailed": CatalogueRow(54, _M, Link.START),
    "SlowStart": CatalogueRow(0, _M, Link.START),
    # Running, and over.
    "OutOfMemory": CatalogueRow(55, _P, Link.READINESS, failed=True, explains=frozenset({"RankFailed", "CrashLoop"})),
    "RankFailed": CatalogueRow(56, _P, Link.READINESS, failed=True),
    "CrashLoop": CatalogueRow(57, _P, Link.READINESS, failed=True),
    "Preempted": CatalogueRow(58, _M, Link.READINESS, failed=True),
    "EvictedByNode": CatalogueRow(59, _M, Link.READINESS, failed=True),
    "NodeLost": CatalogueRow(60, _M, Link.READINESS, failed=True),
    "Restarting": CatalogueRow(61, _M, Link.JOBSET, failed=True),
    "Ending": CatalogueRow(0, _M, Link.JOBSET, failed=True),
    "RestartsExhausted": CatalogueRow(62, _E, failed=True),
    "DeadlineExceeded": CatalogueRow(63, _E, failed=True),
    "JobDeadlineExceeded": CatalogueRow(64, _E, failed=True),
    "EvidenceGone": CatalogueRow(65, _E, failed=True),
    "Failed": CatalogueRow(0, _E, failed=True),
    "NotReady": CatalogueRow(66, _P, Link.READINESS, explains=frozenset({"StepWaits"})),
    "PodsRemain": CatalogueRow(67, _M, Link.JOB),
    "DeletionWaits": CatalogueRow(68, _P, Link.JOB),
    "Deleting": CatalogueRow(0, _W, Link.JOB),
    "NoReport": CatalogueRow(69, _P, Link.NETWORK),
    "RankEnded": CatalogueRow(0, _P, Link.NETWORK),
    "Running": CatalogueRow(70, _W, Link.NETWORK),
    "Complete": CatalogueRow(0, _E),
    "Starting": CatalogueRow(0, _W),
    "PodsEnding": CatalogueRow(0, _W),
}
"""By reason. Number 0: a cause beside the numbered ones, such as an answer that is quoted because it is not known."""


def cause(reason: str, message: str, about: About | None = None, since: datetime | None = None, **more: Any) -> Cause:
    """A cause of the catalogue; `more` holds further fields, or replaces those of its row."""
    fields: dict[str, Any] = {**CATALOGUE[reason]._asdict(), **more}
    del fields["number"]
    return Cause(reason=reason, message=message, about=about, since=since, **fields)


def of_pods(reason: str, message: str, *pods: Document, since: datetime | None = None, **more: Any) -> Cause:
    """A cause that concerns these pods, of which the first is the one to look at."""
    concerned = {"about": About.of(pods[0], "Pod"), "pods": len(pods), "index": index_of(pods[0]), **more}
    return cause(reason, message, since=since, **concerned)


def about_job(picture: Picture) -> About:
    return About.of(picture.job, "TrainJob")


def here(picture: Picture, kind: str, name: str) -> About:
    """The object of the job's namespace is the one to look at, whether it exists or not."""
    return About(kind=kind, namespace=picture.namespace, name=name)


def about_jobset(picture: Picture) -> About:
    return here(picture, "JobSet", picture.name)


RUNTIME_KINDS = {kind.RESOURCE.kind: kind.RESOURCE for kind in (ClusterTrainingRuntime, TrainingRuntime)}


def reference_of(job: Document) -> tuple[str, str]:
    """Kind and name of the runtime that the job refers to."""
    reference = dig(job, "spec.runtimeRef") or {}
    return str(reference.get("kind") or ClusterTrainingRuntime.RESOURCE.kind), str(reference.get("name", ""))


def runtime_of(picture: Picture) -> Document | None:
    """The runtime of the job as it is now; None if it does not exist or cannot be read."""
    kind, name = reference_of(picture.job)
    return picture.get(RUNTIME_KINDS[kind], name) if kind in RUNTIME_KINDS else None
