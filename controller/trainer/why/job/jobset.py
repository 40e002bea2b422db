# SPDX-License-Identifier: Apache-2.0
"""What JobSet cannot make, steps that wait for steps before them, and the attempts of a job."""

import re
from collections.abc import Iterator, Mapping

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.objects import (
    Document,
    annotations_of,
    dig,
    is_controlled_by,
    labels_of,
    name_of,
    number_in,
    uid_of,
)
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_ATTEMPT_BASE
from trainwright.controller.trainer.failures.record import entries_of, name_of_record
from trainwright.controller.trainer.job.pods import RECOVERY_RULES
from trainwright.controller.trainer.job.pods import attempt_of as attempt_of_pod
from trainwright.controller.trainer.job.status import STOPPED
from trainwright.controller.trainer.recovery.causes import FailureCause
from trainwright.controller.trainer.recovery.verdict import Summary, summary_of
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import about_jobset, cause, here
from trainwright.controller.trainer.why.job.containers import record_data
from trainwright.controller.trainer.why.kinds import SERVICE
from trainwright.controller.trainer.why.words import listed, pods_of, quoted, replicated_jobs
from trainwright.plugins.contract.picture import BATCH_JOB, Cause, Picture, created_at, event_since, holds, since_of

_UNMADE_SECONDS = 10.0
_RESTART, _FREE_RESTART = "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"


def not_made(picture: Picture) -> Iterator[Cause]:
    """Jobs, Services and claims that JobSet fails to create."""
    jobset = picture.jobset
    if jobset is None or dig(jobset, "spec.suspend"):
        return
    existing = {name_of(job) for job in picture.jobs}
    missing = [name for name in _expected_jobs(picture) if name not in existing]
    if not missing or not picture.knows(BATCH_JOB, labels=f"{LABEL_JOBSET}={picture.name}"):
        return
    if not picture.lasted(created_at(jobset), _UNMADE_SECONDS) and not picture.events(jobset):
        return
    for name in missing:
        other = picture.get(BATCH_JOB, name)
        if other is not None and not is_controlled_by(other, jobset):
            text = (
                f"JobSet cannot create Job {name}: a Job of that name exists and is not of this JobSet; delete that Job"
            )
            yield cause("JobNotCreated", text, here(picture, "Job", name), created_at(other))
            return
    for event in picture.events(jobset):
        told = _from_event(picture, event)
        if told is not None:
            yield told
            return


def _expected_jobs(picture: Picture) -> list[str]:
    """Names of the Jobs that JobSet makes now: those of steps whose turn has come."""
    return [
        f"{picture.name}-{one['name']}-{index}"
        for one in replicated_jobs(picture)
        if not open_dependencies(picture, one)
        for index in range(one.get("replicas") or 1)
    ]


def _from_event(picture: Picture, event: Document) -> Cause | None:
    reason, message, since = event.get("reason"), str(event.get("message", "")), event_since(event)
    told = quoted(message, 180)
    if reason == "JobCreationFailed":
        return cause("JobNotCreated", f"JobSet cannot create a Job: {told}", about_jobset(picture), since)
    if reason == "HeadlessServiceCreationFailed":
        name = service_name(picture)
        about = here(picture, "Service", name)
        text = f"JobSet cannot create Service {name}, by which the nodes find each other: {told}"
        return cause("ServiceNotCreated", text, about, since)
    if reason == "PVCCreationFailed":
        text = f"JobSet cannot create a volume claim of the runtime: {told}"
        return cause("ClaimNotCreated", text, about_jobset(picture), since)
    return None


def service_name(picture: Picture) -> str:
    return str(dig(picture.jobset, "spec.network.subdomain") or picture.name)


def service_taken(picture: Picture) -> Iterator[Cause]:
    """The Service of the JobSet's name leads elsewhere; JobSet takes any Service of that name."""
    is_named = dig(picture.jobset, "spec.network.enableDNSHostnames") is not False
    if picture.jobset is None or not is_named or not picture.present_pods:
        return
    name = service_name(picture)
    service = picture.get(SERVICE, name)
    if service is None:
        return
    spec = service.get("spec") or {}
    selector = spec.get("selector") or {}
    if selector.get(LABEL_JOBSET) == picture.name and spec.get("clusterIP") in ("None", None):
        return
    if selector.get(LABEL_JOBSET) != picture.name:
        found = listed(f"{key}={value}" for key, value in selector.items()) or "nothing"
        why = f"selects {found} and not the pods of this job"
    else:
        why = "is not headless, so that host names of pods do not resolve"
    text = f"the nodes cannot find each other: Service {name} {why}; delete it, or create the job under another name"
    yield cause(
        "ServiceTaken", text, here(picture, "Service", name), created_at(service), pods=len(picture.present_pods)
    )


def open_dependencies(picture: Picture, replicated: Document) -> list[tuple[str, str]]:
    """The steps that a replicated job still waits for, and whether they must be Complete or Ready."""
    statuses = {one.get("name"): one for one in dig(picture.jobset, "status.replicatedJobsStatus") or ()}
    replicas = {one["name"]: one.get("replicas") or 1 for one in replicated_jobs(picture)}
    waiting = []
    for one in replicated.get("dependsOn") or ():
        name, wanted = str(one.get("name")), str(one.get("status") or "Complete")
        status = statuses.get(name) or {}
        done = (status.get("succeeded") or 0) + (0 if wanted == "Complete" else status.get("ready") or 0)
        if done < replicas.get(name, 1):
            waiting.append((name, wanted))
    return waiting


def waiting_steps(picture: Picture) -> Iterator[Cause]:
    """A step that starts later. What keeps the step before it is told by the checks of its pods."""
    jobset = picture.jobset
    if jobset is None:
        return
    started = {labels_of(job).get(LABEL_REPLICATED_JOB) for job in picture.jobs}
    for one in replicated_jobs(picture):
        waiting = open_dependencies(picture, one)
        if one["name"] in started or not waiting:
            continue
        step, wanted = waiting[0]
        text = f"{one['name']} starts when {step} is {wanted.lower()}"
        yield cause("StepWaits", text, about_jobset(picture), created_at(jobset))
        return


def wanted_now(picture: Picture) -> int:
    """How many pods the steps consist of whose turn has come and that have not ended."""
    statuses = dig(picture.jobset, "status.replicatedJobsStatus") or ()
    over = {one.get("name"): one.get("succeeded") or 0 for one in statuses}
    return sum(
        pods_of(one)
        for one in replicated_jobs(picture)
        if not open_dependencies(picture, one) and over.get(one["name"], 0) < (one.get("replicas") or 1)
    )


def running_pods(picture: Picture) -> list[Document]:
    """The pods of the present attempt that run, ready or not yet."""
    return [
        pod
        for pod in picture.present_pods
        if dig(pod, "status.phase") == "Running" and not dig(pod, "metadata.deletionTimestamp")
    ]


def attempt_of(picture: Picture) -> str:
    """The number of the present attempt in words; empty while the first one runs."""
    attempt, most = attempts_of(picture)
    return f"attempt {attempt}{f' of {most}' if most else ''}" if attempt > 1 else ""


def attempts_of(picture: Picture) -> tuple[int, int | None]:
    """How many attempts have begun, and how many there may be; None: that depends on the causes to come."""
    jobset = picture.jobset
    restarts, is_recovering = int(dig(jobset, "status.restarts") or 0), recovers(picture)
    is_held = is_recovering and dig(jobset, "spec.suspend")
    begun = max(1, base_of(jobset) + restarts + (0 if is_held else 1))
    if (end := holds(picture.job, "Failed")) is not None:
        # JobSet may have counted a restart that the manager did not let happen. The record comes after the pods.
        seen = (attempt_of_pod(pod) + 1 for pod in picture.pods)
        begun = max((attempts_in(record_data(picture), end), *seen)) or begun
    if is_recovering or jobset is None:
        return begun, None
    free = restarts - int(dig(jobset, "status.restartsCountTowardsMax") or 0)
    return begun, max(begun, free + int(dig(jobset, "spec.failurePolicy.maxRestarts") or 0) + 1)


def attempts_in(record: Mapping[str, str] | None, end: Document) -> int:
    """How many attempts a job made, by its record of failures and its condition Failed; 0: the record does not say."""
    summary = summary_of(record)
    if summary is None:
        return max((number + 1 for number in entries_of(record)), default=0)
    # The attempt that ran when somebody stopped the job has not failed; one that was held back did not run.
    is_open = end.get("reason") in STOPPED and str(end.get("lastTransitionTime")) >= summary.hold_until
    return summary.judged + is_open


def base_of(jobset: Document | None) -> int:
    """The attempts before the first one of this JobSet, of a job that recovers."""
    for one in dig(jobset, "spec.replicatedJobs") or ():
        return number_in(annotations_of(dig(one, "template.spec.template") or {}).get(ANNOTATION_ATTEMPT_BASE))
    return 0


def restarting(picture: Picture) -> Iterator[Cause]:
    """JobSet starts all Jobs again after one of them has failed."""
    attempt, jobset = attempt_of(picture), picture.jobset
    if not attempt or jobset is None:
        return
    if len(running_pods(picture)) >= wanted_now(picture) > 0 or _is_failing(picture):
        return
    condition = holds(jobset, "RestartingJobSet") or {}
    message = str(condition.get("message", ""))
    first = messages.FIRST_JOB.search(message)
    told = f"Job {first[1]} failed in the one before" if first else quoted(message, 160) or "a Job failed before"
    text = f"{attempt} starts: {told}"
    yield cause("Restarting", text, about_jobset(picture), since_of(condition))


def recovers(picture: Picture) -> bool:
    rules = dig(picture.jobset, "spec.failurePolicy.rules") or ()
    return any(one.get("name") in RECOVERY_RULES for one in rules)


def restarts_after(picture: Picture, job: Document) -> bool:
    """Whether it is certain that all ranks start again, though this Job of the JobSet fails or has failed."""
    jobset = picture.jobset
    if holds(jobset, "Failed") is not None:
        found = summary_in(picture)
        return found is not None and found.replace == uid_of(jobset or {})
    policy, ended = dig(jobset, "spec.failurePolicy") or {}, failing(job) or {}
    has_left = int(policy.get("maxRestarts") or 0) > int(dig(jobset, "status.restartsCountTowardsMax") or 0)
    for rule in policy.get("rules") or ():
        if _applies(rule, labels_of(job).get(LABEL_REPLICATED_JOB, ""), ended):
            action = rule.get("action")
            return action == _FREE_RESTART or (action == _RESTART and has_left)
    return has_left


def failing(job: Document | None) -> Document | None:
    """The condition of a Job that fails: it has failed, or will have once all of its pods have ended."""
    return holds(job, "Failed") or holds(job, "FailureTarget")


def _is_failing(picture: Picture) -> bool:
    """Whether the present attempt fails."""
    return any(failing(job) is not None and picture.is_of_present_attempt(job) for job in picture.jobs)


def _applies(rule: Document, step: str, ended: Document) -> bool:
    """Whether a rule of a JobSet is about this end of a Job. What a rule leaves out applies to all."""
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    message = str(ended.get("message", ""))
    return (
        step in (rule.get("targetReplicatedJobs") or (step,))
        and ended.get("reason") in (reasons or (ended.get("reason"),))
        and (not patterns or any(re.search(one, message) for one in patterns))
    )


def summary_in(picture: Picture) -> Summary | None:
    """The summary of the job's record; None for a job that does not recover, whose record is not read for it."""
    if not recovers(picture):
        return None
    found = summary_of(record_data(picture))
    return found if found is not None and found.judged else None


def between_attempts(picture: Picture) -> Iterator[Cause]:
    """The next attempt is held back, or on its way: by the record, else by the JobSet."""
    found = summary_in(picture)
    if found is None:
        yield from restarting(picture)
        return
    if len(running_pods(picture)) >= wanted_now(picture) > 0:
        return
    if found.judged < attempts_of(picture)[0] and _is_failing(picture):
        return  # the check of failed containers tells of this attempt
    about = here(picture, "ConfigMap", name_of_record(picture.name))
    paid = f", {found.paid}" if found.paid else ""
    yield cause("Restarting", f"attempt {found.judged + 1} {_when(picture, found)}{paid}: {found.why}", about=about)


def cost_before(picture: Picture) -> str:
    """How many attempts have ended for which cause, to be put behind the number of the present one."""
    found = summary_in(picture)
    counts = found.counts.causes if found is not None else {}
    told = [f"{counts[one]} {one.value.lower()}" for one in FailureCause if counts.get(one)]
    return f"; before: {', '.join(told)}" if told else ""


def best_before(picture: Picture) -> str:
    """The furthest step of the attempts that have ended, to be put behind the number of the present one."""
    found = summary_in(picture)
    step = found.counts.step if found is not None else None
    return f"; best step so far: {step:g}" if step is not None else ""


def _when(picture: Picture, found: Summary) -> str:
    if found.hang:
        return "begins when all ranks have stopped"
    until = moment(found.hold_until)
    # The moment, not the seconds until then: conditions that say the same are not written again.
    return f"begins at {until:%H:%M:%S} UTC" if until is not None and until > picture.now else "begins"
