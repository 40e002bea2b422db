# SPDX-License-Identifier: Apache-2.0
"""What the API server refuses: objects that the manager makes for a job, and pods that the Job controller makes."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2.labels import LABEL_REPLICATED_JOB
from trainwright.api.messages import counted
from trainwright.api.objects import Document, controller_of, dig, labels_of, name_of
from trainwright.api.quantity import Quantity
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1.constants import EVENT_RESOURCES_CREATION_FAILED, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import RUNTIME_KINDS, about_job, cause, here, reference_of, runtime_of
from trainwright.controller.trainer.why.job.jobset import summary_in
from trainwright.controller.trainer.why.job.scheduling import requests_of
from trainwright.controller.trainer.why.kinds import (
    CONFIG_MAP,
    LIMIT_RANGE,
    PRIORITY_CLASS,
    QUOTA,
    RUNTIME_CLASS,
    SERVICE_ACCOUNT,
)
from trainwright.controller.trainer.why.words import listed, quoted, replicated_jobs
from trainwright.plugins.contract import holds
from trainwright.plugins.contract.picture import (
    JOBSET,
    About,
    Cause,
    Picture,
    Severity,
    condition_of,
    created_at,
    event_since,
    since_of,
)

_LIMIT = 63
_RANDOM = len("-abcde")
_UNMADE_SECONDS = 10.0
_SILENT_SECONDS = 60.0
"""How long a Job may have no pod without a word, as in a burst of Jobs."""
_NAMED = (
    ("serviceAccountName", SERVICE_ACCOUNT, messages.NO_ACCOUNT),
    ("priorityClassName", PRIORITY_CLASS, messages.NO_PRIORITY_CLASS),
    ("runtimeClassName", RUNTIME_CLASS, messages.NO_RUNTIME_CLASS),
)
"""What a pod names: the field, the kind, and the answer where it does not exist."""


def refusals(picture: Picture) -> Iterator[Cause]:
    """Why the manager cannot make the objects of the job; at most one cause."""
    blocked = holds(picture.job, "Blocked")
    if blocked is not None:
        yield _translated(picture, str(blocked.get("reason")), str(blocked.get("message")), since_of(blocked))
        return
    if picture.jobset is not None:
        return
    missing = runtime_missing(picture)
    if missing is not None:
        yield missing
        return
    foreign = picture.get(JOBSET, picture.name)
    if foreign is not None:
        owner = controller_of(foreign)
        whose = f"{owner.kind} {owner.name}" if owner is not None else ""
        yield _taken(picture, "JobSet", picture.name, whose, created_at(foreign))
        return
    for event in picture.events(picture.job):
        if event.get("reason") == EVENT_RESOURCES_CREATION_FAILED:
            yield _translated(picture, "", str(event.get("message")), event_since(event))
            return


def runtime_missing(picture: Picture, since: datetime | None = None) -> Cause | None:
    """The runtime that the job refers to does not exist, and no snapshot of it was taken."""
    kind, name = reference_of(picture.job)
    resource = RUNTIME_KINDS.get(kind)
    if resource is None or not picture.lacks(resource, name):
        return None
    if not picture.lacks(CONFIG_MAP, f"{picture.name}{SUFFIX_RUNTIME_SNAPSHOT}"):
        return None
    where = f" in namespace {picture.namespace}" if resource.namespaced else ""
    (other,) = (one for one in RUNTIME_KINDS.values() if one is not resource)
    found = picture.get(other, name)
    if found is not None:
        advice = f"there is a {other.kind} of that name: create the job again with spec.runtimeRef.kind: {other.kind}"
    else:
        advice = f"create it, or create the job again with a runtime that `kubectl get {resource.plural}` lists"
    about = About(kind=kind, namespace=picture.namespace if resource.namespaced else "", name=name)
    since = since or created_at(picture.job)
    return cause("RuntimeMissing", f"{kind} {name} does not exist{where}: {advice}", about, since)


def _translated(picture: Picture, reason: str, message: str, since: datetime | None) -> Cause:
    """The condition or event in words that say what to do."""
    about = about_job(picture)
    if reason == "RuntimeMissing":
        found = runtime_missing(picture, since)
        return found if found is not None else cause("RuntimeMissing", message, about, since)
    if reason == "SnapshotInvalid":
        name = f"{picture.name}{SUFFIX_RUNTIME_SNAPSHOT}"
        text = f"{quoted(message, 220)}" if name in message else f"ConfigMap {name} cannot be used: {quoted(message)}"
        return cause("SnapshotInvalid", text, here(picture, "ConfigMap", name), since)
    for pattern, translate in _REFUSED_OBJECTS:
        if words := pattern.search(message):
            return translate(picture, words, since)
    if reason == "BuildFailed" or message.startswith("plugin "):
        return cause("BuildFailed", _build_failed(message), about, since)
    return cause("Refused", f"an object of the job is refused: {quoted(message, 240)}", about, since)


def _webhook(picture: Picture, found: re.Match[str], since: datetime | None) -> Cause:
    of_jobset = "jobset" in found[1] or found[1].endswith(".kb.io")
    who = "is the JobSet controller running?" if of_jobset else "is the program behind it running?"
    begin = found.string.partition(":")[0]
    what = begin if "/" in begin else f"jobsets/{picture.name}"
    text = f"{what} cannot be made: webhook {found[1]} does not answer; {who}"
    return cause("WebhookUnreachable", text, about_job(picture), since)


def _forbidden(picture: Picture, found: re.Match[str], since: datetime | None) -> Cause:
    user, verb, what = found.groups()
    who = f" ({user.removeprefix('system:serviceaccount:').replace(':', '/')})" if user else ""
    text = (
        f"the manager{who} may not {verb} {what} in namespace {picture.namespace}: its administrator must apply the "
        "roles that `trainwright rbac` prints"
    )
    return cause("ManagerForbidden", text, about_job(picture), since)


def _quota(picture: Picture, found: re.Match[str], since: datetime | None) -> Cause:
    resource, _, limit = found[4].strip().partition("=")
    text = (
        f"ResourceQuota {found[1]} allows {limit} {resource.removeprefix('count/')} in namespace "
        f"{picture.namespace}, and {found[3].partition('=')[2]} are used: delete finished jobs, or ask for a larger "
        "quota"
    )
    return cause("ObjectQuotaExceeded", text, here(picture, "ResourceQuota", found[1]), since)


def _uncounted(picture: Picture, found: re.Match[str], since: datetime | None) -> Cause:
    """A quota whose use was not counted yet, as after it was made; it refuses until then."""
    name, resource = found[1], found[2].partition(",")[0]
    hard = dig(picture.get(QUOTA, name), "spec.hard") or {}
    what = resource.removeprefix("count/")
    if str(hard.get(resource)) == "0":
        text = f"ResourceQuota {name} allows 0 {what} in namespace {picture.namespace}: ask for a larger quota"
    else:
        text = f"ResourceQuota {name} of namespace {picture.namespace} is not counted yet for {what}; it is tried again"
    return cause("ObjectQuotaExceeded", text, here(picture, "ResourceQuota", name), since)


def _name(picture: Picture, _: re.Match[str], since: datetime | None) -> Cause:
    longest = longest_name(picture)
    if longest is not None and longest > _LIMIT:
        text = (
            f"the name {picture.name} makes pod names of {longest} characters, and {_LIMIT} are allowed: create the "
            f"job again with a name that is shorter by {longest - _LIMIT}"
        )
    else:
        text = f"the name {picture.name} is too long: JobSet makes names of more than {_LIMIT} characters from it"
    return cause("NameTooLong", text, about_job(picture), since)


def longest_name(picture: Picture) -> int | None:
    """Characters of the longest pod name that JobSet would make; None if the runtime is not known."""
    spec = dig(runtime_of(picture), "spec") or {}
    jobs = dig(spec, "template.spec.replicatedJobs") or ()
    nodes = dig(picture.job, "spec.trainer.numNodes")
    nodes = nodes or dig(spec, "mlPolicy.numNodes") or 1
    lengths = [
        len(f"{picture.name}-{job.get('name')}-{(job.get('replicas') or 1) - 1}-{nodes - 1}") + _RANDOM for job in jobs
    ]
    return max(lengths, default=None)


def _name_taken(picture: Picture, found: re.Match[str], since: datetime | None) -> Cause:
    return _taken(picture, found[1], found[2].rpartition("/")[2], found[3] or "", since)


def _taken(picture: Picture, kind: str, name: str, owner: str, since: datetime | None) -> Cause:
    whose = f"belongs to {owner}" if owner else "was not made for this job"
    which = "that one" if owner else "it"
    text = f"{kind} {name} exists already and {whose}: delete {which}, or create the job under another name"
    return cause("NameTaken", text, here(picture, kind, name), since)


def _scheduler(picture: Picture, found: re.Match[str], since: datetime | None) -> Cause:
    kind, group = found[1], found[2].partition("/")[0]
    if kind == "JobSet":
        return cause("JobSetMissing", JOBSET_MISSING, about_job(picture), since)
    who = {"scheduling.volcano.sh": "Volcano", "scheduling.x-k8s.io": "the scheduler plugins (coscheduling)"}
    name = who.get(group, f"{kind} of {group}")
    kind_of_runtime, runtime = reference_of(picture.job)
    text = (
        f"{kind_of_runtime} {runtime} needs {name}, which this cluster does not have: install it and restart the "
        "manager, or use another runtime"
    )
    return cause("GangSchedulerMissing", text, About(kind=kind_of_runtime, namespace="", name=runtime), since)


JOBSET_MISSING = (
    "JobSet is not installed in this cluster, and TrainJobs run as JobSets: install JobSet (https://jobset.sigs.k8s.io)"
)


def _build_failed(message: str) -> str:
    found = messages.BUILD_FAILED.match(message)
    if found is None:
        return f"the job cannot be built: {quoted(message, 240)}"
    return f"the {found[1]} plugin refuses the job: {quoted(found[2], 180)}; correct the runtime, or use another one"


_REFUSED_OBJECTS: tuple[tuple[re.Pattern[str], Callable[[Picture, re.Match[str], datetime | None], Cause]], ...] = (
    (messages.WEBHOOK_FAILED, _webhook),
    (messages.QUOTA_UNCOUNTED, _uncounted),
    (messages.QUOTA_EXCEEDED, _quota),
    (messages.FORBIDDEN, _forbidden),
    (messages.NAME_TOO_LONG, _name),
    (messages.NAME_TAKEN, _name_taken),
    (messages.NOT_SERVED, _scheduler),
)
"""What is looked for in the answer to the manager, in this order."""


def uncreated(picture: Picture) -> Iterator[Cause]:
    """Jobs that lack pods, and why: from the last event of each, else from what their templates name."""
    told: dict[str, Cause] = {}
    if dig(picture.jobset, "spec.suspend"):
        return  # its Jobs are to have no pods
    for job in picture.jobs:
        spec, status = job.get("spec") or {}, job.get("status") or {}
        wanted = spec.get("parallelism")
        wanted = 1 if wanted is None else int(wanted)
        done = int(status.get("succeeded") or 0) + int(status.get("active") or 0)
        if spec.get("suspend") or done >= wanted or holds(job, "Failed") or holds(job, "Complete"):
            continue
        found = _from_events(picture, job, wanted, done)
        if found is None and picture.lasted(created_at(job), _UNMADE_SECONDS):
            found = _from_template(picture, job, wanted, done)
        if found is not None:
            told.setdefault(found.message, found)
    yield from told.values()


def _from_events(picture: Picture, job: Document, wanted: int, done: int) -> Cause | None:
    for event in picture.events(job):
        if event.get("reason") == "SuccessfulCreate":
            return None
        if event.get("reason") == "FailedCreate":
            return _refused(picture, job, str(event.get("message", "")), event_since(event), wanted, done)
    return None


@dataclass(frozen=True, slots=True)
class _Uncreated:
    """A Job that lacks pods."""

    picture: Picture
    job: Document
    count: str
    """How many of its pods could be created, in words."""
    more: dict[str, Any]
    """Since when, and how many pods are missing."""

    def told(self, reason: str, text: str, kind: str = "", name: str = "") -> Cause:
        """A cause about an object of the namespace; without one, about the Job."""
        about = here(self.picture, kind, name) if kind else About.of(self.job, "Job")
        return cause(reason, text, about, **self.more)


def _refused(picture: Picture, job: Document, message: str, since: datetime | None, wanted: int, done: int) -> Cause:
    message = message.removeprefix("Error creating: ")
    role = labels_of(job).get(LABEL_REPLICATED_JOB, name_of(job))
    of_role = f" of {role}" if len(replicated_jobs(picture)) > 1 else ""
    count = f"{done} of {counted(wanted, 'pod')}{of_role} could be created"
    uncreated = _Uncreated(picture, job, count, {"since": since, "pods": wanted - done})
    for pattern, translate in _REFUSED_PODS:
        if found := pattern.search(message):
            return translate(uncreated, found)
    return cause("PodsRefused", f"{count}: {quoted(message, 220)}", About.of(job, "Job"), **uncreated.more)


def _pod_security(one: _Uncreated, found: re.Match[str]) -> Cause:
    text = (
        f"namespace {one.picture.namespace} allows {found[1]} pods only, and those of the job violate that: "
        f"{_security(found[2])}; use another runtime, or another namespace"
    )
    about = About(kind="Namespace", namespace="", name=one.picture.namespace)
    return cause("PodSecurityRefused", text, about, **one.more)


def _pod_quota(one: _Uncreated, found: re.Match[str]) -> Cause:
    name = found[1].strip()
    asked, used, limited = (_amounts(found[number]) for number in (2, 3, 4))
    resource = next(iter(asked), "")
    never = _above(asked.get(resource, "0"), limited.get(resource, "0"))
    what = resource.removeprefix("requests.").removeprefix("count/")
    advice = "wait until other jobs end, or ask for a larger quota"
    if never:
        advice = "it never fits: ask for less, or for a larger quota"
    text = (
        f"{one.count}: ResourceQuota {name} allows {limited.get(resource)} {what}, {used.get(resource)} "
        f"{'is' if used.get(resource) == '1' else 'are'} used, and each pod asks for {asked.get(resource)}; {advice}"
    )
    more: dict[str, Any] = {"severity": Severity.STUCK} if never else {}
    return cause("QuotaExceeded", text, here(one.picture, "ResourceQuota", name), **{**one.more, **more})


def _amounts(text: str) -> dict[str, str]:
    return {name.strip(): value for name, _, value in (part.partition("=") for part in text.split(","))}


def _above(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) > Quantity.parse(other)
    except ValueError:
        return False


def _security(text: str) -> str:
    """The settings that pods lack, of the text of pod security admission."""
    found = messages.POD_SECURITY_LACKS.findall(text)
    names = [part.removeprefix("securityContext.") for part in found]
    return f"they lack {listed(names, 5)}" if names else quoted(text, 120)


def _missing(picture: Picture, resource: Resource, name: str, *, since: datetime | None, pods: int) -> Cause:
    """What the pods name does not exist: their service account, or a class."""
    kind, place = resource.kind, picture.namespace if resource.namespaced else ""
    if place:
        how = f"does not exist in namespace {place}: create it, or correct the runtime and create the job again"
    else:
        field = f"{kind[0].lower()}{kind[1:]}Name"
        how = f"does not exist: correct {field} in the runtime, or have the class created"
    text = f"{kind} {name} {how}"
    return cause(f"{kind}Missing", text, About(kind=kind, namespace=place, name=name), since, pods=pods)


def _limit(one: _Uncreated, found: re.Match[str]) -> Cause:
    bound, resource, per, allowed, _, asked = found.groups()
    picture = one.picture
    ranges = [name_of(each) for each in picture.list(LIMIT_RANGE)]
    name = ranges[0] if len(ranges) == 1 else ""
    who = f"LimitRange {name}" if name else "a LimitRange"
    most = "at most" if bound == "maximum" else "at least"
    compared = f"and the pods ask for {asked}" if asked else "and the pods do not say how much they need"
    text = (
        f"{who} of namespace {picture.namespace} allows {most} {allowed} {resource} for a {per.lower()}, {compared}: "
        "change spec.trainer.resourcesPerNode, or the runtime"
    )
    about = here(picture, "LimitRange", name) if name else None
    return cause("LimitRangeRefused", text, about, **one.more)


def _unspecified(one: _Uncreated, found: re.Match[str]) -> Cause:
    what = f"{one.count}: ResourceQuota {found[1]} needs {quoted(found[2], 100)}"
    text = f"{what}: set it in spec.trainer.resourcesPerNode, or in the runtime"
    return one.told("PodsRefused", text, "ResourceQuota", found[1])


def _pod_uncounted(one: _Uncreated, found: re.Match[str]) -> Cause:
    text = f"{one.count}: ResourceQuota {found[1]} is not counted yet for {found[2]}; it is tried again"
    return one.told("QuotaExceeded", text, "ResourceQuota", found[1])


def _pod_webhook(one: _Uncreated, found: re.Match[str]) -> Cause:
    text = f"pods of the job cannot be created: webhook {found[1]} does not answer; ask who runs it"
    return one.told("PodWebhookUnreachable", text)


def _pod_denied(one: _Uncreated, found: re.Match[str]) -> Cause:
    return one.told("PodsRefused", f"{one.count}: webhook {found[1]} refuses them: {quoted(found[2], 160)}")


def _absent(resource: Resource) -> "_OfPods":
    return lambda one, found: _missing(one.picture, resource, found[1] or found[found.re.groups], **one.more)


_OfPods: TypeAlias = Callable[[_Uncreated, re.Match[str]], Cause]
_REFUSED_PODS: tuple[tuple[re.Pattern[str], _OfPods], ...] = (
    (messages.QUOTA_EXCEEDED, _pod_quota),
    (messages.QUOTA_UNCOUNTED, _pod_uncounted),
    (messages.QUOTA_UNSPECIFIED, _unspecified),
    (messages.POD_SECURITY, _pod_security),
    *((pattern, _absent(resource)) for _, resource, pattern in _NAMED),
    (messages.LIMIT_RANGE, _limit),
    (messages.WEBHOOK_FAILED, _pod_webhook),
    (messages.WEBHOOK_DENIED, _pod_denied),
)
"""What is looked for in the answer to the Job controller, in this order."""


def _began(picture: Picture, job: Document) -> datetime | None:
    """Since when the Job may have pods: its creation, or its last resume, which JobSet and Job controller note."""
    found = summary_in(picture)
    times = [
        created_at(job),
        since_of(condition_of(job, "Suspended")),
        since_of(condition_of(picture.jobset, "Suspended")) if picture.jobset is not None else None,
        moment(found.hold_until) if found is not None else None,
    ]
    return max((one for one in times if one is not None), default=None)


def _from_template(picture: Picture, job: Document, wanted: int, done: int) -> Cause | None:
    """What the pods name and does not exist, and quotas that are too small: events are gone after an hour."""
    pod = dig(job, "spec.template.spec") or {}
    more: dict[str, Any] = {"since": created_at(job), "pods": wanted - done}
    for field, resource, _ in _NAMED:
        name = pod.get(field)
        is_built_in = resource == PRIORITY_CLASS and str(name).startswith("system-")
        if name and not is_built_in and picture.lacks(resource, name):
            return _missing(picture, resource, name, **more)
    requests = requests_of(pod)
    for quota in picture.list(QUOTA):
        status = quota.get("status") or {}
        for resource, hard in sorted((status.get("hard") or {}).items()):
            asked = requests.get(resource.removeprefix("requests."))
            used = (status.get("used") or {}).get(resource, "0")
            if asked is None or not Quantity.parse(used) + asked > Quantity.parse(hard):
                continue
            text = (
                f"exceeded quota: {name_of(quota)}, requested: {resource}={asked}, used: {resource}={used}, limited: "
                f"{resource}={hard}"
            )
            return _refused(picture, job, text, created_at(job), wanted, done)
    if done or picture.present_pods or not picture.lasted(_began(picture, job), _SILENT_SECONDS):
        return None
    if dig(job, "status.failed"):
        return None  # it had some, and waits before it makes the next
    text = (
        f"Job {name_of(job)} has none of its {wanted} pods, and no event says why: is the Job controller running? "
        f"See `kubectl describe job {name_of(job)}`"
    )
    return cause("PodsRefused", text, About.of(job, "Job"), **more)
