# SPDX-License-Identifier: Apache-2.0
"""Suspended jobs: by their owner, or by Kueue, whose Workload says what it waits for."""

import re
from collections.abc import Iterator

from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, labels_of, name_of, owners_of, uid_of
from trainwright.controller.trainer.why.catalogue import about_job, cause, here
from trainwright.controller.trainer.why.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from trainwright.controller.trainer.why.words import listed, quoted, verb
from trainwright.plugins.contract import About, Cause, Picture, Severity, condition_of, created_at, holds, since_of

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
NO_WORKLOAD_SECONDS = 60.0
NOT_RESUMED_SECONDS = 60.0
_UNUSED = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_MAXIMUM = re.compile(
    r"insufficient quota for (?P<resource>[^\s,]+),? in flavor [^\s,]+, (?:"
    r"request > maximum capacity \((?P<asked>\S+) > (?P<most>[^\s)]+)\)|"
    r".*?podset request \((?P<podset>[^\s)]+)\) > maximum capacity \((?P<capacity>[^\s)]+)\))"
)
_STOPPED = re.compile(r"is (?:inactive|stopped)|stop(?:ped|Policy)", re.IGNORECASE)
_WHY_EVICTED = {
    "Preempted": "preempted by a job of higher priority",
    "PodsReadyTimeout": "its pods were not ready in time",
    "AdmissionCheck": "an admission check was withdrawn",
    "NodeFailures": "a node failed",
    "ClusterQueueStopped": "its ClusterQueue was stopped",
    "LocalQueueStopped": "its LocalQueue was stopped",
    "Deactivated": "it was deactivated",
}


def suspended(picture: Picture) -> Iterator[Cause]:
    """Why a suspended job is not started, and that pods of before still end."""
    workload = None
    if not dig(picture.job, "spec.suspend"):
        # Kueue may queue the JobSet instead of the TrainJob.
        is_queued = dig(picture.jobset, "spec.suspend")
        workload = workload_of(picture) if is_queued else None
        if workload is None:
            return
    workload = workload or workload_of(picture)
    queue = labels_of(picture.job).get(QUEUE_LABEL, "")
    if workload is not None:
        yield _queued(picture, workload, str(dig(workload, "spec.queueName") or queue))
    elif queue:
        yield _without_workload(picture, queue)
    else:
        text = "the job is suspended by its spec.suspend: set it to false to start the job"
        yield cause(
            "SuspendedByOwner",
            text,
            about_job(picture),
            since_of(holds(picture.job, "Suspended")) or created_at(picture.job),
        )
    left = [pod for pod in picture.pods if dig(pod, "status.phase") not in ("Succeeded", "Failed")]
    if left:
        number = len(left)
        text = f"{counted(number, 'pod')} of the job {verb(number, 'is', 'are')} still ending"
        yield cause("PodsEnding", text, About.of(left[0], "Pod"), pods=number)


def workload_of(picture: Picture) -> Document | None:
    if picture.serves(WORKLOAD) is not True:
        return None
    jobset = uid_of(picture.jobset) if picture.jobset is not None else None
    labelled = picture.list(WORKLOAD, labels=f"{JOB_UID_LABEL}={uid_of(picture.job)}")
    for workload in labelled or picture.list(WORKLOAD):
        if picture.is_controller_of(workload) or any(owner.uid == jobset for owner in owners_of(workload)):
            return workload
    return None


def _without_workload(picture: Picture, queue: str) -> Cause:
    about = about_job(picture)
    since = since_of(holds(picture.job, "Suspended")) or created_at(picture.job)
    served = picture.serves(WORKLOAD)
    if served is True and not picture.knows(WORKLOAD):
        text = f"the job is suspended and labelled for queue {queue}; its Workload may not be read, which would say why"
        return cause("QueueFull", text, about, since)
    if served is True and picture.lacks(LOCAL_QUEUE, queue):
        return _queue_missing(picture, queue)
    if served is None or (served and not picture.lasted(created_at(picture.job), NO_WORKLOAD_SECONDS)):
        text = f"the job waits in queue {queue}: Kueue has not made a Workload for it yet"
        return cause("QueueFull", text, about, since)
    why = "Kueue does not manage TrainJobs" if served else "Kueue is not installed"
    text = (
        f"the job is labelled for queue {queue}, but there is no Workload for it: {why}; ask the administrator, or "
        f"remove the label {QUEUE_LABEL} and set spec.suspend to false"
    )
    return cause("NotQueued", text, about, since)


def _queue_missing(picture: Picture, queue: str) -> Cause:
    text = f"LocalQueue {queue} does not exist in namespace {picture.namespace}: correct the label {QUEUE_LABEL}"
    return cause("QueueMissing", text, here(picture, "LocalQueue", queue), created_at(picture.job))


def _queued(picture: Picture, workload: Document, queue: str) -> Cause:  # noqa: PLR0911 - one for each state
    about = About.of(workload, "Workload")
    reserved = condition_of(workload, "QuotaReserved") or {}
    if dig(workload, "spec.active") is False:
        ended = holds(workload, "Evicted") or {}
        why = f" ({quoted(str(ended['message']), 120)})" if ended.get("message") else ""
        text = f"Workload {name_of(workload)} is deactivated{why}: set its spec.active to true to queue the job again"
        return cause("EvictedByQueue", text, about, since_of(ended), severity=Severity.STUCK)
    if reserved.get("status") == "True":
        return _reserved(picture, workload, about)
    local = picture.get(LOCAL_QUEUE, queue)
    if local is None and picture.lacks(LOCAL_QUEUE, queue):
        return _queue_missing(picture, queue)
    cluster = str(dig(local, "spec.clusterQueue") or "")
    stopped = _stopped(picture, queue, local, cluster, reserved)
    if stopped is not None:
        return stopped
    message, reason = str(reserved.get("message", "")), str(reserved.get("reason", ""))
    since = since_of(reserved) or created_at(workload)
    where = f"queue {queue}" + (f" (ClusterQueue {cluster})" if cluster else "")
    target = f"ClusterQueue {cluster}" if cluster else f"queue {queue}"
    too_much = [
        (found["asked"] or found["podset"], found["resource"], found["most"] or found["capacity"])
        for found in _MAXIMUM.finditer(message)
    ]
    if reason in ("ExceedsMaxQuota", "NoMatchingFlavor") or too_much:
        if too_much:
            asked, resource, most = too_much[0]
            text = (
                f"the job asks for {asked} {resource}, and {target} gives at most {most}: ask for less, or use "
                "another queue"
            )
        else:
            text = f"{target} can never admit the job: {quoted(message)}; change the job, or use another queue"
        return cause("QueueTooSmall", text, about, since)
    if "LocalQueue" in message and "doesn't exist" in message:
        return _queue_missing(picture, queue)
    if reason in ("Misconfigured", "Inadmissible"):
        return cause("QueueMissing", f"{where} cannot take the job: {quoted(message)}", about, since)
    evicted = holds(workload, "Evicted")
    if evicted is not None:
        why = _WHY_EVICTED.get(str(evicted.get("reason")), quoted(str(evicted.get("message", "")), 100))
        text = f"Kueue stopped the job ({why}); it is queued again in {where} and starts by itself"
        return cause("EvictedByQueue", text, about, since_of(evicted))
    needed = [f"{found[3]} more {found[1]}" for found in _UNUSED.finditer(message)]
    if needed:
        text = f"{listed(needed)} must become free; wait, or ask for less"
    else:
        text = quoted(message) if message else "Kueue has not looked at it yet"
    return cause("QueueFull", f"the job waits in {where}: {text}", about, since)


def _stopped(picture: Picture, queue: str, local: Document | None, cluster: str, reserved: Document) -> Cause | None:
    message = str(reserved.get("message", ""))
    itself, of_cluster = here(picture, "LocalQueue", queue), About(kind="ClusterQueue", namespace="", name=cluster)
    if str(dig(local, "spec.stopPolicy") or "None") != "None":
        stopper = itself
    elif cluster and (dig(picture.get(CLUSTER_QUEUE, cluster), "spec.stopPolicy") or "None") != "None":
        stopper = of_cluster
    elif reserved.get("reason") == "Suspended" or _STOPPED.search(message):
        stopper = of_cluster if cluster and "ClusterQueue" in message else itself
    else:
        return None
    text = (
        f"{stopper.kind} {stopper.name} is stopped by its administrator: wait until it is started, or use another queue"
    )
    return cause("QueueStopped", text, stopper, since_of(reserved))


def _reserved(picture: Picture, workload: Document, about: About) -> Cause:
    status = workload.get("status") or {}
    waiting = [check for check in status.get("admissionChecks") or () if check.get("state") != "Ready"]
    since = since_of(condition_of(workload, "QuotaReserved"))
    if waiting:
        first = min(waiting, key=lambda check: str(check.get("name")))
        told = f": {quoted(first['message'])}" if first.get("message") else ""
        word = {"Rejected": "was rejected by", "Retry": "will be tried again by"}.get(
            str(first.get("state")), "waits for"
        )
        text = f"the job has its quota and {word} admission check {first.get('name')}{told}"
        return cause("AdmissionCheckPending", text, about, since)
    admitted = f"Kueue has admitted Workload {name_of(workload)}"
    admitted_since = since_of(holds(workload, "Admitted"))
    if picture.lasted(admitted_since, NOT_RESUMED_SECONDS):
        text = f"{admitted}, but has not resumed the job: ask the administrator; the log of Kueue's manager says why"
        return cause("QueueFull", text, about, admitted_since, severity=Severity.STUCK)
    return cause("QueueFull", f"{admitted}, and the job is about to be resumed", about, since)
