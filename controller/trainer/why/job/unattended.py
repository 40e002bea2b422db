# SPDX-License-Identifier: Apache-2.0
"""Jobs that nobody works on: suspended, queued by Kueue, of another cluster, without a manager or JobSet."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, labels_of, name_of, namespace_of, owners_of, uid_of
from trainwright.api.quantity import Quantity
from trainwright.api.times import format_time, moment
from trainwright.api.trainer.v1alpha1.constants import MANAGED_BY_TRAINER, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.api.trainer.v1alpha1.queues import LABEL_QUEUE
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import about_job, about_jobset, cause, here
from trainwright.controller.trainer.why.job.refusals import JOBSET_MISSING
from trainwright.controller.trainer.why.kinds import (
    BY_COMPONENT,
    CLUSTER_QUEUE,
    CONFIG_MAP,
    DEFAULT_HOME,
    DEPLOYMENT,
    LEASE,
    LEASE_NAME,
    LOCAL_QUEUE,
    VALIDATING_WEBHOOKS,
    WORKLOAD,
    is_manager,
)
from trainwright.controller.trainer.why.words import listed, quoted, verb
from trainwright.plugins.contract import holds
from trainwright.plugins.contract.picture import (
    JOBSET,
    About,
    Cause,
    Picture,
    Severity,
    condition_of,
    created_at,
    since_of,
)

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
NO_WORKLOAD_SECONDS = 60.0
NOT_RESUMED_SECONDS = 60.0
_PASSED_OVER = "equivalent workload"
"""In the words of Kueue about a job that it did not look at, since one that asks for the same did not fit."""
_WHY_EVICTED = {
    "Preempted": "preempted by a job of higher priority",
    "PodsReadyTimeout": "its pods were not ready in time",
    "AdmissionCheck": "an admission check was withdrawn",
    "NodeFailures": "a node failed",
    "ClusterQueueStopped": "its ClusterQueue was stopped",
    "LocalQueueStopped": "its LocalQueue was stopped",
    "Deactivated": "it was deactivated",
}
WEBHOOKS_NAME = "validator.trainer.kubeflow.org"
NO_MANAGER_SECONDS = 30.0
SILENT_SECONDS = 60.0


def suspended(picture: Picture) -> Iterator[Cause]:
    """Why a suspended job is not started, and that pods of before still end."""
    workload = None
    if not dig(picture.job, "spec.suspend"):
        # Kueue may queue the JobSet instead of the TrainJob.
        is_queued = dig(picture.jobset, "spec.suspend")
        workload = workload_of(picture) if is_queued else None
        if workload is None or picture.is_controller_of(workload):
            return  # Kueue has resumed the job, and its next attempt is held back
    workload = workload or workload_of(picture)
    queue = labels_of(picture.job).get(LABEL_QUEUE, "")
    # A job that was stopped a moment ago has no condition yet.
    since = since_of(holds(picture.job, "Suspended")) or (created_at(picture.job) if picture.jobset is None else None)
    if workload is not None:
        yield _queued(picture, workload, _queue_of(picture, workload))
    elif queue:
        yield _without_workload(picture, queue, since)
    else:
        text = "the job is suspended by its spec.suspend: set it to false to start the job"
        yield cause("SuspendedByOwner", text, about_job(picture), since)
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


def _without_workload(picture: Picture, queue: str, since: datetime | None) -> Cause:
    about = about_job(picture)
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
        f"remove the label {LABEL_QUEUE} and set spec.suspend to false"
    )
    return cause("NotQueued", text, about, since)


def _queue_missing(picture: Picture, queue: str) -> Cause:
    text = f"LocalQueue {queue} does not exist in namespace {picture.namespace}: correct the label {LABEL_QUEUE}"
    if not queue:
        text = f"the job names no queue, and Kueue manages jobs without one here: add the label {LABEL_QUEUE}"
        return cause("QueueMissing", text, about_job(picture), created_at(picture.job))
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
    local = picture.get(LOCAL_QUEUE, queue) if queue else None
    if not queue or (local is None and picture.lacks(LOCAL_QUEUE, queue)):
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
        for found in messages.QUOTA_MAXIMUM.finditer(message)
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
        text = f"Kueue stopped the job ({_why_evicted(evicted)}); it is queued again in {where} and starts by itself"
        return cause("EvictedByQueue", text, about, since_of(evicted))
    return cause("QueueFull", f"the job waits in {where}: {_what_lacks(picture, workload, message)}", about, since)


def _why_evicted(evicted: Document) -> str:
    return _WHY_EVICTED.get(str(evicted.get("reason")), quoted(str(evicted.get("message", "")), 100))


def _what_lacks(picture: Picture, workload: Document, message: str) -> str:
    """What must happen before Kueue admits a job. It does not look at a job that asks for what another one lacks."""
    if needed := _needed(message):
        return f"{needed} must become free; wait, or ask for less"
    is_passed_over = not message or _PASSED_OVER in message
    if is_passed_over and (needed := _needed_by_equals(picture, workload)):
        return f"a job that asks for the same waits, too: {needed} must become free; wait, or ask for less"
    if _PASSED_OVER in message:
        return "a job that asks for the same did not fit; Kueue looks at both again when quota becomes free"
    return quoted(message) if message else "Kueue has not looked at it yet"


def _needed(message: str) -> str:
    """What must become free. Pods of several steps are added up one by one, so the largest number is the whole."""
    most: dict[str, dict[str, str]] = {}
    for resource, flavor, more in messages.QUOTA_UNUSED.findall(message):
        of_resource = most.setdefault(resource, {})
        of_resource[flavor] = max(of_resource.get(flavor, more), more, key=_amount)
    return listed([_by_flavor(resource, flavors) for resource, flavors in most.items()])


def _by_flavor(resource: str, flavors: dict[str, str]) -> str:
    if len(flavors) == 1:
        return f"{next(iter(flavors.values()))} more {resource}"
    return " or ".join(f"{more} more {resource} of flavor {flavor}" for flavor, more in flavors.items())


def _amount(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError:
        return Quantity(0)


def _needed_by_equals(picture: Picture, workload: Document) -> str:
    """What a job lacks that asks for the same in the same queue."""
    equals = (other for other in picture.list(WORKLOAD) if _asks(other) == _asks(workload))
    found = (_needed(str((condition_of(other, "QuotaReserved") or {}).get("message", ""))) for other in equals)
    return next(filter(None, found), "")


def _asks(workload: Document) -> object:
    """What Kueue compares of jobs in a queue: how many pods ask for what, and where they may run."""
    pods = [(one.get("count"), dig(one, "template.spec")) for one in dig(workload, "spec.podSets") or ()]
    return dig(workload, "spec.queueName"), dig(workload, "spec.priority"), pods


def _stopped(picture: Picture, queue: str, local: Document | None, cluster: str, reserved: Document) -> Cause | None:
    message = str(reserved.get("message", ""))
    itself, of_cluster = here(picture, "LocalQueue", queue), About(kind="ClusterQueue", namespace="", name=cluster)
    if str(dig(local, "spec.stopPolicy") or "None") != "None":
        stopper = itself
    elif cluster and (dig(picture.get(CLUSTER_QUEUE, cluster), "spec.stopPolicy") or "None") != "None":
        stopper = of_cluster
    elif reserved.get("reason") == "Suspended" or messages.QUEUE_STOPPED.search(message):
        stopper = of_cluster if cluster and "ClusterQueue" in message else itself
    else:
        return None
    text = (
        f"{stopper.kind} {stopper.name} is stopped by its administrator: wait until it is started, or use another queue"
    )
    return cause("QueueStopped", text, stopper, since_of(reserved))


def _reserved(picture: Picture, workload: Document, about: About) -> Cause:
    status = workload.get("status") or {}
    if (evicted := holds(workload, "Evicted")) is not None:
        text = f"Kueue stops the job ({_why_evicted(evicted)}): it is queued again once its pods have ended"
        return cause("EvictedByQueue", text, about, since_of(evicted))
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


def elsewhere(picture: Picture) -> Iterator[Cause]:
    """The job is the business of another controller."""
    manager = dig(picture.job, "spec.managedBy")
    if not manager or manager == MANAGED_BY_TRAINER:
        return
    what = "ask that controller"
    if "multikueue" in manager:
        workload = workload_of(picture)
        cluster = dig(workload, "status.clusterName")
        if workload is not None and not cluster and not _is_placed(workload):
            yield _queued(picture, workload, _queue_of(picture, workload))
            return
        what = f"it runs in cluster {cluster}, look there" if cluster else "it runs in another cluster, look there"
        if workload is not None:
            what = f"queue {_queue_of(picture, workload)} admitted it, and {what}"
    text = f"the job is managed by {manager} (spec.managedBy): {what}"
    yield cause("ManagedElsewhere", text, about_job(picture), created_at(picture.job))


def _is_placed(workload: Document) -> bool:
    """Whether a worker cluster has the job. A Kueue that does not say which one has no `clusterName`."""
    return holds(workload, "Admitted") is not None and holds(workload, "Evicted") is None


def _queue_of(picture: Picture, workload: Document) -> str:
    return str(dig(workload, "spec.queueName") or labels_of(picture.job).get(LABEL_QUEUE, ""))


def unattended(picture: Picture) -> Iterator[Cause]:
    """No manager has made anything of the job, or JobSet has made nothing of its JobSet."""
    jobset = picture.get(JOBSET, picture.name)
    if jobset is None:
        if picture.serves(JOBSET) is False:
            about = About(kind="CustomResourceDefinition", namespace="", name="jobsets.jobset.x-k8s.io")
            yield cause("JobSetMissing", JOBSET_MISSING, about, created_at(picture.job))
        elif picture.lacks(JOBSET, picture.name) or picture.serves(JOBSET) is None:
            yield from _no_manager(picture)
        return
    if not picture.is_controller_of(jobset) or not _is_silent(picture, jobset):
        return
    text = (
        f"JobSet {picture.name} exists and the JobSet controller has not looked at it: is the JobSet controller "
        f"running? See `kubectl get pods -n {_jobset_namespace(picture)}`"
    )
    yield cause("JobSetControllerSilent", text, about_jobset(picture), created_at(jobset))


def _no_manager(picture: Picture) -> Iterator[Cause]:
    status = picture.job.get("status") or {}
    is_new = not picture.lasted(created_at(picture.job), NO_MANAGER_SECONDS)
    if status or is_new or not picture.lacks(CONFIG_MAP, f"{picture.name}{SUFFIX_RUNTIME_SNAPSHOT}"):
        return
    home = _home(picture)
    lease = _lease(picture, home)
    spec = dig(lease, "spec") or {}
    renewed = moment(spec.get("renewTime"))
    holder = spec.get("holderIdentity")
    severity = Severity.STUCK
    lasting = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15))
    if lease is not None and holder and renewed is not None and renewed + lasting >= picture.now:
        why = f"the manager {str(holder).partition('_')[0]} leads, and has not come to it; if that lasts, see its log"
        severity = Severity.TEMPORARY
    elif lease is not None and renewed is not None:
        where = "" if namespace_of(lease) == DEFAULT_HOME else f" of namespace {namespace_of(lease)}"
        why = f"no manager holds Lease {name_of(lease)}{where} (last renewed {format_time(renewed)}); start the manager"
    elif home:
        why = f"is a manager running? See `kubectl get pods,leases -n {home}`"
    elif _may_look_everywhere(picture):
        why = "no Deployment, Lease or webhook of a manager was found in this cluster; install or start one"
    else:
        why = "is a manager running? Where it runs may not be read: ask its administrator"
    text = f"no manager has looked at the job since it was created: {why}"
    yield cause(
        "ManagerMissing",
        text,
        About.of(lease, "Lease") if lease is not None else about_job(picture),
        created_at(picture.job),
        severity=severity,
    )


def _managers(picture: Picture) -> list[Document]:
    return [one for one in picture.list(DEPLOYMENT, labels=BY_COMPONENT, namespace="") if is_manager(one)]


def _home(picture: Picture) -> str:
    """The namespace of the manager: that of its Deployment, else of the Service behind its webhooks; empty: unknown."""
    for one in _managers(picture):
        return namespace_of(one)
    for hook in dig(picture.get(VALIDATING_WEBHOOKS, WEBHOOKS_NAME), "webhooks") or ():
        service = dig(hook, "clientConfig.service") or {}
        if service.get("namespace"):
            return str(service["namespace"])
    return ""


def _lease(picture: Picture, home: str) -> Document | None:
    """The Lease of the manager: the one of the usual name, else one that a pod of its Deployment holds."""
    found = list(picture.list(LEASE, fields=f"metadata.name={LEASE_NAME}", namespace=home))
    if not found and home:
        names = tuple(f"{name_of(one)}-" for one in _managers(picture) if namespace_of(one) == home)
        found = [
            one
            for one in picture.list(LEASE, namespace=home)
            if names and str(dig(one, "spec.holderIdentity") or "").startswith(names)
        ]
    if not found and not home and not _may_look_everywhere(picture):
        found = [one for one in [picture.get(LEASE, LEASE_NAME, DEFAULT_HOME)] if one is not None]
    return max(found, key=lambda one: str(dig(one, "spec.renewTime") or ""), default=None)


def _may_look_everywhere(picture: Picture) -> bool:
    return picture.knows(LEASE, fields=f"metadata.name={LEASE_NAME}", namespace="") and (
        picture.knows(DEPLOYMENT, labels=BY_COMPONENT, namespace="") or picture.serves(DEPLOYMENT) is False
    )


def _jobset_namespace(picture: Picture) -> str:
    found = picture.list(DEPLOYMENT, labels="app.kubernetes.io/part-of=jobset", namespace="")
    return namespace_of(found[0]) if found else "jobset-system"


def _is_silent(picture: Picture, jobset: Document) -> bool:
    spec, status = jobset.get("spec") or {}, jobset.get("status") or {}
    if status.get("conditions") or status.get("replicatedJobsStatus") or spec.get("suspend"):
        return False
    if not picture.lasted(created_at(jobset), SILENT_SECONDS):
        return False
    return not picture.jobs and not picture.events(jobset)
