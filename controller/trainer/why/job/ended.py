# SPDX-License-Identifier: Apache-2.0
"""How a job that is over ended: which rank failed first, which limit was reached, and what is left of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, name_of
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_RECOVERY, NODE, RECOVERY_GANG
from trainwright.controller.trainer.failures.first import EVICTED, is_disrupted
from trainwright.controller.trainer.failures.record import name_of_record
from trainwright.controller.trainer.job.status import END_REASONS
from trainwright.controller.trainer.why.catalogue import about_job, cause, here
from trainwright.controller.trainer.why.job.attempts import summary_in
from trainwright.controller.trainer.why.job.containers import failures, record_of
from trainwright.controller.trainer.why.job.failures import INITIALIZERS, STOPPED, sentence_in, told
from trainwright.controller.trainer.why.job.jobset import FIRST_JOB
from trainwright.controller.trainer.why.job.killed import eviction, probe_that_failed, recorded_eviction
from trainwright.controller.trainer.why.job.nodes import disrupted, remaining
from trainwright.controller.trainer.why.job.starting import cannot_run, is_program_missing, not_created
from trainwright.controller.trainer.why.words import ends_with, quoted, scheduler_says
from trainwright.plugins.contract import About, Cause, Picture, Severity, holds, since_of
from trainwright.plugins.contract.picture import EVENT, event_time

_LAST_WORDS = frozenset({"FailedScheduling", "FailedCreate", "Failed", "FailedMount", "BackOff", "Unhealthy"})


def over(picture: Picture) -> Iterator[Cause]:
    """How the job ended, and what it still holds; nothing for a job that is not over."""
    complete, failed = holds(picture.job, "Complete"), holds(picture.job, "Failed")
    if complete is not None:
        left = list(remaining(picture, over="the job is complete"))
        yield from left
        if not left:
            yield cause("Complete", "the job is complete", about_job(picture), since_of(complete))
    elif failed is not None:
        yield _ended(picture, failed)
        yield from remaining(picture, over="the job has failed")


def _ended(picture: Picture, failed: Document) -> Cause:
    reason, since = str(failed.get("reason")), since_of(failed)
    if reason == "DeadlineExceeded":
        return _deadline(picture, failed)
    if reason in END_REASONS:
        # The manager wrote it, in full.
        about = here(picture, "ConfigMap", name_of_record(picture.name))
        return cause("RestartsExhausted", str(failed.get("message", "")), about=about, since=since)
    first = _first_failure(picture)
    if reason == "ReachedMaxRestarts":
        return _restarts(picture, failed, first)
    late = next((job for job in picture.jobs if dig(holds(job, "Failed"), "reason") == "DeadlineExceeded"), None)
    if late is not None:
        return _job_deadline(late, since)
    if first is not None:
        return replace(first, severity=Severity.ENDED, failed=True)
    return _without_evidence(picture, failed)


def _first_failure(picture: Picture) -> Cause | None:
    program = next(iter(not_created(picture)), None)
    if program is not None:
        return program
    found = failures(picture)
    own = [one for one in found if not is_disrupted(one.pod)]
    if own:
        return eviction(picture, own[0].pod) or told(picture, own)
    return _recorded(picture) or next(disrupted(picture), None)


def _recorded(picture: Picture) -> Cause | None:
    """The first failure of the last attempt, from the record that a manager took while the pods were there."""
    name, entries = name_of_record(picture.name), record_of(picture)
    if not entries:
        return None
    entry = entries[max(entries)]
    is_rank = entry.replicated_job == NODE and not entry.job_index
    who = f"rank {entry.rank}" if is_rank else entry.failure.where
    about = here(picture, "ConfigMap", name)
    more: dict[str, Any] = {"about": about, "since": moment(entry.finished_at), "pods": 1, "index": entry.rank}
    if is_program_missing(entry.exit_code, entry.reason, entry.message):
        return cause(
            "ProgramMissing", cannot_run(picture, f"container {entry.container} of {who}", entry.message), **more
        )
    if entry.replicated_job in INITIALIZERS and (sentence := sentence_in(entry.message)):
        return cause("InitializerFailed", f"{entry.replicated_job} failed: {sentence}", **more)
    if entry.reason == EVICTED:
        return recorded_eviction(picture, who, entry.message, **more)
    log = ends_with(entry.said)
    log = f"{log}; ConfigMap {name} keeps more of the log" if log else ""
    if entry.reason == "OOMKilled":
        code = f", exit code {entry.exit_code}" if entry.exit_code is not None else ""
        text = f"{who} was killed for memory (OOMKilled{code}): ask for more memory, or use less{log}"
        return cause("OutOfMemory", text, **more)
    why = f" ({entry.reason})" if entry.reason not in ("", "Error") else ""
    if entry.exit_code in STOPPED and not entry.stopped:
        pod = {"metadata": {"uid": entry.pod_uid}}
        probe = probe_that_failed(picture, pod, entry.container, None, moment(entry.finished_at))
        why = f" (stopped since {probe})" if probe else why
    how = f"failed with exit code {entry.exit_code}{why}" if entry.exit_code is not None else f"failed{why}"
    said = f": {quoted(entry.message)}" if entry.message and not log else ""
    return cause("RankFailed", f"{who} {how}{said}{log}", **more)


def _restarts(picture: Picture, failed: Document, first: Cause | None) -> Cause:
    jobset = picture.jobset
    most = dig(jobset, "spec.failurePolicy.maxRestarts")
    attempts = f"{int(most) + 1} attempts" if most is not None else "all attempts that the runtime allows"
    known = summary_in(picture)
    if known is not None:
        number = known.counts.row.get("retries", 0)
        attempts = f"{counted(number, 'attempt')} without progress"
    if first is not None:
        text = f"the job failed after {attempts}; the last: {first.message}"
        return replace(first, reason="RestartsExhausted", message=text, severity=Severity.ENDED, failed=True)
    job = next((one for one in picture.jobs if holds(one, "Failed")), None)
    if job is not None:
        condition = holds(job, "Failed") or {}
        last = f"Job {name_of(job)} failed ({condition.get('reason')}); no container of it tells more"
    else:
        last = quoted(str(failed.get("message", "")))
    text = f"the job failed after {attempts}; the last: {last}"
    return cause("RestartsExhausted", text, about_job(picture), since_of(failed))


def _deadline(picture: Picture, failed: Document) -> Cause:
    seconds = dig(picture.job, "spec.activeDeadlineSeconds")
    limit = f"its time of {seconds} s (spec.activeDeadlineSeconds)" if seconds else "its time"
    before = _before(picture)
    advice = f"; before that: {before}" if before else "; allow more time, or find out what took so long"
    text = f"the job ran out of {limit}{advice}"
    return cause("DeadlineExceeded", text, about_job(picture), since_of(failed))


def _before(picture: Picture) -> str:
    """What the pods of the job said last; they are deleted, and their events stay for an hour."""
    prefix = f"{picture.name}-"
    for event in sorted(
        picture.list(EVENT, fields="involvedObject.kind=Pod,type=Warning"), key=event_time, reverse=True
    ):
        name = str(dig(event, "involvedObject.name") or "")
        if name.startswith(prefix) and event.get("reason") in _LAST_WORDS:
            if event.get("reason") == "FailedScheduling":
                told_by = scheduler_says(str(event.get("message", "")))
                return f"its pods waited for a node ({quoted(told_by, 120)})"
            return quoted(str(event.get("message", "")), 130)
    return ""


def _job_deadline(job: Document, since: datetime | None) -> Cause:
    seconds = dig(job, "spec.activeDeadlineSeconds")
    text = (
        f"the runtime allows a Job {seconds} s, and Job {name_of(job)} took longer (DeadlineExceeded); this is not "
        "the deadline of the TrainJob: change the runtime"
    )
    return cause("JobDeadlineExceeded", text, About.of(job, "Job"), since)


def _without_evidence(picture: Picture, failed: Document) -> Cause:
    message, since = str(failed.get("message", "")), since_of(failed)
    about = about_job(picture)
    job = next((one for one in picture.jobs if holds(one, "Failed")), None)
    named = FIRST_JOB.search(message)
    if job is None and named is None:
        text = f"the job failed with reason {failed.get('reason')}: {quoted(message, 220)}"
        return cause("Failed", text, about, since)
    name = name_of(job) if job is not None else named[1] if named else ""
    why = dig(holds(job, "Failed"), "reason") if job is not None else "BackoffLimitExceeded"
    limit = "reached its backoff limit" if why == "BackoffLimitExceeded" else f"failed ({why})"
    if any(dig(pod, "status.phase") == "Failed" for pod in picture.present_pods):
        text = (
            f"Job {name} {limit}; its pods are still there: see `kubectl describe pods -l "
            f"jobset.sigs.k8s.io/jobset-name={picture.name}`"
        )
        return cause("Failed", text, here(picture, "Job", name), since)
    return cause("EvidenceGone", f"Job {name} {limit}{_gone(job)}", here(picture, "Job", name), since)


def _gone(job: Document | None) -> str:
    """Why a Job that has failed has no pods. The Job controller deletes only those that would restart by themselves."""
    if dig(job, "spec.template.spec.restartPolicy") != "Never":
        return ", and its pods were deleted with their logs; to keep them, set restartPolicy: Never in the runtime"
    return (
        " since a pod of it was deleted while it ran: by hand, or evicted, as when a node is drained; to go on after "
        f"that, a job needs retries (annotation {ANNOTATION_RECOVERY}: {RECOVERY_GANG})"
    )
