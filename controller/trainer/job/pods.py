# SPDX-License-Identifier: Apache-2.0
"""The pods of jobs as the cache keeps them: the few fields that tell how they run and how they ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import (
    LABEL_ATTEMPT,
    LABEL_INDEX,
    LABEL_JOB_INDEX,
    LABEL_JOBSET,
    LABEL_JOBSET_UID,
    LABEL_REPLICATED_JOB,
)
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.messages import shortened
from trainwright.api.objects import (
    Document,
    Key,
    annotations_of,
    deletion_timestamp_of,
    dig,
    is_controlled_by,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    number_in,
    uid_of,
)
from trainwright.api.times import moment
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    ANNOTATION_ATTEMPT_BASE,
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    NODE,
)
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.plugins.contract.picture import index_of

POD = Pod.RESOURCE
"""The kind under which the cache holds pods: dictionaries, since few fields are kept."""
BY_JOBSET = "jobset"
"""Index of the pods, by namespace and name of their JobSet."""

_METADATA = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds")
ANNOTATION_FAILURES = "node.trainwright.dev/failures"
"""Of pods of the local cluster: the failed runs of their containers with the exact times of their ends."""
_LABELS = (LABEL_JOBSET, LABEL_JOBSET_UID, LABEL_ATTEMPT, LABEL_REPLICATED_JOB, LABEL_JOB_INDEX, LABEL_INDEX)
_STATES = ("state", "lastState")
_STATUSES = ("initContainerStatuses", "containerStatuses")
_CONDITION = ("type", "status", "reason", "lastTransitionTime")
_LIMITED = "memoryLimited"
"""What the cache keeps of the limits of containers: the names of those with one for memory."""
_SEVERAL = "severalProcesses"
"""What the cache keeps of the variables of containers: whether torchrun starts several processes in the pod."""
_PROCESSES = "PET_NPROC_PER_NODE"
DISRUPTED = "DisruptionTarget"
"""The condition of a pod that the cluster ends."""


def trimmed(pod: Document) -> Document:
    """The pod with the fields that are kept: who it is, how it stands, and how containers of it ended."""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    kept: Document = {name: pod[name] for name in ("apiVersion", "kind") if name in pod}
    kept["metadata"] = _some(metadata, _METADATA)
    kept["metadata"]["labels"] = _some(metadata.get("labels") or {}, _LABELS)
    if marks := _some(annotations_of(pod), (ANNOTATION_FAILURES, ANNOTATION_ATTEMPT_BASE)):
        kept["metadata"]["annotations"] = marks
    kept["status"] = _some(status, ("phase", "reason", "startTime"))
    if status.get("message"):
        kept["status"]["message"] = shortened(status["message"])
    if disrupted := [one for one in status.get("conditions") or () if one.get("type") == DISRUPTED]:
        kept["status"]["conditions"] = [_some(one, _CONDITION) for one in disrupted]
    spec = _some(pod.get("spec") or {}, ("nodeName", _LIMITED, _SEVERAL))
    if has_several_processes(pod):
        spec[_SEVERAL] = True
    containers = dig(pod, "spec.containers") or ()
    if limited := [one.get("name", "") for one in containers if "memory" in (dig(one, "resources.limits") or {})]:
        spec[_LIMITED] = limited
    if spec:
        kept["spec"] = spec
    for name in _STATUSES:
        ended = [_ended(one) for one in status.get(name) or () if any(_terminated(one, state) for state in _STATES)]
        if ended:
            kept["status"][name] = ended
            kept["spec"] = {**_some(pod.get("spec") or {}, ("restartPolicy",)), **spec}
    return kept


def limited_of(pod: Document) -> Sequence[str]:
    """The containers of a pod of the cache that have a limit of memory."""
    found: Sequence[str] = (pod.get("spec") or {}).get(_LIMITED) or ()
    return found


def has_several_processes(pod: Document) -> bool:
    """Whether several processes train in the pod, so that its number is that of a node and not of a rank."""
    spec = pod.get("spec") or {}
    values = (
        one.get("value")
        for container in spec.get("containers") or ()
        for one in container.get("env") or ()
        if one.get("name") == _PROCESSES
    )
    return _SEVERAL in spec or any(value not in (None, "1") for value in values)


def _terminated(container: Document, state: str) -> Any:
    return dig(container.get(state), "terminated")


def _ended(container: Document) -> Document:
    """The name of a container, how its runs ended, and how often and since when it runs again."""
    states = {state: {"terminated": found} for state in _STATES if (found := _terminated(container, state))}
    if running := dig(container, "state.running"):
        states["state"] = {"running": running}
    return {"name": container.get("name", ""), **_some(container, ("restartCount",)), **states}


def rank_name(job: str, index: int, *, replica: int | None = None, is_node: bool = False) -> str:
    """How messages call a pod: `rank 3` of the trainer, `worker, rank 3` of another replicated job.

    `replica`: of a replicated job with several replicas, each of which counts its ranks from 0: `node 1, rank 3`.
    `is_node`: several processes train in the pod, so that its number is not that of a rank: `node 3`.
    """
    who = f"{'node' if is_node else 'rank'} {index}"
    if replica is not None:
        return f"{job} {replica}, {who}"
    return who if job == NODE else f"{job}, {who}"


def rank_of(pod: Document, *, several: bool | None = None) -> str:
    """How messages call the pod. `several`: its replicated job has several replicas; None: not known, but for others
    than the first."""
    labels = labels_of(pod)
    job, replica = labels.get(LABEL_REPLICATED_JOB, ""), number_in(labels.get(LABEL_JOB_INDEX))
    if not job:
        return f"pod {name_of(pod)}"
    is_one_of_many = bool(replica) if several is None else several
    number = replica if is_one_of_many else None
    return rank_name(job, index_of(pod), replica=number, is_node=has_several_processes(pod))


def node_of(pod: Document) -> str:
    """The node that the pod was given; empty: none yet."""
    return dig(pod, "spec.nodeName") or ""


RECOVERY_RULES = frozenset({"infra", "final"})
"""Names of rules that the plugin Recovery writes into each JobSet of a job that recovers."""
INITIALIZERS = (DATASET_INITIALIZER, MODEL_INITIALIZER)
"""The replicated jobs that do not train."""


def is_of_initializer(pod: Document) -> bool:
    return labels_of(pod).get(LABEL_REPLICATED_JOB) in INITIALIZERS


def declare_pods(cache: Cache) -> None:
    """Let the cache hold the pods of all JobSets, trimmed, with their index. Controllers may watch them then."""
    cache.informer(POD, label_selector=LABEL_JOBSET, transforms=(trimmed,)).add_index(
        BY_JOBSET, lambda pod: map(str, keys_of_jobset(pod))
    )


def jobset_of_job(cache: Cache, job: TrainJob) -> JobSet | None:
    """The job's own JobSet, as the cache has it."""
    found = cache.get(JobSet, job.name, job.namespace)
    return found if found is not None and is_controlled_by(found, job) else None


def life_of_ranks(cache: Cache, job: TrainJob) -> tuple[str, int] | None:
    """What tells the lives of all ranks of a job apart: JobSet and attempt. None: there is none, or it is suspended."""
    jobset = jobset_of_job(cache, job)
    if jobset is None or jobset.spec_or_empty.suspend:
        return None
    return uid_of(jobset), present_attempt(jobset)


def pods_of(cache: Cache, job: TrainJob) -> list[Document]:
    jobset = jobset_of_job(cache, job)
    if jobset is None:
        return []
    pods = cache.indexed(POD, BY_JOBSET, str(key_of(job)))
    return [pod for pod in pods if labels_of(pod).get(LABEL_JOBSET_UID) == uid_of(jobset)]


def keys_of_jobset(pod: Document) -> list[Key]:
    """The key of the pod's JobSet, which has the name of its TrainJob; empty for a pod of none."""
    name = labels_of(pod).get(LABEL_JOBSET)
    return [Key(namespace_of(pod), name)] if name else []


def attempt_of(pod: Document) -> int:
    """The attempt that the pod belongs to, from 0: of its JobSet, after those of JobSets before it."""
    return number_in(labels_of(pod).get(LABEL_ATTEMPT)) + number_in(annotations_of(pod).get(ANNOTATION_ATTEMPT_BASE))


def base_of(jobset: JobSet) -> int:
    """The attempts before the first one of this JobSet or of its last resume, as its pods carry it."""
    return number_in(mark_of(jobset, ANNOTATION_ATTEMPT_BASE))


def mark_of(jobset: JobSet, annotation: str) -> str:
    """An annotation that the manager gives all pods of a JobSet; empty: they have none."""
    for one in jobset.spec_or_empty.replicated_jobs or ():
        metadata = one.template.spec_or_empty.template.metadata
        if metadata is not None:
            return (metadata.annotations or {}).get(annotation, "")
    return ""


def present_attempt(jobset: JobSet) -> int:
    """The attempt that a JobSet makes now, or has made last, from 0: after those of JobSets before it."""
    return base_of(jobset) + (jobset.status_or_empty.restarts or 0)


def attempts_begun(jobset: JobSet) -> int:
    """How many attempts the job has begun, as its JobSet tells. One that the manager holds back has not begun."""
    spec = jobset.spec_or_empty
    rules = spec.failure_policy.rules if spec.failure_policy is not None else None
    is_held = bool(spec.suspend) and any(rule.name in RECOVERY_RULES for rule in rules or ())
    return max(1, present_attempt(jobset) + (0 if is_held else 1))


def container_statuses(pod: Document) -> list[Document]:
    """The statuses of all containers, those of initialisation first."""
    status = pod.get("status") or {}
    return [one for name in _STATUSES for one in status.get(name) or ()]


def _some(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


LOOP = 2
"""A container that was restarted so often, and ended with an error each time, fails again and again."""
CALM_SECONDS = 600.0
"""Until it has run for so long: then a kubelet, too, forgets the failures before."""


def loops(pod: Document, now: datetime) -> bool:
    return any(seconds > 0 for seconds in _seconds_of(pod, now))


def calm_in(pods: Iterable[Document], now: datetime) -> float | None:
    """Seconds until no container of the pods counts as failing again and again; None: none does now."""
    return max((seconds for pod in pods for seconds in _seconds_of(pod, now) if seconds > 0), default=None)


def _seconds_of(pod: Document, now: datetime) -> Iterator[float]:
    """Of each container that was restarted after failures: how long it counts as failing again and again."""
    status = pod.get("status") or {}
    if deletion_timestamp_of(pod) is not None or status.get("phase") in ("Succeeded", "Failed"):
        return
    for one in container_statuses(pod):
        state, last = one.get("state") or {}, dig(one, "lastState.terminated") or {}
        ended = state.get("terminated")
        if (one.get("restartCount") or 0) < LOOP or not last.get("exitCode"):
            continue
        if ended is not None and not ended.get("exitCode"):
            continue
        started = moment(dig(state, "running.startedAt"))
        yield CALM_SECONDS - ((now - started).total_seconds() if started is not None else 0.0)
