# SPDX-License-Identifier: Apache-2.0
"""What users do with a TrainJob: stop it, let it go on, delete it, run its spec again. For commands and the page."""

from trainwright.api.objects import Document, Key, name_of, namespace_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, Conflict, NotFound
from trainwright.controller.views.ended import end_of

_JOB = TrainJob.RESOURCE
_NOT_COPIED = ("kubectl.kubernetes.io/", "trainwright.dev/git-")
"""Prefixes of annotations that say how the first job was made."""
_LONGEST = 40
"""A generated name is not longer than that, or than the name it is made of: names of pods are longer still."""
_SUFFIX = 6


async def job_at(client: Client, key: Key, uid: str = "") -> Document:
    """The job; with `uid`, that very one. Raises NotFound, Conflict: another job has its name now."""
    try:
        job = await client.get(_JOB, key.name, key.namespace)
    except NotFound as error:
        was = "was deleted" if uid else f"does not exist in namespace {key.namespace}"
        raise NotFound(f"TrainJob {key.name} {was}") from error
    if uid and uid_of(job) != uid:
        raise Conflict(f"TrainJob {key.name} was deleted and created again meanwhile; look at it again")
    return job


async def suspend(client: Client, job: Document, *, on: bool) -> bool:
    """Suspend a job, or let it go on; returns whether that changes it. Raises Conflict: the job has ended."""
    if (ended := end_of(job)) is not None:
        advice = "" if on else "; run it again instead"
        raise Conflict(f"TrainJob {name_of(job)} has ended: {ended['type']}{advice}")
    if bool(job["spec"].get("suspend")) is on:
        return False
    patch = {"metadata": {"uid": uid_of(job)}, "spec": {"suspend": on}}
    await client.patch(_JOB, name_of(job), namespace_of(job), patch)
    return True


async def delete(client: Client, job: Document, *, pods_first: bool = True) -> bool:
    """Delete this very job with all that it made; returns whether it was there.

    With `pods_first`, the TrainJob is there until its pods are gone.
    """
    try:
        await client.delete(
            _JOB,
            name_of(job),
            namespace_of(job),
            uid=uid_of(job),
            propagation="Foreground" if pods_first else "Background",
        )
    except NotFound:
        return False
    return True


async def run_again(client: Client, job: Document) -> str:
    """Create a new job of the same spec; returns its name, which the API server makes."""
    return name_of(await client.create(copy_of(job), kind=_JOB))


def copy_of(job: Document) -> Document:
    """A job of the same spec, without what belongs to the life of the first one."""
    metadata = job["metadata"]
    name = str(metadata["name"])
    base = str(metadata.get("generateName") or f"{name}-")
    longest = max(_LONGEST, len(name)) - _SUFFIX + 1
    if len(base) > longest:
        base = base[:longest].rstrip("-.") + "-"
    annotations = {
        one: value for one, value in (metadata.get("annotations") or {}).items() if not one.startswith(_NOT_COPIED)
    }
    made: Document = {
        "apiVersion": _JOB.api_version,
        "kind": _JOB.kind,
        "metadata": {"generateName": base, "namespace": metadata["namespace"]},
        "spec": {field: value for field, value in job["spec"].items() if field != "suspend"},
    }
    if metadata.get("labels"):
        made["metadata"]["labels"] = dict(metadata["labels"])
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made
