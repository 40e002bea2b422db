# SPDX-License-Identifier: Apache-2.0
"""Runs the searches: makes TrainJobs, keeps the record of their trials, writes the status.

Everything is computed from the OptimizationJob, the TrainJobs that it controls, and the record, which is written before
what it justifies. So a manager may end between any two writes: the next one goes on with the same trials.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from trainwright.api.conditions import find_true
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import (
    Document,
    Key,
    annotations_of,
    controller_of,
    dig,
    is_controlled_by,
    managed_fields_of,
    owner_reference,
    resource_version_of,
    uid_of,
)
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES
from trainwright.controller.optimization import names, plan
from trainwright.controller.optimization.admission import refusals
from trainwright.controller.optimization.question import Ask, NoAnswerError, ask, checked, question
from trainwright.controller.optimization.trials import (
    RECORD_KEY,
    State,
    Trial,
    Trials,
    best_of,
    decoded,
    encoded,
    gone,
    late_report,
    percentage_of,
    read,
    without_train_job,
)
from trainwright.controller.runtime import (
    AdmissionRequest,
    AlreadyExists,
    App,
    Backoff,
    Conflict,
    Context,
    ErrorCause,
    Event,
    KubernetesError,
    Manager,
    NotFound,
    Result,
)

log = logging.getLogger(__name__)

_REFUSALS = (400, 403, 404, 409, 422)


class RecordRefusedError(Exception):
    """The record cannot be written; the text says why. No trial is made then, and none ends."""


@dataclass(slots=True)
class Record:
    """The trials as they are stored, and what was asked of them."""

    uid: str
    trials: Trials = field(default_factory=dict)
    version: str = ""
    """resourceVersion of the ConfigMap; empty: there is none."""
    foreign: bool = False
    """Whether another program has a ConfigMap of that name."""
    steps: dict[int, int] = field(default_factory=dict)
    """By number of a running trial, the step up to which the pruner has judged it."""


class SearchMetrics:
    """How trials end, and how long the sampler takes. They come from the leader alone; no label names a search."""

    def __init__(self, registry: CollectorRegistry) -> None:
        ended = Counter("trainer_search_trials_total", "Trials that have ended.", ["state"], registry=registry)
        # All from the start: Prometheus cannot see the rise to the first value of a new series.
        self.trials: dict[State, Counter] = {one: ended.labels(one) for one in State if one is not State.RUNNING}
        self.suggestion_seconds = Histogram(
            "trainer_search_suggestion_duration_seconds",
            "Time to an answer of the sampler.",
            buckets=(0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60),
            registry=registry,
        )


class Searches:
    """The operator; `app` declares it."""

    def __init__(self, ask: Ask = ask, now: Now = wall_clock) -> None:
        self.app = App("optimization")
        self._ask, self._now = ask, now
        self._records: dict[Key, Record] = {}
        # Of the manager that this joins before anything is asked or reconciled.
        self._manager: Manager
        self._metrics: SearchMetrics
        self.app.reconciles(
            OptimizationJob,
            name="optimizationjob",
            owns=[TrainJob],
            reads=RUNTIMES,
            writes=[ConfigMap, TrainJob],
            status=True,
            events=True,
            when=[_matters],
            workers=4,
        )(self.search)
        self.app.validates(OptimizationJob)(self.validate)
        self.app.extends()(self._join)

    def _join(self, manager: Manager) -> None:
        self._manager = manager
        self._metrics = SearchMetrics(manager.metrics.registry)

    async def validate(self, job: OptimizationJob, request: AdmissionRequest[OptimizationJob]) -> Sequence[ErrorCause]:
        """Every reason to refuse a job."""
        return await refusals(job, request.old, self._manager)

    # ------------------------------------------------------------------ one pass

    async def search(self, job: OptimizationJob, ctx: Context) -> Result:
        """One pass over a search: what ended, what to stop, what to make, what to show."""
        record = await self._record(job, ctx)
        if self._stands(job, ctx, record):
            self._records.pop(ctx.key, None)
            return None
        try:
            trials = await self._observed(job, ctx, record)
            if await self._prune(job, ctx, record, trials):
                trials = await self._observed(job, ctx, record)
            numbers, end = plan.next_of(job, trials)
            problem = await self._make(job, ctx, record, trials, numbers) if numbers else None
        except (Conflict, AlreadyExists):
            # Another manager wrote the record, or its ConfigMap was replaced.
            self._records.pop(ctx.key, None)
            raise
        except RecordRefusedError as error:
            trials, end = record.trials, None
            problem = plan.Problem(reason=names.TRIALS_NOT_CREATED, message=str(error))
        now = self._now()
        status = plan.status_of(job, trials, end, problem, now)
        if (repair := plan.without_edits(job, status)) is not None:
            await ctx.manager.client.patch(OptimizationJob, job.name, job.namespace, repair, subresource="status")
        await ctx.status(status)
        if problem is not None:
            return Backoff(problem.message)
        if end is not None:
            self._over(job, ctx, end)
        elif (seconds := late_report(ctx.list(TrainJob, owned=True), trials, job, now)) is not None:
            ctx.requeue_after(seconds)
        return None

    async def _observed(self, job: OptimizationJob, ctx: Context, record: Record) -> Trials:
        """The trials as they are now. What has ended, and what was not in the record, is there afterwards."""
        found = ctx.list(TrainJob, owned=True)
        trials = read(job, found, record.trials, self._now())
        for trial in gone(trials, found, job):
            if await _train_job(job, ctx, trial.number) is None:  # the cache may not show it yet
                trials[trial.number] = without_train_job(trial)
        over = {number for number, one in record.trials.items() if one.is_over}
        ended = [one for one in trials.values() if one.is_over and one.number not in over]
        best = best_of(job, record.trials.values())
        if ended or trials.keys() != record.trials.keys():
            await self._save(job, ctx, record, trials)
        record.trials = dict(trials)
        for trial in ended:
            _tell(job, ctx, trial)
            self._metrics.trials[trial.state].inc()
        now_best = best_of(job, trials.values())
        if now_best is not None and now_best != best:
            name = names.train_job_name(job.name, now_best.number)
            ctx.event("NewBestTrial", f"the best {job.spec.objectives[0].metric} is {now_best.value:.6g}, of {name}")
        return trials

    async def _prune(self, job: OptimizationJob, ctx: Context, record: Record, trials: Trials) -> bool:
        """Stop the running trials that the pruner gives up; False: none."""
        pruner = plan.pruner_of(job)
        steps = {one.number: one.curve[-1][0] for one in trials.values() if not one.is_over and one.curve}
        if pruner is None or all(record.steps.get(number) == step for number, step in steps.items()):
            return False
        try:
            answer = checked(await self._ask(question(job, trials, sampler_name="random")), (), job)
        except NoAnswerError as error:
            log.warning("%s: no trial can be stopped early: %s", ctx.key, error)
            return False
        running = {names.number_of(job.name, one.name): one for one in ctx.list(TrainJob, owned=True)}
        for one in answer.prune:
            trial, train_job = trials.get(one.number), running.get(one.number)
            if trial is None or trial.is_over or train_job is None or percentage_of(train_job) == 100:
                continue  # one of 100 % may be saving its model
            patch = plan.suspension(pruner["name"], one.step, trial, uid_of(train_job))
            with suppress(NotFound):  # the next pass counts it as deleted
                await ctx.manager.client.patch(TrainJob, train_job.name, job.namespace, patch)
        record.steps = steps
        return bool(answer.prune)

    async def _make(
        self, job: OptimizationJob, ctx: Context, record: Record, trials: Trials, numbers: Sequence[int]
    ) -> plan.Problem | None:
        """Make the TrainJobs of these trials, and add them to `trials`. Returns why one cannot be made."""
        try:
            with self._metrics.suggestion_seconds.time():
                answer = checked(await self._ask(question(job, trials, numbers)), numbers, job)
        except NoAnswerError as error:
            return plan.Problem(reason=names.SAMPLER_FAILED, message=str(error))
        if not record.version or record.foreign:
            await self._save(job, ctx, record, trials)  # no training begins whose record is refused
        said: list[str] = []
        for one in answer.trials:
            try:
                trials[one.number] = await self._create(job, ctx, one.number, one.parameters)
            except AlreadyExists:
                name = names.train_job_name(job.name, one.number)
                said.append(f"TrainJob {name} exists and is not of this search, which needs the name; delete it")
            except KubernetesError as error:
                if not _is_refusal(error):
                    raise  # the next pass finds what was made
                said.append(str(error))
                break
        if trials.keys() != record.trials.keys():
            await self._save(job, ctx, record, dict(sorted(trials.items())))
        return plan.Problem(reason=names.TRIALS_NOT_CREATED, message="; ".join(said)) if said else None

    async def _create(self, job: OptimizationJob, ctx: Context, number: int, parameters: dict[str, str]) -> Trial:
        document = plan.train_job(job, number, parameters)
        try:
            await ctx.manager.client.create(document, kind=TrainJob)
        except AlreadyExists:
            if (there := await _train_job(job, ctx, number)) is None:
                raise
            # Another manager made it, or this one did not hear of its success.
            return read(job, [there], {}, self._now())[number]
        return Trial(number=number, state=State.RUNNING, parameters=parameters)

    def _stands(self, job: OptimizationJob, ctx: Context, record: Record) -> bool:
        """Whether the search has ended, and its record was deleted since: nothing is left that could say otherwise."""
        if record.trials or not any(_is_ours(job, one, ctx) for one in (names.COMPLETE, names.FAILED)):
            return False
        return all(one.is_over for one in read(job, ctx.list(TrainJob, owned=True), {}, self._now()).values())

    def _over(self, job: OptimizationJob, ctx: Context, end: plan.End) -> None:
        self._records.pop(ctx.key, None)  # the memory of searches that have ended would add up
        if job.status is None or not any(one.type == end.type for one in job.status.conditions or ()):
            ctx.event(end.reason, "the search has ended", type="Warning" if end.type == names.FAILED else "Normal")

    # ------------------------------------------------------------------ the record

    async def _record(self, job: OptimizationJob, ctx: Context) -> Record:
        if (known := self._records.get(ctx.key)) and not known.foreign and known.uid == uid_of(job):
            return known
        for key in [one for one in self._records if ctx.manager.cache.get(OptimizationJob, one) is None]:
            del self._records[key]
        record = Record(uid_of(job))
        try:
            stored = await ctx.manager.client.get(ConfigMap, names.record_name(job.name), job.namespace)
        except NotFound:
            pass
        else:
            record.version = resource_version_of(stored)
            if is_controlled_by(stored, job):
                record.trials = decoded((stored.data or {}).get(RECORD_KEY, ""))
            else:
                owner = controller_of(stored)
                # That of an earlier job of this name is taken over.
                record.foreign = owner is None or owner.kind != OptimizationJob.RESOURCE.kind
        self._records[ctx.key] = record
        return record

    async def _save(self, job: OptimizationJob, ctx: Context, record: Record, trials: Trials) -> None:
        """Store the trials. Raises Conflict if another manager wrote the record, and RecordRefusedError."""
        client, name = ctx.manager.client, names.record_name(job.name)
        if record.foreign:
            raise RecordRefusedError(f"ConfigMap {name} is not of this search, which needs the name; delete it")
        data = {RECORD_KEY: encoded(trials, job)}
        owners = [owner_reference(job, OptimizationJob.RESOURCE)]
        metadata: Document = {"name": name, "namespace": job.namespace, "ownerReferences": owners}
        try:
            if record.version:
                patch = {"metadata": {**metadata, "resourceVersion": record.version}, "data": data}
                record.version = resource_version_of(await client.patch(ConfigMap, name, job.namespace, patch))
            else:
                document = {"metadata": metadata, "data": data}
                record.version = resource_version_of(await client.create(document, kind=ConfigMap))
        except KubernetesError as error:
            if isinstance(error, NotFound) and record.version:  # somebody deleted it
                record.version = ""
                return await self._save(job, ctx, record, trials)
            if isinstance(error, Conflict | AlreadyExists) or not _is_refusal(error):
                raise
            raise RecordRefusedError(f"the record of the trials, ConfigMap {name}, is refused: {error}") from error
        record.trials = dict(trials)
        return None


def _is_ours(job: OptimizationJob, condition: str, ctx: Context) -> bool:
    """Whether the condition is True, and was written by this operator."""
    fields = managed_fields_of(job, ctx.manager.applier.field_manager, "status")
    written = dig(fields, "f:status.f:conditions") or {}
    return find_true(job.status_or_empty.conditions, condition) is not None and f'k:{{"type":"{condition}"}}' in written


def _is_refusal(error: KubernetesError) -> bool:
    """Whether the API server has refused a request, which it would refuse again."""
    return getattr(error, "status", 0) in _REFUSALS


async def _train_job(job: OptimizationJob, ctx: Context, number: int) -> TrainJob | None:
    """The TrainJob of a trial, from the API server; None: there is none that belongs to the search."""
    try:
        found = await ctx.manager.client.get(TrainJob, names.train_job_name(job.name, number), job.namespace)
    except NotFound:
        return None
    return found if is_controlled_by(found, job) else None


def _tell(job: OptimizationJob, ctx: Context, trial: Trial) -> None:
    name, event = names.train_job_name(job.name, trial.number), f"Trial{trial.state.capitalize()}"
    what = f"{job.spec.objectives[0].metric} is {trial.value:.6g}" if trial.value is not None else "it has no value"
    if trial.state is State.FAILED:
        ctx.event(event, f"trial {name} failed: {trial.message}", type="Warning")
    else:
        ended = "was stopped early" if trial.state is State.PRUNED else "is complete"
        ctx.event(event, f"trial {name} {ended}; {what}")


def _matters(event: Event[Any]) -> bool:
    """Whether a change can concern a search. Of a TrainJob that runs, reports do so only where trials are pruned."""
    old, new = event.old, event.new
    if not isinstance(old, TrainJob) or not isinstance(new, TrainJob):
        return True
    if annotations_of(new) != annotations_of(old) or is_finished(new) != is_finished(old):
        return True
    reported = new.status_or_empty.trainer_status != old.status_or_empty.trainer_status
    return reported and (is_finished(new) or names.ANNOTATION_PRUNER in annotations_of(new))
