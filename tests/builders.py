# SPDX-License-Identifier: Apache-2.0
"""Objects as an API server stores them, with defaults that are valid: each test says only what it is about.

    job = train_job(conditions=[condition("Suspended")], trainer={"numNodes": 2})
    world.put(pod(3, ended(1, at=NOW), attempt=2))

TrainJobs and JobSets are models, and everything else is in wire form, as the caches of the manager have it; `wire`
turns a model into a document. What a kind has no field for is refused. Runtimes and their replicated jobs are those of
`trainwright.plugins.testing`; for an object of any other kind, there is `runtime.testing.objects.build`.

Written out stay documents that are wrong on purpose, files as users write them, and what tests of the local API server
send it to be decoded and defaulted. Jobs and pods of the local controllers, which their tables make by name, are
those of `tests/unit/local/controllers/objects.py`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import AnyObject, Document, dig, wire
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.testing.objects import build

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When everything happens that a test does not date."""

Moment = str | datetime | float
"""A time in wire form, a datetime, or seconds after START."""


def moment(at: Moment) -> str:
    """A time in wire form."""
    if isinstance(at, str):
        return at
    return format_time(at if isinstance(at, datetime) else START + timedelta(seconds=at))


def metadata(
    *,
    annotations: Mapping[str, str] | None = None,
    created: Moment | None = None,
    deleted: Moment | None = None,
    **more: Any,
) -> Document:
    """Metadata beside name, namespace and labels; `more` by wire names."""
    found: Document = dict(more)
    if annotations:
        found["annotations"] = dict(annotations)
    if created is not None:
        found["creationTimestamp"] = moment(created)
    if deleted is not None:
        found["deletionTimestamp"] = moment(deleted)
    return found


# ---------------------------------------------------------------------- parts of a status


def condition(
    kind: str, status: str = "True", reason: str = "R", message: str = "m", *, at: Moment = START, **more: Any
) -> Document:
    """A condition of any kind of object."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment(at),
        **more,
    }


def counts(
    name: str = "node", *, active: int = 0, ready: int = 0, succeeded: int = 0, failed: int = 0, suspended: int = 0
) -> Document:
    """The Jobs of one replicated job, as JobSets and TrainJobs count them."""
    return {
        "name": name,
        "active": active,
        "ready": ready,
        "succeeded": succeeded,
        "failed": failed,
        "suspended": suspended,
    }


RUNNING = counts(active=1, ready=1)
"""Of a job that trains."""


def progress(*, at: Moment = START, metrics: Mapping[str, str] | None = None, **fields: Any) -> Document:
    """A `trainerStatus`; `fields` by wire names, such as `progressPercentage`."""
    told = [{"name": name, "value": value} for name, value in (metrics or {}).items()]
    found = {name: value for name, value in fields.items() if value is not None}
    return {"lastUpdatedTime": moment(at), **({"metrics": told} if told else {}), **found}


def running(at: Moment = START) -> Document:
    """The state of a container that runs."""
    return {"running": {"startedAt": moment(at)}}


def ended(code: int = 0, *, at: Moment = START, reason: str = "", **more: Any) -> Document:
    """The state of a container that has ended."""
    said = reason or ("Error" if code else "Completed")
    return {"terminated": {"exitCode": code, "reason": said, "finishedAt": moment(at), **more}}


# ---------------------------------------------------------------------- objects


def train_job(
    name: str = "j",
    namespace: str = "n",
    *,
    uid: str = "u",
    version: str = "",
    labels: Mapping[str, str] | None = None,
    owner: AnyObject | None = None,
    meta: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: Moment | None = None,
    deleted: Moment | None = None,
    conditions: Sequence[Document] | None = None,
    jobs: Sequence[Document] | None = None,
    progress: Document | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> TrainJob:
    """A TrainJob of the runtime `r`.

    Args:
        name: of the job.
        namespace: of the job.
        uid: of the job.
        version: resourceVersion.
        labels: `metadata.labels`.
        owner: its controller.
        meta: other metadata, by wire names.
        annotations: `metadata.annotations`.
        created: when.
        deleted: since when it is being deleted.
        conditions: of its status; see `condition`.
        jobs: `jobsStatus`; see `counts`.
        progress: `trainerStatus`; see `progress`.
        status: all other fields of the status, or all of it.
        spec: its fields by wire names.
    """
    given = {**(status or {}), **_given(conditions=conditions, jobsStatus=jobs, trainerStatus=progress)}
    return build(
        TrainJob,
        name,
        namespace,
        uid=uid,
        version=version,
        labels=labels,
        owner=owner,
        metadata=metadata(annotations=annotations, created=created, deleted=deleted, **(meta or {})),
        spec={"runtimeRef": {"name": "r"}, **_given(**spec)},
        status=given if given or status is not None else None,
    )


def jobset(
    *jobs: Document,
    name: str = "j",
    namespace: str = "n",
    uid: str = "s",
    version: str = "",
    owner: AnyObject | None = None,
    labels: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    conditions: Sequence[Document] | None = None,
    counted: Sequence[Document] | None = None,
    **spec: Any,
) -> JobSet:
    """A JobSet.

    Args:
        jobs: its replicated jobs; see `replicated_job`.
        name: of the JobSet.
        namespace: of the JobSet.
        uid: of the JobSet.
        version: resourceVersion.
        owner: the TrainJob.
        labels: `metadata.labels`.
        meta: other metadata, by wire names.
        status: all other fields of the status.
        conditions: of its status; see `condition`.
        counted: `replicatedJobsStatus`; see `counts`.
        spec: other fields of the spec, by wire names.
    """
    given = {**(status or {}), **_given(conditions=conditions, replicatedJobsStatus=counted)}
    return build(
        JobSet,
        name,
        namespace,
        uid=uid,
        version=version,
        owner=owner,
        labels=labels,
        metadata=meta,
        spec={**({"replicatedJobs": list(jobs)} if jobs else {}), **spec},
        status=given or None,
    )


def _given(**fields: Any) -> Document:
    """The fields that are given, with lists as a model takes them."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items() if value is not None
    }


def labels_of_pod(
    rank: int = 0, *, job: str = "j", role: str = "node", replica: int = 0, attempt: int = 0, jobset_uid: str = "s"
) -> dict[str, str]:
    """What JobSet and the Job controller write on a pod."""
    return {
        "jobset.sigs.k8s.io/jobset-name": job,
        **({"jobset.sigs.k8s.io/jobset-uid": jobset_uid} if jobset_uid else {}),
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "jobset.sigs.k8s.io/job-index": str(replica),
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": str(rank),
        "batch.kubernetes.io/job-name": f"{job}-{role}-{replica}",
    }


def pod(
    rank: int = 0,
    state: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    namespace: str = "n",
    job: str = "j",
    role: str = "node",
    replica: int = 0,
    attempt: int = 0,
    jobset_uid: str = "s",
    uid: str = "",
    version: str = "",
    owner: AnyObject | None = None,
    labels: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: Moment | None = None,
    deleted: Moment | None = None,
    phase: str = "",
    containers: Sequence[Mapping[str, Any]] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    """A pod of a training on the node `laptop`; by default it runs.

    Args:
        rank: its completion index.
        state: of its container `node`; see `ended`.
        name: by default `JOB-ROLE-REPLICA-RANK`.
        namespace: of the pod.
        job: name of the TrainJob.
        role: name of the replicated job.
        replica: index of the Job.
        attempt: of the JobSet.
        jobset_uid: of the JobSet.
        uid: by default `uid-RANK`.
        version: resourceVersion.
        owner: its controller.
        labels: in place of those that JobSet and the Job controller write.
        meta: other metadata, by wire names.
        annotations: `metadata.annotations`.
        created: when.
        deleted: since when it is being deleted.
        phase: by default what the states of the containers mean.
        containers: statuses, in place of one with `state`.
        status: other fields of the status.
        spec: fields of the spec, by wire names.
    """
    statuses = [{"name": "node", "state": running() if state is None else state}] if containers is None else containers
    whole = [{"image": "i", "imageID": "", "ready": False, "restartCount": 0, **one} for one in statuses]
    about = labels_of_pod(rank, job=job, role=role, replica=replica, attempt=attempt, jobset_uid=jobset_uid)
    return wire(
        build(
            Pod,
            name or f"{job}-{role}-{replica}-{rank}",
            namespace,
            uid=uid or f"uid-{rank}",
            version=version,
            owner=owner,
            labels=about if labels is None else labels,
            metadata=metadata(annotations=annotations, created=created, deleted=deleted, **(meta or {})),
            spec={
                "containers": [{"name": one["name"], "image": "i"} for one in whole] or [{"name": "node"}],
                "nodeName": "laptop",
                **spec,
            },
            status={"phase": phase or _phase(whole), "containerStatuses": whole, **(status or {})},
        )
    )


def _phase(containers: Sequence[Mapping[str, Any]]) -> str:
    runs = [dig(dict(one), "state.running") is not None for one in containers]
    codes = [dig(dict(one), "state.terminated.exitCode") for one in containers]
    if containers and not any(running or code is not None for running, code in zip(runs, codes, strict=True)):
        return "Pending"
    if not codes or None in codes:
        return "Running"
    return "Failed" if any(codes) else "Succeeded"
