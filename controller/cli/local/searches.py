# SPDX-License-Identifier: Apache-2.0
"""Searches of a local cluster: stop them with their trials, let them go on, delete them."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress

from trainwright.api.conditions import find_true
from trainwright.api.objects import Document, controller_of, labels_of, name_of, uid_of
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.cli.local import local_jobs
from trainwright.controller.cli.local.local_jobs import END_SECONDS, RefusedError
from trainwright.controller.cli.local.pods import still_running
from trainwright.controller.optimization import names
from trainwright.controller.runtime import Client, Conflict, NotFound
from trainwright.controller.views import actions
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.ended import end_of
from trainwright.controller.views.search import SearchView, read_search

_TRAINJOB = TrainJob.RESOURCE
_LOOK_SECONDS = 0.2
_HEARD_SECONDS = 90.0
"""So long the operator may take to hear that a search is paused: it may wait for a sampler."""


async def found(client: Client, namespace: str, name: str) -> OptimizationJob | None:
    """The search of that name; None: there is none, or a TrainJob has the name, too."""
    if await if_there(client.get(_TRAINJOB, name, namespace)) is not None:
        return None
    return await if_there(client.get(OptimizationJob, name, namespace))


async def pause(client: Client, job: OptimizationJob) -> SearchView:
    """Let no trial begin any more, and suspend those that are not over. Raises NotFound, KubernetesError."""
    deadline = time.monotonic() + _HEARD_SECONDS
    # After a resume, the operator may still say that the search is paused: of the time before.
    view = await read_search(client, job.namespace, job.name, wall_clock())
    while view.heard and not view.paused and not view.ended and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_SECONDS)
        view = await read_search(client, job.namespace, job.name, wall_clock())
    await _mark(client, job, on=True)
    while True:
        # First: a trial that begins before the operator hears of it is there when it has.
        view = await read_search(client, job.namespace, job.name, wall_clock())
        changed = await _suspend_trials(client, view, on=True)
        if not changed and (view.ended or view.heard or time.monotonic() > deadline):
            return view
        await asyncio.sleep(_LOOK_SECONDS)


async def go_on(client: Client, job: OptimizationJob) -> bool:
    """Let a search that was paused go on, and its trials that were suspended; returns whether that changes it."""
    view = await read_search(client, job.namespace, job.name, wall_clock())
    changed = await _suspend_trials(client, view, on=False)
    await _mark(client, job, on=False)
    return view.paused or changed > 0


async def stop(client: Client, job: OptimizationJob) -> str:
    """Pause a search and wait until the pods of its trials have ended; returns what to say. Raises RefusedError."""
    view = await read_search(client, job.namespace, job.name, wall_clock())
    if view.ended:
        raise RefusedError(f"search {job.name} has ended: {view.ended}")
    before = view.paused
    view = await pause(client, job)
    trials = [one.train_job for one in view.trials if one.job is not None]
    await _until_pods_end(client, job, trials, "is stopped")
    return f"search {job.name}: {'is stopped already' if before else 'stopped with its trials'}"


async def resume(client: Client, job: OptimizationJob) -> str:
    """Let a search go on; returns what to say. Raises RefusedError."""
    view = await read_search(client, job.namespace, job.name, wall_clock())
    if view.ended:
        raise RefusedError(f"search {job.name} has ended: {view.ended}; begin another")
    return f"search {job.name}: {'resumed' if await go_on(client, job) else 'is not stopped'}"


async def delete(client: Client, job: OptimizationJob) -> str:
    """Delete a search with all its trials, and wait until their pods have ended; returns what to say.

    Raises RefusedError.
    """
    trials = await trials_of(client, job)
    await remove(client, job)  # first: it would make trials in place of those that are deleted
    known = set(map(uid_of, trials))
    trials += [one for one in await trials_of(client, job) if uid_of(one) not in known]
    gone = await asyncio.gather(*(local_jobs.delete(client, one, END_SECONDS) for one in trials))
    if left := [name_of(one) for one, is_gone in zip(trials, gone, strict=True) if not is_gone]:
        raise RefusedError(
            f"search {job.name} is deleted, but TrainJob {', '.join(left)} is still there after {END_SECONDS:.0f} s"
        )
    await _until_pods_end(client, job, [name_of(one) for one in trials], "is deleted")
    return f"search {job.name}: deleted with its trials"


async def remove(client: Client, job: OptimizationJob) -> None:
    """Delete the search; the garbage collector deletes its trials."""
    with suppress(NotFound):
        await client.delete(
            OptimizationJob.RESOURCE, job.name, job.namespace, uid=uid_of(job), propagation="Background"
        )


def deletable(
    searches: Iterable[OptimizationJob], jobs: Iterable[Document], deleted: Iterable[Document]
) -> Iterable[OptimizationJob]:
    """The searches that have ended and keep no trial that has a value or failed."""
    kept = [one for one in jobs if end_of(one) is not None]
    gone = set(map(uid_of, deleted))
    owners = {owner.uid for one in kept if uid_of(one) not in gone and (owner := controller_of(one)) is not None}
    for job in searches:
        conditions = job.status.conditions if job.status is not None else None
        has_ended = find_true(conditions, names.COMPLETE) or find_true(conditions, names.FAILED)
        if has_ended is not None and uid_of(job) not in owners:
            yield job


async def trials_of(client: Client, job: OptimizationJob) -> list[Document]:
    selector = f"{names.LABEL_JOB}={job.name}"
    listed = (await client.list(_TRAINJOB, job.namespace, label_selector=selector)).items
    return [one for one in listed if (owner := controller_of(one)) is not None and owner.uid == uid_of(job)]


def without_trials(jobs: Iterable[Document], searches: Iterable[OptimizationJob]) -> list[Document]:
    """The jobs that are no trials of these searches."""
    known = {(one.namespace, one.name) for one in searches}
    return [one for one in jobs if (one["metadata"].get("namespace"), labels_of(one).get(names.LABEL_JOB)) not in known]


async def _until_pods_end(client: Client, job: OptimizationJob, trials: list[str], how: str) -> None:
    """Raises RefusedError."""
    left = await asyncio.gather(*(still_running(client, job.namespace, one, END_SECONDS) for one in trials))
    if pods := [name_of(pod) for some in left for pod in some]:
        raise RefusedError(
            f"search {job.name} {how}, but these pods did not end within {END_SECONDS:.0f} s: {', '.join(pods)}"
        )


async def _mark(client: Client, job: OptimizationJob, *, on: bool) -> None:
    marks = {names.ANNOTATION_SUSPEND: "true" if on else None}
    patch = {"metadata": {"uid": uid_of(job), "annotations": marks}}
    await client.patch(OptimizationJob.RESOURCE, job.name, job.namespace, patch)


async def _suspend_trials(client: Client, view: SearchView, *, on: bool) -> int:
    """Returns how many trials were suspended, or let go on."""
    changed = 0
    for one in view.trials:
        if not one.trial.is_over and one.job is not None:
            with suppress(Conflict, NotFound):  # it has ended, or was deleted, meanwhile
                train_job = await client.get(_TRAINJOB, one.train_job, view.namespace)
                changed += await actions.suspend(client, train_job, on=on)
    return changed
