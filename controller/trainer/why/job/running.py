# SPDX-License-Identifier: Apache-2.0
"""Pods that run: readiness, reports of progress, and the ordinary ways to training."""

from collections.abc import Iterator
from datetime import datetime

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET
from trainwright.api.messages import counted
from trainwright.api.objects import Document, annotations_of, dig, name_of
from trainwright.api.times import moment, parse_duration
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_PROGRESS_STALL_AFTER
from trainwright.controller.trainer.failures.last_words import ended_below
from trainwright.controller.trainer.job.stall import (
    COMPLETE,
    DEFAULT_SECONDS,
    StallReason,
    ended_ranks,
    ended_ranks_message,
)
from trainwright.controller.trainer.job.status import CONDITION_STALLED
from trainwright.controller.trainer.why.catalogue import about_job, about_jobset, cause, here, of_pods
from trainwright.controller.trainer.why.job.jobset import (
    attempt_of,
    best_before,
    cost_before,
    open_dependencies,
    running_pods,
    wanted_now,
)
from trainwright.controller.trainer.why.job.nodes import lost_node
from trainwright.controller.trainer.why.words import ends_with, listed, pods_of, rank_of, replicated_jobs, role_of, verb
from trainwright.plugins.contract import holds
from trainwright.plugins.contract.picture import (
    JOBSET,
    POD,
    Cause,
    Picture,
    Severity,
    condition_of,
    created_at,
    earliest,
    since_of,
)
from trainwright.plugins.contract.picture import counted as share

NOT_READY_SECONDS = 60.0
_OF_TORCHRUN = "PET_"
"""Begins the variables that torchrun reads."""
_LOGS = 8
"""Of pods that run, that are read."""


def unready(picture: Picture) -> Iterator[Cause]:
    """Pods that run and are not ready for long; a step may wait for them."""
    for one in replicated_jobs(picture):
        role = str(one.get("name"))
        pods = [pod for pod in picture.present_pods if role_of(pod) == role]
        late = [pod for pod in pods if _is_unready(picture, pod) and not _is_lost(picture, pod)]
        if not late:
            continue
        waiting = [
            str(other["name"])
            for other in replicated_jobs(picture)
            if (role, "Ready") in open_dependencies(picture, other)
        ]
        probe = _probe(late[0])
        if probe is None:
            yield _not_ready_without_probe(role, late, pods)
            return
        run = verb(len(late), "runs and fails its readiness probe", "run and fail their readiness probe")
        runs = f"{share(late, pods)} {run}"
        who = f"{waiting[0]} starts when {role} is ready: {runs}" if waiting else f"{role} is not ready: {runs}"
        text = f"{who}{probe}; look at its log, or correct the probe in the runtime"
        yield of_pods("NotReady", text, *late, since=earliest(since_of(condition_of(pod, "Ready")) for pod in late))
        return


def _is_lost(picture: Picture, pod: Document) -> bool:
    """Whether the pod is not ready for the sake of its node. That a probe fails is what a kubelet alone says."""
    said_by_kubelet = dig(condition_of(pod, "Ready"), "reason") == "ContainersNotReady"
    return not (said_by_kubelet and _probe(pod) is not None) and lost_node(picture, pod) is not None


def _is_unready(picture: Picture, pod: Document) -> bool:
    if dig(pod, "status.phase") != "Running" or dig(pod, "metadata.deletionTimestamp"):
        return False
    ready = condition_of(pod, "Ready") or {}
    if ready.get("status") != "False" or ready.get("reason") not in (None, "", "ContainersNotReady"):
        return False
    states = [one.get("state") or {} for one in dig(pod, "status.containerStatuses") or ()]
    if not states or not all("running" in state for state in states):
        return False
    delays = [
        dig(container, "readinessProbe.initialDelaySeconds") or 0 for container in dig(pod, "spec.containers") or ()
    ]
    return picture.lasted(since_of(ready), max(NOT_READY_SECONDS, *map(float, delays), 0.0))


def _not_ready_without_probe(role: str, late: list[Document], pods: list[Document]) -> Cause:
    """Pods whose containers run, and which no probe keeps from being ready: what a node that does not answer leaves."""
    names = {str(dig(pod, "spec.nodeName")) for pod in late}
    nodes = f"{verb(len(names), 'node', 'nodes')} {listed(names)}"
    text = (
        f"{role} is not ready: {share(late, pods)} {verb(len(late), 'runs and has', 'run and have')} no readiness "
        f"probe, so {nodes} may not answer; ask the administrator"
    )
    since = earliest(since_of(condition_of(pod, "Ready")) for pod in late)
    return of_pods("NotReady", text, *late, since=since, severity=Severity.TEMPORARY)


def _probe(pod: Document) -> str | None:
    """What the probe of the pod asks; None if it has none."""
    spec = pod.get("spec") or {}
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    probes = [
        probe
        for container in (*(spec.get("containers") or ()), *sidecars)
        for probe in (container.get("readinessProbe"), container.get("startupProbe"))
        if probe
    ]
    if not probes:
        return None
    probe = probes[0]
    if "tcpSocket" in probe:
        return f" (tcp {probe['tcpSocket'].get('port')})"
    if "httpGet" in probe:
        return f" (http {probe['httpGet'].get('port')}{probe['httpGet'].get('path', '')})"
    if "grpc" in probe:
        return f" (grpc {probe['grpc'].get('port')})"
    if "exec" in probe:
        return f" ({' '.join(probe['exec'].get('command') or ())[:60]})"
    return ""


def left_alone(picture: Picture) -> Iterator[Cause]:
    """A rank has ended, or reports no longer, while others go on for longer than the job declares."""
    if (waits := _waits_for_process(picture)) is not None:
        yield waits
        return
    ended = ended_ranks(picture.present_pods)
    text, _ = ended_ranks_message(ended, _limit(picture) or DEFAULT_SECONDS, picture.now)
    if text:
        yield cause("RankEnded", text, here(picture, "Pod", ended[0].pod), ended[0].at)
        return
    # What the manager alone knows, or the user may not read.
    stalled = holds(picture.job, CONDITION_STALLED) or {}
    reason = {"RankEnded": "RankEnded", "RankSilent": "NoReport"}.get(str(stalled.get("reason")))
    if reason is not None:
        yield cause(reason, str(stalled.get("message") or ""), about_job(picture), since_of(stalled))


def _waits_for_process(picture: Picture) -> Cause | None:
    """A launcher that has seen its process end, and waits for the other nodes. Its log alone tells."""
    reported = moment(dig(picture.job, "status.trainerStatus.lastUpdatedTime"))
    if reported is not None and not picture.lasted(reported, NOT_READY_SECONDS):
        return None  # it trains
    launched = [
        (pod, str(container.get("name")))
        for pod in running_pods(picture)
        for container in dig(pod, "spec.containers") or ()
        if any(str(one.get("name")).startswith(_OF_TORCHRUN) for one in container.get("env") or ())
    ]
    # All are asked for at once.
    logs = [(pod, picture.log(pod, name)) for pod, name in launched[:_LOGS]]
    for pod, lines in logs:
        if said := ended_below(lines):
            text = f"a process of {rank_of(picture, pod, said)} has ended, and the others wait for it{ends_with(said)}"
            return cause("RankEnded", text, here(picture, "Pod", name_of(pod)))
    return None


def silent(picture: Picture) -> Iterator[Cause]:
    """The job reports its progress, and has not done so for longer than it declares."""
    stalled = holds(picture.job, CONDITION_STALLED)
    if dig(stalled, "reason") in (StallReason.RANK_ENDED, StallReason.RANK_SILENT):
        return
    pods = picture.present_pods
    ready = [pod for pod in pods if holds(pod, "Ready")]
    reported = dig(picture.job, "status.trainerStatus") or {}
    began = earliest(since_of(holds(pod, "Ready")) for pod in ready)
    if stalled is None and not (ready and _is_late(picture, moment(reported.get("lastUpdatedTime")), began)):
        return
    percent = reported.get("progressPercentage")
    is_done = (percent or 0) >= COMPLETE
    last = " (the rank that reports is done)" if is_done else f" (last: {percent} %)" if percent is not None else ""
    since, advice = moment(reported.get("lastUpdatedTime")) or since_of(stalled), "it may hang"
    match dig(stalled, "reason"):
        case StallReason.NEVER_REPORTED:
            what, advice = "the job has never reported its progress", "it may hang, or not report at all"
        case StallReason.NO_ADVANCE:
            what, since = f"the job reports, and its progress does not change{last}", since_of(stalled)
        case _:
            what = f"the job has stopped reporting its progress{last}"
    text = f"{what}; {share(ready, pods)} {verb(len(ready), 'is', 'are')} ready: look at the logs, {advice}"
    yield cause("NoReport", text, about_job(picture), since)


def _is_late(picture: Picture, reported: datetime | None, began: datetime | None) -> bool:
    """Whether the last report is older than the job declares, where no manager says so.

    `began`: when these pods became ready. The report of a job that was resumed may be one of the pods before them.
    """
    limit = _limit(picture)
    return limit is not None and reported is not None and picture.lasted(max(reported, began or reported), limit)


def _limit(picture: Picture) -> float | None:
    """How long the job may stand still, in seconds, if it says so."""
    declared = annotations_of(picture.job).get(ANNOTATION_PROGRESS_STALL_AFTER)
    try:
        return parse_duration(declared).total_seconds() if declared else None
    except ValueError:
        return None  # not a duration


def ordinary(picture: Picture) -> Cause:
    """What to say where nothing is wrong: the job runs, or is on its way."""
    pods = [pod for pod in picture.present_pods if not dig(pod, "metadata.deletionTimestamp")]
    active = running_pods(picture)
    done = [pod for pod in pods if dig(pod, "status.phase") == "Succeeded"]
    wanted = wanted_now(picture) if picture.jobset is not None else len(pods)
    which = f", {attempt_of(picture) or 'attempt 1'}"
    if pods and len(active) + len(done) >= wanted:
        ended = f", {counted(len(done), 'pod')} completed" if done else ""
        runs = verb(len(active), "runs", "run")
        before = f"{best_before(picture)}{cost_before(picture)}"
        text = f"{share(active, len(active) or len(pods))} {runs}{ended}{which}{before}"
        since = earliest(moment(dig(pod, "status.startTime")) for pod in active)
        return cause("Running", text, about_jobset(picture), since, pods=len(active))
    if not picture.knows(POD, labels=f"{LABEL_JOBSET}={picture.name}"):
        return _by_counters(picture)
    if picture.jobset is None and not pods:
        if picture.lacks(JOBSET, picture.name):
            text = "the job was created a moment ago; the manager makes its JobSet"
        else:
            text = "the job has no pods yet; JobSets may not be read, which could say why"
        return cause("Starting", text, about_job(picture), created_at(picture.job))
    total = wanted or len(pods) or sum(map(pods_of, replicated_jobs(picture)))
    # A Job waits between two pods of a rank, the longer the more of them have failed or were deleted.
    again = any(dig(job, "status.failed") for job in picture.jobs)
    what = "a pod has ended, and its Job makes another one in its place" if again else "the job is starting"
    text = f"{what}: {share(active, total)} run{which}"
    since = created_at(picture.jobset or picture.job)
    return cause("Starting", text, about_jobset(picture), since, pods=len(pods))


def _by_counters(picture: Picture) -> Cause:
    """What the status of the job says, for users who may not read pods."""
    statuses = dig(picture.job, "status.jobsStatus") or ()
    about = about_job(picture)
    ready = sum(int(one.get("ready") or 0) + int(one.get("succeeded") or 0) for one in statuses)
    waiting = [str(one.get("name")) for one in statuses if not (one.get("ready") or 0) + (one.get("succeeded") or 0)]
    if ready and not waiting:
        text = "the pods of all replicated jobs are ready, by the status of the job; pods may not be read"
        return cause("Running", text, about)
    what = f"pods of {listed(waiting)} are not ready" if waiting else "the job has no pods yet"
    text = f"{what}, by the status of the job; pods may not be read, which would say why"
    return cause("Starting", text, about, created_at(picture.job))
