# SPDX-License-Identifier: Apache-2.0
"""Containers and pods that the cluster ended: probes, preemption, eviction, nodes that are gone or do not answer."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trainwright.api.messages import counted
from trainwright.api.objects import Document, dig, name_of, uid_of
from trainwright.api.quantity import Quantity
from trainwright.api.times import moment
from trainwright.controller.trainer.failures.first import EVICTED
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import about_job, cause, of_pods
from trainwright.controller.trainer.why.job.containers import FailedContainer, made_good
from trainwright.controller.trainer.why.job.scheduling import requests_of
from trainwright.controller.trainer.why.kinds import NODE
from trainwright.controller.trainer.why.words import amount, listed, quoted, rank_of, verb
from trainwright.plugins.contract import holds
from trainwright.plugins.contract.picture import About, Cause, Picture, condition_of, event_time, index_of, since_of
from trainwright.plugins.contract.podset import add

TERMINATING_SECONDS = 30.0
_NODES_ASKED = 16
"""Most nodes that are read one by one for a job."""
_WHY = {
    "PreemptionByScheduler": "had to give way to a pod of higher priority",
    "EvictionByEvictionAPI": "was evicted, as when a node is drained",
    "DeletionByTaintManager": "was removed because its node does not answer",
    "TerminationByKubelet": "was ended by its node, as when the node shuts down",
    "NodeRestarted": "ended with its node, which has started again",
}
_PROBES = ("livenessProbe", "startupProbe")
_WHOLE_SECONDS = timedelta(seconds=2)
"""Events and the ends of containers are written in whole seconds."""


def disrupted(picture: Picture) -> Iterator[Cause]:
    """Pods of the present attempt that did not end by themselves."""
    asked: dict[str, None] = {}
    good = made_good(picture)
    for pod in picture.present_pods:
        if uid_of(pod) in good or dig(pod, "status.phase") == "Succeeded":
            continue
        node = dig(pod, "spec.nodeName")
        # A pod of a node that does not answer is not ready. To read the nodes of all others would be no use.
        if node and holds(pod, "Ready") is None and len(asked) < _NODES_ASKED:
            asked[node] = None
        lost = lost_node(picture, pod) if node in asked else None
        found = eviction(picture, pod) or lost or _target(picture, pod)
        if found is not None:
            yield found
            return


def lost_node(picture: Picture, pod: Document) -> Cause | None:
    """The node of the pod does not exist any more, or is not ready."""
    name = dig(pod, "spec.nodeName")
    status = pod.get("status") or {}
    target = holds(pod, "DisruptionTarget") or {}
    if not name or (status.get("phase") in ("Succeeded", "Failed") and not target):
        return None
    if target and target.get("reason") not in ("DeletionByPodGC", "DeletionByTaintManager"):
        return None
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    told_by_node = any(dig(state, "waiting.reason") for state in states)
    gone = target.get("reason") == "DeletionByPodGC" or (not told_by_node and picture.lacks(NODE, name))
    about = About(kind="Node", namespace="", name=name)
    who = rank_of(picture, pod)
    if gone:
        since = since_of(target) or moment(dig(pod, "metadata.deletionTimestamp"))
        text = f"node {name}, on which {who} ran, does not exist any more{made_again(picture)}"
        return cause("NodeLost", text, about, since, pods=1, index=index_of(pod))
    node = picture.get(NODE, name)
    ready = condition_of(node, "Ready")
    if ready is None or ready.get("status") == "True":
        return None
    why = quoted(str(ready.get("message") or ready.get("reason") or "it does not answer"), 120)
    text = f"node {name}, on which {who} runs, is not ready: {why}"
    if again := made_again(picture):
        text += f"{again} if the node does not come back"
    return cause("NodeLost", text, about, since_of(ready), pods=1, index=index_of(pod))


def _target(picture: Picture, pod: Document) -> Cause | None:
    condition = holds(pod, "DisruptionTarget")
    if condition is None:
        return None
    what = _WHY.get(str(condition.get("reason")), f"was disrupted ({condition.get('reason')})")
    text = f"{rank_of(picture, pod)} {what}{made_again(picture)}"
    return of_pods("Preempted", text, pod, since=since_of(condition))


def remaining(picture: Picture, *, over: str) -> Iterator[Cause]:
    """Pods of a job that is over which are still there long after their grace. `over` begins the sentence."""
    left = [
        pod
        for pod in picture.pods
        if (ends := moment(dig(pod, "metadata.deletionTimestamp"))) is not None
        and picture.lasted(ends, TERMINATING_SECONDS)
        and dig(pod, "status.phase") not in ("Succeeded", "Failed")
    ]
    if not left:
        return
    nodes = listed(str(dig(pod, "spec.nodeName")) for pod in left)
    number = len(left)
    one = number == 1
    several = "," in nodes or " and " in nodes
    text = (
        f"{over}, but {counted(number, 'pod')} still {verb(number, 'holds', 'hold')} {_held(left)}: "
        f"{'nodes' if several else 'node'} {nodes} {'do' if several else 'does'} not answer; ask the administrator, "
        f"or delete {'it' if one else 'them'} with --force"
    )
    about = About.of(left[0], "Pod")
    since = moment(left[0]["metadata"]["deletionTimestamp"])
    yield cause("PodsRemain", text, about, since, pods=number)


def _held(pods: list[Document]) -> str:
    """What the pods hold, devices first."""
    total: dict[str, Quantity] = {}
    for pod in pods:
        add(total, requests_of(pod.get("spec") or {}))
    devices = [f"{amount(name, total[name])} {name}" for name in sorted(total) if "/" in name]
    return listed(devices or [f"{total[name]} {name}" for name in sorted(total)]) or "their nodes"


def ending(picture: Picture) -> Iterator[Cause]:
    """What a job that is being deleted waits for."""
    metadata = picture.job.get("metadata") or {}
    since = moment(metadata.get("deletionTimestamp"))
    finalizers = [one for one in metadata.get("finalizers") or () if one != "foregroundDeletion"]
    about = about_job(picture)
    if finalizers:
        text = (
            f"the job is being deleted and waits for {_finalizers(finalizers)}: the controller that set it must "
            "remove it"
        )
        yield cause("DeletionWaits", text, about, since)
        return
    if not picture.lasted(since, TERMINATING_SECONDS):
        yield cause("Deleting", "the job is being deleted", about, since)
        return
    yield from remaining(picture, over="the job is being deleted")
    for kind, obj in [
        ("JobSet", picture.jobset),
        *(("Job", job) for job in picture.jobs),
        *(("Pod", pod) for pod in picture.pods),
    ]:
        own = dig(obj, "metadata") or {}
        held = [one for one in own.get("finalizers") or () if one not in ("foregroundDeletion", "orphan")]
        if obj is None or not own.get("deletionTimestamp") or not held:
            continue
        text = f"the job is being deleted and waits for {kind} {name_of(obj)}, which has {_finalizers(held)}"
        yield cause("DeletionWaits", text, About.of(obj, kind), since)
        return
    yield cause("Deleting", "the job is being deleted", about, since)


def _finalizers(names: list[str]) -> str:
    return f"{'finalizer' if len(names) == 1 else 'finalizers'} {listed(names)}"


def probe_of_run(picture: Picture, failure: FailedContainer) -> str:
    """The probe for which the run was stopped, in words; empty if it ended by itself, or with its pod."""
    if failure.stopped or not any(failure.container.spec.get(kind) for kind in _PROBES):
        return ""
    began, ended = (moment(failure.state.get(field)) for field in ("startedAt", "finishedAt"))
    return probe_that_failed(picture, failure.pod, failure.container.name, began, ended)


def probe_that_failed(
    picture: Picture, pod: Document, container: str, began: datetime | None, ended: datetime | None
) -> str:
    """The probe for which a run of a container of the pod was stopped, in words.

    The pod needs no more than its uid, since events outlive their pods. `began`: when the run began, if that is known.
    """
    if ended is None:
        return ""
    events = [
        (at, event)
        for event in picture.events(pod)
        if (at := moment(event_time(event))) is not None
        and at <= ended + _WHOLE_SECONDS
        and (began is None or at >= began - _WHOLE_SECONDS)
    ]
    killed = [at for at, event in events if container in _killed_by(event)]
    for at, event in events:
        failed = (
            messages.PROBE_FAILED.match(str(event.get("message", ""))) if event.get("reason") == "Unhealthy" else None
        )
        where = str(dig(event, "involvedObject.fieldPath") or "")
        if failed is None or (where and not where.endswith(f"{{{container}}}")):
            continue
        # The last failure of a probe and the kill for it are one moment.
        if any(abs(at - kill) <= _WHOLE_SECONDS for kill in killed):
            answer = str(event["message"])[failed.end() :].strip()
            probe = f"its {failed[1].lower()} probe failed"
            return f"{probe}: {quoted(answer, 120)}" if answer else probe
    return ""


def _killed_by(event: Document) -> tuple[str | None, ...]:
    found = messages.PROBE_KILLED.match(str(event.get("message", ""))) if event.get("reason") == "Killing" else None
    return found.groups() if found is not None else ()


def eviction(picture: Picture, pod: Document) -> Cause | None:
    """That a kubelet evicted the pod, and what for."""
    status = pod.get("status") or {}
    if status.get("reason") != EVICTED:
        return None
    node = f"node {dig(pod, 'spec.nodeName')}" if dig(pod, "spec.nodeName") else "its node"
    text = evicted(picture, node, rank_of(picture, pod), str(status.get("message", "")))
    return of_pods("EvictedByNode", text, pod, since=since_of(holds(pod, "DisruptionTarget")))


def evicted(picture: Picture, node: str, who: str, message: str) -> str:
    """Which node evicted which rank, and what for. `message` is that of the pod's status."""
    low, used = messages.NODE_LOW.search(message), messages.CONTAINER_USED.search(message)
    if not low:
        return f"{node} evicted {who}: {quoted(message)}{made_again(picture)}"
    use = f", which used {used[2]}" if used else ""
    return f"{node} was low on {low[1].rstrip('.')} and evicted {who}{use}{made_again(picture)}; request what it needs"


def made_again(picture: Picture) -> str:
    """What becomes of a pod that the cluster ended, as the end of a sentence; empty once the job has failed."""
    return "" if holds(picture.job, "Failed") else "; the pod is made again"
