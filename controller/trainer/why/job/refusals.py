# SPDX-License-Identifier: Apache-2.0
"""Objects of the job that cannot be made: what the manager shows as `Blocked`, in words for the user of the job.

Managers without that condition, such as Kubeflow Trainer's, write the same answers into an event of the TrainJob.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime

from trainwright.api.objects import Document, controller_of, dig
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime
from trainwright.api.trainer.v1alpha1.constants import EVENT_RESOURCES_CREATION_FAILED, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.controller.trainer.why.catalogue import about_job, cause, here
from trainwright.controller.trainer.why.kinds import CONFIG_MAP, QUOTA
from trainwright.controller.trainer.why.words import quoted
from trainwright.plugins.contract import About, Cause, Picture, created_at, holds, since_of
from trainwright.plugins.contract.picture import JOBSET, event_since

_LIMIT = 63
_RANDOM = len("-abcde")
_KINDS = {kind.RESOURCE.kind: kind.RESOURCE for kind in (ClusterTrainingRuntime, TrainingRuntime)}
_WEBHOOK = re.compile(r'failed calling webhook "([^"]+)"')
_FORBIDDEN = re.compile(r'(?:User "([^"…]+)" )?cannot (get|list|watch|create|patch|update|delete) resource "([^"]+)"')
_QUOTA = re.compile(r"exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: ([^;]+)")
_UNCOUNTED = re.compile(r"status unknown for quota: ([^,\s]+), resources: ([^,\s]+)")
_TAKEN = re.compile(r"(\w+) (\S+) (?:exists without a controller|is controlled by (\S+ \S+))")
_NOT_SERVED = re.compile(r"(?:does not serve|no matches for kind) \"?(\w+)\"? (?:of|in version) \"?([\w./-]+)\"?")
_TOO_LONG = re.compile("must be no more than 63|too long|will exceed 63")


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
    resource = _KINDS.get(kind)
    if resource is None or not picture.lacks(resource, name):
        return None
    if not picture.lacks(CONFIG_MAP, f"{picture.name}{SUFFIX_RUNTIME_SNAPSHOT}"):
        return None
    where = f" in namespace {picture.namespace}" if resource.namespaced else ""
    (other,) = (one for one in _KINDS.values() if one is not resource)
    found = picture.get(other, name)
    if found is not None:
        advice = f"there is a {other.kind} of that name: create the job again with spec.runtimeRef.kind: {other.kind}"
    else:
        advice = f"create it, or create the job again with a runtime that `kubectl get {resource.plural}` lists"
    about = About(kind=kind, namespace=picture.namespace if resource.namespaced else "", name=name)
    since = since or created_at(picture.job)
    return cause("RuntimeMissing", f"{kind} {name} does not exist{where}: {advice}", about, since)


def reference_of(job: Document) -> tuple[str, str]:
    """Kind and name of the runtime that the job refers to."""
    reference = dig(job, "spec.runtimeRef") or {}
    return str(reference.get("kind") or ClusterTrainingRuntime.RESOURCE.kind), str(reference.get("name", ""))


def runtime_of(picture: Picture) -> Document | None:
    kind, name = reference_of(picture.job)
    return picture.get(_KINDS[kind], name) if kind in _KINDS else None


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
    for pattern, translate in _TRANSLATIONS:
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
    name, resource = found.groups()
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
    found = re.match(r"plugin (\S+): (.*)", message, re.DOTALL)
    if found is None:
        return f"the job cannot be built: {quoted(message, 240)}"
    return f"the {found[1]} plugin refuses the job: {quoted(found[2], 180)}; correct the runtime, or use another one"


_TRANSLATIONS: tuple[tuple[re.Pattern[str], Callable[[Picture, re.Match[str], datetime | None], Cause]], ...] = (
    (_WEBHOOK, _webhook),
    (_UNCOUNTED, _uncounted),
    (_QUOTA, _quota),
    (_FORBIDDEN, _forbidden),
    (_TOO_LONG, _name),
    (_TAKEN, _name_taken),
    (_NOT_SERVED, _scheduler),
)
"""What is looked for in an answer, in this order."""


def about_jobset(picture: Picture) -> About:
    return here(picture, "JobSet", picture.name)
