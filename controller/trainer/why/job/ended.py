# SPDX-License-Identifier: Apache-2.0
"""Containers that ended with an error, which one was first, and how a job that is over ended."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from trainwright.api.messages import CONDITION_LIMIT, counted
from trainwright.api.objects import Document, dig, labels_of, name_of, uid_of
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_RECOVERY, NODE, RECOVERY_GANG
from trainwright.controller.trainer.failures.first import EVICTED, ended_by_deletion, is_disrupted
from trainwright.controller.trainer.failures.record import name_of_record
from trainwright.controller.trainer.job.pods import loops
from trainwright.controller.trainer.job.status import END_REASONS
from trainwright.controller.trainer.job.status import STOPPED as STOPPED_JOBS
from trainwright.controller.trainer.recovery.attempts import VERDICT_SECONDS
from trainwright.controller.trainer.recovery.verdict import summary_of
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import CATALOGUE, about_job, cause, here, of_pods
from trainwright.controller.trainer.why.job.containers import (
    FailedContainer,
    containers_of,
    failures,
    is_culprit_gone,
    last_words,
    made_good,
    record_data,
    record_of,
)
from trainwright.controller.trainer.why.job.jobset import (
    attempts_of,
    cost_before,
    failing,
    recovers,
    restarts_after,
)
from trainwright.controller.trainer.why.job.nodes import (
    disrupted,
    evicted,
    eviction,
    probe_of_run,
    probe_that_failed,
    remaining,
)
from trainwright.controller.trainer.why.job.starting import cannot_run, is_program_missing, not_created
from trainwright.controller.trainer.why.words import (
    STEP_LABEL,
    ends_with,
    lasting,
    quoted,
    rank_of,
    replicated_jobs,
    role_of,
    scheduler_says,
    step_of,
    verb,
)
from trainwright.plugins.contract import holds
from trainwright.plugins.contract.picture import (
    EVENT,
    About,
    Cause,
    Picture,
    Severity,
    created_at,
    event_time,
    place_of,
    pod_order,
    since_of,
)

_MOMENT_SECONDS = 10.0
STOPPED = frozenset({137, 143})
"""Exit codes of containers that were told to stop, or were killed."""
INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}
_LAST_WORDS = frozenset({"FailedScheduling", "FailedCreate", "Failed", "FailedMount", "BackOff", "Unhealthy"})


def failed(picture: Picture) -> Iterator[Cause]:
    """The first failure of the attempt; those that followed it are not causes of their own."""
    found = [one for one in failures(picture) if not _is_by_cluster(one)]
    if not found or any(True for _ in not_created(picture)):
        return
    good = made_good(picture)
    lasting_ones = [
        one
        for one in found
        if uid_of(one.pod) not in good and (one.container.running is None or holds(one.pod, "Ready") is None)
    ]
    if not lasting_ones:
        recovered = _recovered(picture, found)
        if any(loops(one.pod, picture.now) for one in found):
            recovered = replace(recovered, severity=Severity.TEMPORARY, failed=True)
        yield recovered
        return
    first = told(picture, lasting_ones)
    is_once = first.reason not in ("CrashLoop", "ProgramMissing")
    if is_once and all(_is_retried(picture, one) for one in lasting_ones):
        yield replace(first, severity=Severity.TEMPORARY)
        return
    yield _with_what_follows(picture, first, [one.pod for one in lasting_ones])


def failed_as_a_whole(picture: Picture) -> Iterator[Cause]:
    """Pods that were ended with their containers, as by a deadline of their own; no container tells why."""
    good = made_good(picture)
    for pod in picture.present_pods:
        reason = str(dig(pod, "status.reason") or "")
        if dig(pod, "status.phase") != "Failed" or reason in ("", EVICTED) or messages.POD_REFUSED.fullmatch(reason):
            continue
        is_told = holds(pod, "DisruptionTarget") or any(container.ended for container in containers_of(pod))
        if uid_of(pod) in good or is_told:
            continue
        message = quoted(str(dig(pod, "status.message") or ""))
        text = f"{rank_of(picture, pod)} failed ({reason}{': ' if message else ''}{message})"
        found = of_pods("RankFailed", text, pod, since=created_at(pod))
        if _has_successor(picture, pod):
            yield replace(found, severity=Severity.TEMPORARY)
        else:
            yield _with_what_follows(picture, found, [pod])


def _with_what_follows(picture: Picture, first: Cause, pods: Sequence[Document]) -> Cause:
    """A failure of pods that are not replaced one by one: all ranks restart, or the job fails, if that is certain."""
    jobs = [job_of(picture, pod) for pod in pods]
    ends = [job for job in jobs if job is not None and (failing(job) is not None or not _tries_again(job))]
    if not ends:
        return first
    if all(restarts_after(picture, job) for job in ends):
        follows = "" if "attempt " in first.message else "; all ranks restart"
        return replace(first, reason="Restarting", message=f"{first.message}{follows}", severity=Severity.TEMPORARY)
    row = CATALOGUE["Ending"]
    message = f"{first.message}; {_what_decides(picture)}"
    return replace(first, reason="Ending", message=message, severity=row.severity, link=row.link)


def _tries_again(job: Document) -> bool:
    """Whether the Job itself may run a failed pod again. One that may not is about to fail."""
    return _limit(job) > 0 or dig(job, "spec.template.spec.restartPolicy") != "Never"


def _what_decides(picture: Picture) -> str:
    """What happens to a job of which a Job fails, and that may not be restarted."""
    failed = since_of(holds(picture.jobset, "Failed") or {})
    if recovers(picture) and failed is not None:
        until = failed + timedelta(seconds=VERDICT_SECONDS)
        return f"the job fails at {until:%H:%M:%S} UTC, unless it shows by then that the cluster was the reason"
    if recovers(picture):
        return "whether another attempt follows is decided when its other pods have ended"
    return "the job fails when its other pods have ended"


def _is_retried(picture: Picture, failure: FailedContainer) -> bool:
    """Whether the failed run is followed by another: its container starts again, or another pod takes its place."""
    job = job_of(picture, failure.pod)
    if job is None or failing(job) is not None:
        return False
    pod = failure.pod
    if _has_successor(picture, pod):
        return True
    in_place = dig(pod, "spec.restartPolicy") in ("OnFailure", "Always")
    is_alive = dig(pod, "status.phase") in ("Pending", "Running")
    return in_place and is_alive and failure.container.restarts < _limit(job)


def _has_successor(picture: Picture, pod: Document) -> bool:
    return any(place_of(one) == place_of(pod) and _is_younger(one, pod) for one in picture.present_pods)


def _is_younger(one: Document, other: Document) -> bool:
    return (created_at(one) or datetime.min.replace(tzinfo=UTC)) > (
        created_at(other) or datetime.max.replace(tzinfo=UTC)
    )


def job_of(picture: Picture, pod: Document) -> Document | None:
    name = labels_of(pod).get("batch.kubernetes.io/job-name", "")
    return next((one for one in picture.jobs if name_of(one) == name), None)


def _limit(job: Document | None) -> int:
    limit = dig(job, "spec.backoffLimit")
    return 6 if limit is None else int(limit)


def _is_by_cluster(failure: FailedContainer) -> bool:
    """Whether the cluster ended the pod, which `nodes` tells, or deletes it, where what makes it again tells more."""
    if is_disrupted(failure.pod) or dig(failure.pod, "status.reason") == EVICTED:
        return True
    return failure.stopped and ended_by_deletion(failure.pod, str(failure.state.get("finishedAt") or ""))


def _recovered(picture: Picture, found: Sequence[FailedContainer]) -> Cause:
    first = found[0]
    of_rank = [one for one in found if pod_order(one.pod)[:3] == pod_order(first.pod)[:3]]
    times = max(len(of_rank), sum({id(one.pod): one.container.restarts for one in of_rank}.values()))
    text = (
        f"{rank_of(picture, first.pod)} has failed {counted(times, 'time')}, first with exit code {first.code}, and "
        f"runs again{ends_with(last_words(picture, first))}"
    )
    return _made("CrashLoop", picture, first, text, severity=Severity.WAITS, failed=False)


def told(picture: Picture, found: Sequence[FailedContainer]) -> Cause:
    """The first failure in words. `found` is in the order of `failures`."""
    first = found[0]
    if first.out_of_memory:
        return _memory(picture, first)
    if first.container.init or _step(picture, first.pod) not in ("trainer", ""):
        return _initializer(picture, first)
    if first.container.waiting is not None and first.container.restarts:
        return _loop(picture, first)
    who = rank_of(picture, first.pod, last_words(picture, first))
    after = _others(first, found)
    text = f"{who} failed with {_code(picture, first)}{_after(first)}{after}{_log(picture, first)}"
    return _made("RankFailed", picture, first, text)


def _others(first: FailedContainer, found: Sequence[FailedContainer]) -> str:
    """How many other pods were stopped after the first failure, and how many ended by themselves."""
    places: dict[object, bool] = {}
    for one in found:
        was_stopped = one.stopped or one.code in STOPPED
        places[place_of(one.pod)] = places.get(place_of(one.pod), True) and was_stopped
    places.pop(place_of(first.pod), None)
    stopped = sum(places.values())
    failed = len(places) - stopped
    parts = [f"{counted(failed, 'other')} failed too"] if failed else []
    parts += [f"{counted(stopped, 'other')} {verb(stopped, 'was', 'were')} stopped after it"] if stopped else []
    return "".join(f"; {part}" for part in parts)


def _after(failure: FailedContainer) -> str:
    """How long it ran, if that is more than a moment."""
    started, ended = moment(failure.state.get("startedAt")), failure.finished
    if started is None or ended is None or (ended - started).total_seconds() < _MOMENT_SECONDS:
        return ""
    return f", {lasting((ended - started).total_seconds())} after its start"


def _code(picture: Picture, failure: FailedContainer) -> str:
    if probe := probe_of_run(picture, failure):
        return f"exit code {failure.code} (stopped since {probe})"
    names = {137: " (killed)", 139: " (segmentation fault)", 134: " (aborted)", 143: " (terminated)"}
    return f"exit code {failure.code}{names.get(failure.code, '')}"


def _memory(picture: Picture, first: FailedContainer) -> Cause:
    limit = dig(first.container.spec, "resources.limits.memory")
    most = (
        f"container {first.container.name} may use {limit}"
        if limit
        else f"container {first.container.name} has no limit, so its node ran out of memory"
    )
    times = f" {first.container.restarts} times" if first.container.restarts > 1 else ""
    text = (
        f"{rank_of(picture, first.pod)} was killed for memory{times} (OOMKilled, exit code {first.code}): {most}; "
        "ask for more memory, or use less"
    )
    return _made("OutOfMemory", picture, first, text)


def _loop(picture: Picture, first: FailedContainer) -> Cause:
    limit = _limit(job_of(picture, first.pod))
    times = first.container.restarts
    text = (
        f"container {first.container.name} of {rank_of(picture, first.pod)} has failed {counted(times, 'time')}, "
        f"last with {_code(picture, first)}{_log(picture, first)}; after {counted(limit, 'restart')} the Job gives up, "
        "and its pods are deleted with their logs"
    )
    return _made("CrashLoop", picture, first, text)


def _initializer(picture: Picture, first: FailedContainer) -> Cause:
    step = _step(picture, first.pod)
    name = first.container.name if first.container.init else role_of(first.pod) or first.container.name
    times = f" {first.container.restarts} times, last" if first.container.restarts else ""
    field = INITIALIZERS.get(step)
    initializer = (dig(picture.job, "spec.initializer") or {}).get(field or "") or {}
    uri = initializer.get("storageUri")
    source = f"; storageUri is {uri}" if uri else ""
    which = f"init container {name} of {rank_of(picture, first.pod)}" if first.container.init else name
    is_on_purpose = first.container.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError"
    if is_on_purpose and (sentence := sentence_in(str(first.state.get("message") or ""))):
        # Ours say what to do in one sentence, which is more than the end of a log, and needs no right to read logs.
        text = f"{which} failed{times.removesuffix(', last')}: {sentence}"
        whole = f"{text}{source}"
        return _made("InitializerFailed", picture, first, whole if len(whole) <= CONDITION_LIMIT else text)
    text = (
        f"{which} failed{times} with {_code(picture, first)}, so training has not begun{source}{_log(picture, first)}"
    )
    return _made("InitializerFailed", picture, first, text)


def sentence_in(message: str) -> str:
    """The sentence of a termination message of an initializer; empty if there is none."""
    line = next(iter(message.strip().splitlines()), "")
    return "" if line.startswith("{") else quoted(line, CONDITION_LIMIT)


def _step(picture: Picture, pod: Document) -> str:
    """The step that the pod belongs to; empty if its replicated job has no such label."""
    own = labels_of(pod).get(STEP_LABEL)
    if own:
        return own
    role = role_of(pod)
    found = next((one for one in replicated_jobs(picture) if one.get("name") == role), None)
    if found is not None:
        return step_of(found)
    return role if role in INITIALIZERS else ""


def _log(picture: Picture, failure: FailedContainer) -> str:
    """The last line of the log of the container that failed, or the command that shows the log."""
    if ending := ends_with(last_words(picture, failure)):
        return ending
    is_one_of_several = failure.container.init or len(dig(failure.pod, "spec.containers") or ()) > 1
    options = (f" -c {failure.container.name}" if is_one_of_several else "") + (
        " --previous" if failure.is_previous else ""
    )
    return f"; see `kubectl logs {name_of(failure.pod)}{options}`"


def _made(reason: str, picture: Picture, first: FailedContainer, text: str, **more: object) -> Cause:
    pods = sum(any(one.ended for one in containers_of(pod)) for pod in picture.present_pods)
    return of_pods(reason, text, first.pod, since=first.finished, pods=pods, **more)


def over(picture: Picture) -> Iterator[Cause]:
    """How the job ended, and what it still holds; nothing for a job that is not over."""
    complete, failed = holds(picture.job, "Complete"), holds(picture.job, "Failed")
    if complete is not None:
        left = list(remaining(picture, over="the job is complete"))
        yield from left
        if not left:
            number = attempts_of(picture)[0]
            after = f" after {number} attempts{cost_before(picture)}" if number > 1 else ""
            yield cause("Complete", f"the job is complete{after}", about_job(picture), since_of(complete))
    elif failed is not None:
        yield _ended(picture, failed)
        yield from remaining(picture, over="the job has failed")


def _ended(picture: Picture, failed: Document) -> Cause:
    reason, since = str(failed.get("reason")), since_of(failed)
    if reason == "DeadlineExceeded":
        return _deadline(picture, failed)
    if (told := _written(picture, failed)) is not None:
        return told
    first = _first_failure(picture)
    if reason == "ReachedMaxRestarts":
        return _restarts(picture, failed, first)
    late = next((job for job in picture.jobs if dig(holds(job, "Failed"), "reason") == "DeadlineExceeded"), None)
    if late is not None:
        return _job_deadline(late, since)
    if first is not None:
        return replace(first, severity=Severity.ENDED, failed=True)
    return _without_evidence(picture, failed)


def _written(picture: Picture, failed: Document) -> Cause | None:
    """The condition of a job, if whoever ended the job has written it, in full."""
    reason, message, since = str(failed.get("reason")), str(failed.get("message", "")), since_of(failed)
    if reason in STOPPED_JOBS:
        # It ran until then, so no rank is the cause, and what is on record is of attempts before.
        return cause("Failed", message, about_job(picture), since)
    is_judged = reason == "ReachedMaxRestarts" and summary_of(record_data(picture)) is not None
    if reason in END_REASONS or (is_judged and messages.FIRST_JOB.search(message) is None):
        about = here(picture, "ConfigMap", name_of_record(picture.name))
        return cause("RestartsExhausted", message, about=about, since=since)
    return None


def _first_failure(picture: Picture) -> Cause | None:
    program = next(iter(not_created(picture)), None)
    if program is not None:
        return program
    found = failures(picture)
    own = [one for one in found if not is_disrupted(one.pod)]
    if own and not is_culprit_gone(picture):
        return eviction(picture, own[0].pod) or told(picture, own)
    return _recorded(picture) or next(disrupted(picture), None)


def _recorded(picture: Picture) -> Cause | None:
    """The first failure of the last attempt, from the record that a manager took while the pods were there."""
    name, entries = name_of_record(picture.name), record_of(picture)
    if not entries or not entries[max(entries)].pod:  # it stood still, or nobody saw its end
        return None
    entry = entries[max(entries)]
    is_rank = entry.replicated_job == NODE and not entry.job_index
    who = entry.where if not is_rank else f"{'node' if entry.is_node else 'rank'} {entry.rank}"
    about = here(picture, "ConfigMap", name)
    more: dict[str, Any] = {"about": about, "since": moment(entry.finished_at), "pods": 1, "index": entry.rank}
    if is_program_missing(entry.exit_code, entry.reason, entry.message):
        return cause(
            "ProgramMissing", cannot_run(picture, f"container {entry.container} of {who}", entry.message), **more
        )
    if entry.replicated_job in INITIALIZERS and (sentence := sentence_in(entry.message)):
        return cause("InitializerFailed", f"{entry.replicated_job} failed: {sentence}", **more)
    if entry.reason == EVICTED:
        return cause("EvictedByNode", evicted(picture, "its node", who, entry.message), **more)
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
    known = picture.jobset is not None or record_of(picture)
    attempts = counted(attempts_of(picture)[0], "attempt") if known else "all attempts that the runtime allows"
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
    named = messages.FIRST_JOB.search(message)
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
