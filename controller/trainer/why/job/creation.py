# SPDX-License-Identifier: Apache-2.0
"""Pods that the Job controller cannot create: quotas, pod security, missing classes and accounts, webhooks."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2.labels import LABEL_REPLICATED_JOB
from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, labels_of, name_of
from trainwright.api.quantity import Quantity
from trainwright.controller.trainer.why.catalogue import cause, here
from trainwright.controller.trainer.why.job.capacity import requests_of
from trainwright.controller.trainer.why.kinds import LIMIT_RANGE, PRIORITY_CLASS, QUOTA, RUNTIME_CLASS, SERVICE_ACCOUNT
from trainwright.controller.trainer.why.words import listed, quoted, replicated_jobs
from trainwright.plugins.contract import About, Cause, Picture, Severity, created_at, holds
from trainwright.plugins.contract.picture import event_since

_UNMADE_SECONDS = 10.0
_SILENT_SECONDS = 60.0
"""How long a Job may have no pod without a word, as in a burst of Jobs."""
_QUOTA = re.compile(r"exceeded quota: ([^,]+), requested: (.+?), used: (.+?), limited: (.+?)(?:; |$)")
_UNCOUNTED = re.compile(r"status unknown for quota: ([^,\s]+), resources: (\S+)")
_MUST_SPECIFY = re.compile(r"failed quota: ([^:]+): must specify (.+)")
_SECURITY = re.compile(r'violates PodSecurity "([\w-]+):[^"]*": (.+)', re.DOTALL)
_ACCOUNT = re.compile(r'error looking up service account \S+?/(\S+?):|serviceaccount "([^"]+)" not found')
_PRIORITY = re.compile(r"no PriorityClass with name (\S+) was found")
_RUNTIME = re.compile(r'RuntimeClass "([^"]+)" not found')
_LIMIT = re.compile(r"(maximum|minimum) (\S+) usage per (\w+) is ([^,.\s]+)(?:, but (request|limit) is ([^\s,.\]]+))?")
_WEBHOOK = re.compile(r'failed calling webhook "([^"]+)"')
_NAMED = (
    ("serviceAccountName", SERVICE_ACCOUNT, _ACCOUNT),
    ("priorityClassName", PRIORITY_CLASS, _PRIORITY),
    ("runtimeClassName", RUNTIME_CLASS, _RUNTIME),
)
"""What a pod names: the field, the kind, and the answer where it does not exist."""
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request: (.+)', re.DOTALL)


def uncreated(picture: Picture) -> Iterator[Cause]:
    """Jobs that lack pods, and why: from the last event of each, else from what their templates name."""
    told: dict[str, Cause] = {}
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
            return _translated(picture, job, str(event.get("message", "")), event_since(event), wanted, done)
    return None


def _translated(  # noqa: PLR0911 - one return for each answer that is known
    picture: Picture, job: Document, message: str, since: datetime | None, wanted: int, done: int
) -> Cause:
    message = message.removeprefix("Error creating: ")
    role = labels_of(job).get(LABEL_REPLICATED_JOB, name_of(job))
    of_role = f" of {role}" if len(replicated_jobs(picture)) > 1 else ""
    count = f"{done} of {counted(wanted, 'pod')}{of_role} could be created"
    more: dict[str, Any] = {"since": since, "pods": wanted - done}
    if found := _QUOTA.search(message):
        return _quota(picture, found, count, **more)
    if found := _UNCOUNTED.search(message):
        about = here(picture, "ResourceQuota", found[1])
        text = f"{count}: ResourceQuota {found[1]} is not counted yet for {found[2]}; it is tried again"
        return cause("QuotaExceeded", text, about, **more)
    if found := _MUST_SPECIFY.search(message):
        about = here(picture, "ResourceQuota", found[1])
        text = (
            f"{count}: ResourceQuota {found[1]} needs {quoted(found[2], 100)}: set it in "
            "spec.trainer.resourcesPerNode, or in the runtime"
        )
        return cause("PodsRefused", text, about, **more)
    if found := _SECURITY.search(message):
        text = (
            f"namespace {picture.namespace} allows {found[1]} pods only, and those of the job violate that: "
            f"{_security(found[2])}; use another runtime, or another namespace"
        )
        about = About(kind="Namespace", namespace="", name=picture.namespace)
        return cause("PodSecurityRefused", text, about, **more)
    for _, resource, pattern in _NAMED:
        if found := pattern.search(message):
            return _missing(picture, resource, found[1] or found[2], **more)
    if found := _LIMIT.search(message):
        return _limit(picture, found, **more)
    about = About.of(job, "Job")
    if found := _WEBHOOK.search(message):
        text = f"pods of the job cannot be created: webhook {found[1]} does not answer; ask who runs it"
        return cause("PodWebhookUnreachable", text, about, **more)
    if found := _DENIED.search(message):
        text = f"{count}: webhook {found[1]} refuses them: {quoted(found[2], 160)}"
        return cause("PodsRefused", text, about, **more)
    return cause("PodsRefused", f"{count}: {quoted(message, 220)}", about, **more)


def _quota(picture: Picture, found: re.Match[str], count: str, *, since: datetime | None, pods: int) -> Cause:
    name = found[1].strip()
    asked, used, limited = (_amounts(found[number]) for number in (2, 3, 4))
    resource = next(iter(asked), "")
    never = _above(asked.get(resource, "0"), limited.get(resource, "0"))
    what = resource.removeprefix("requests.").removeprefix("count/")
    advice = "wait until other jobs end, or ask for a larger quota"
    if never:
        advice = "it never fits: ask for less, or for a larger quota"
    text = (
        f"{count}: ResourceQuota {name} allows {limited.get(resource)} {what}, {used.get(resource)} "
        f"{'is' if used.get(resource) == '1' else 'are'} used, and each pod asks for {asked.get(resource)}; {advice}"
    )
    more: dict[str, Any] = {"severity": Severity.STUCK} if never else {}
    return cause("QuotaExceeded", text, here(picture, "ResourceQuota", name), since, pods=pods, **more)


def _amounts(text: str) -> dict[str, str]:
    return {name.strip(): value for name, _, value in (part.partition("=") for part in text.split(","))}


def _above(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) > Quantity.parse(other)
    except ValueError:
        return False


def _security(text: str) -> str:
    """The settings that pods lack, of the text of pod security admission."""
    found = re.findall(r"must (?:set|not set) ([\w.]+(?:=[\w\"/]+)?)", text)
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


def _limit(picture: Picture, found: re.Match[str], *, since: datetime | None, pods: int) -> Cause:
    bound, resource, per, allowed, _, asked = found.groups()
    ranges = [name_of(one) for one in picture.list(LIMIT_RANGE)]
    name = ranges[0] if len(ranges) == 1 else ""
    who = f"LimitRange {name}" if name else "a LimitRange"
    most = "at most" if bound == "maximum" else "at least"
    compared = f"and the pods ask for {asked}" if asked else "and the pods do not say how much they need"
    text = (
        f"{who} of namespace {picture.namespace} allows {most} {allowed} {resource} for a {per.lower()}, {compared}: "
        "change spec.trainer.resourcesPerNode, or the runtime"
    )
    about = here(picture, "LimitRange", name) if name else None
    return cause("LimitRangeRefused", text, about, since, pods=pods)


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
            return _translated(picture, job, text, created_at(job), wanted, done)
    if done or picture.present_pods or not picture.lasted(created_at(job), _SILENT_SECONDS):
        return None
    text = (
        f"Job {name_of(job)} has none of its {wanted} pods, and no event says why: is the Job controller running? "
        f"See `kubectl describe job {name_of(job)}`"
    )
    return cause("PodsRefused", text, About.of(job, "Job"), **more)
