# SPDX-License-Identifier: Apache-2.0
"""Decides what an OptimizationJob needs next, and what its status says. Pure functions of the job and its trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from trainwright.api.conditions import set_condition
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.messages import CONDITION_LIMIT, counted, shortened
from trainwright.api.objects import Document, annotations_of, owner_reference, resource_version_of
from trainwright.api.trainer.v1alpha1 import (
    OptimizationJob,
    OptimizationJobStatus,
    OptimizationResult,
    ParameterAssignment,
    TrainJob,
)
from trainwright.controller.optimization import names
from trainwright.controller.optimization.trials import State, Trial, Trials, best_of, compact

FRUITLESS = 5
"""So many failures without any success are enough: no more trials are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The condition that says how a search ended."""

    type: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why no trial could be made: the reason and the message of the condition Created."""

    reason: str
    message: str


def next_of(job: OptimizationJob, trials: Trials) -> tuple[Sequence[int], End | None]:
    """The numbers of the trials to make, and the end; None: the search goes on."""
    limit = names.limit_of(job)
    states = [one.state for one in trials.values()]
    failed, running = states.count(State.FAILED), states.count(State.RUNNING)
    fruitless = failed >= FRUITLESS and failed + running == len(states)
    missing = [number for number in range(1, limit + 1) if number not in trials]
    room = max(0, (job.spec.parallel_trials or 1) - running)
    if running or (missing and not fruitless):
        return () if fruitless or names.is_paused(job) else missing[:room], None
    if State.COMPLETE not in states:
        return (), End(type=names.FAILED, reason=names.TRIALS_FAILED)
    reason = names.SPACE_EXHAUSTED if limit < (job.spec.num_trials or 1) else names.MAX_TRIALS_REACHED
    return (), End(type=names.COMPLETE, reason=reason)


# ---------------------------------------------------------------------- the TrainJob of a trial


def train_job(job: OptimizationJob, number: int, parameters: Mapping[str, str], *, owned: bool = True) -> Document:
    """The TrainJob of a trial. `owned`: with the job as its controller, for which it must be stored."""
    template = job.spec.train_job_template
    given = template.metadata_or_empty
    spec: Document = msgspec.to_builtins(template.spec)
    trainer = dict(spec.get("trainer") or {})
    # Kubernetes takes $(NAME) in a value for the value of another variable, and $$ for a $.
    variables = [
        {"name": names.variable(name), "value": value.replace("$", "$$")} for name, value in parameters.items()
    ]
    trainer["env"] = [*(trainer.get("env") or ()), *variables]
    metadata: Document = {
        "name": names.train_job_name(job.name, number),
        "namespace": job.namespace,
        "labels": {**(given.labels or {}), names.LABEL_JOB: job.name},
        "annotations": {
            **(given.annotations or {}),
            names.ANNOTATION_TRIAL: str(number),
            names.ANNOTATION_PARAMETERS: compact(parameters),
        },
    }
    if (pruner := pruner_of(job)) is not None:
        metadata["annotations"][names.ANNOTATION_PRUNER] = pruner["name"]
    if given.finalizers:
        metadata["finalizers"] = list(given.finalizers)
    if owned:
        metadata["ownerReferences"] = [owner_reference(job, job.RESOURCE)]
    resource = TrainJob.RESOURCE
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {**spec, "trainer": trainer},
    }


def suspension(pruner: str, step: int, trial: Trial, uid: str) -> Document:
    """The patch that stops the TrainJob of a trial, which has this uid, early."""
    value = trial.curve[-1][1] if trial.curve else None
    note = compact({"pruner": pruner, "step": step, "value": value})
    return {"metadata": {"uid": uid, "annotations": {names.ANNOTATION_PRUNED: note}}, "spec": {"suspend": True}}


# ---------------------------------------------------------------------- the status


def status_of(
    job: OptimizationJob, trials: Trials, end: End | None, problem: Problem | None, now: datetime
) -> OptimizationJobStatus:
    """The whole status. Transition times are kept where the status of a condition is the same."""
    best = best_of(job, trials.values())
    before = job.status.conditions if job.status is not None else None
    conditions: list[Condition] = []
    for wanted in _conditions(job, trials, end, problem, best):
        kept = [one for one in before or () if one.type == wanted.type]
        conditions += set_condition(kept, wanted, now=lambda: now)
    result = None
    if best is not None:
        parameters = [ParameterAssignment(name=name, value=value) for name, value in best.parameters.items()]
        result = OptimizationResult(
            train_job_name=names.train_job_name(job.name, best.number), parameters=parameters or None
        )
    return OptimizationJobStatus(conditions=conditions, result=result)


def without_edits(job: OptimizationJob, wanted: OptimizationJobStatus) -> Document | None:
    """The patch that takes away what others wrote into the status; None: they wrote nothing.

    To apply the wanted status changes its own fields only: fields of others beside them would stay.
    """
    status, types = job.status_or_empty, {one.type for one in wanted.conditions or ()}
    ours = (names.COMPLETE, names.FAILED, names.CREATED, names.BEST)
    kept = [one for one in status.conditions or () if one.type in types or one.type not in ours]
    before = {one.name for one in status.result_or_empty.parameters or ()}
    named = {one.name for one in wanted.result_or_empty.parameters or ()}
    patch: Document = {}
    if len(kept) < len(status.conditions or ()):
        patch["conditions"] = msgspec.to_builtins(kept)
    if status.result is not None and (wanted.result is None or before - named):
        patch["result"] = None
    return {"metadata": {"resourceVersion": resource_version_of(job)}, "status": patch} if patch else None


def _conditions(
    job: OptimizationJob, trials: Trials, end: End | None, problem: Problem | None, best: Trial | None
) -> Iterable[Condition]:
    limit, states = names.limit_of(job), [one.state for one in trials.values()]
    running, failed = states.count(State.RUNNING), states.count(State.FAILED)
    over = len(states) - running
    if problem is not None:
        yield _condition(names.CREATED, on=False, reason=problem.reason, message=problem.message)
    elif trials or names.is_paused(job):
        message = f"{len(trials)} of {counted(limit, 'TrainJob')} created"
        if end is None and names.is_paused(job):
            message += f"; paused: no more are created until the annotation {names.ANNOTATION_SUSPEND} is removed"
        reason = names.TRIALS_CREATED if trials else names.PAUSED
        yield _condition(names.CREATED, on=bool(trials), reason=reason, message=message)
    if end is not None:
        yield _condition(end.type, on=True, reason=end.reason, message=_last_words(job, trials, best))
    yield _condition(names.ENDED, on=end is not None, reason=names.COUNTED, message=f"{over}/{limit}")
    yield _condition(names.RUNNING, on=running > 0, reason=names.COUNTED, message=str(running))
    yield _condition(names.TRIALS_FAILED, on=failed > 0, reason=names.COUNTED, message=str(failed))
    if best is not None and best.value is not None:
        yield _condition(names.BEST, on=True, reason=names.COUNTED, message=f"{best.value:.6g}")


def _last_words(job: OptimizationJob, trials: Trials, best: Trial | None) -> str:
    if best is not None:
        metric = job.spec.objectives[0].metric
        name = names.train_job_name(job.name, best.number)
        return f"{counted(len(trials), 'trial')} ended; the best {metric} is {best.value:.6g}, of TrainJob {name}"
    failed = [one for one in trials.values() if one.state is State.FAILED]
    if not failed:
        return f"all {counted(len(trials), 'trial')} were stopped early"
    first = failed[0]
    name = names.train_job_name(job.name, first.number)
    start = f"{counted(len(failed), 'trial')} failed and none gave a value; the first, TrainJob {name}: "
    return start + shortened(first.message, CONDITION_LIMIT - len(start))  # the name stays whole


def _condition(type_: str, *, on: bool, reason: str, message: str) -> Condition:
    return Condition(
        type=type_,
        status="True" if on else "False",
        reason=reason,
        message=shortened(message),
        last_transition_time="",
    )


def pruner_of(job: OptimizationJob) -> Document | None:
    """The pruner that the annotations ask for, as the sampler's question has it."""
    annotations = annotations_of(job)
    name = annotations.get(names.ANNOTATION_PRUNER)
    if name not in names.PRUNERS:
        return None
    steps = annotations.get(names.ANNOTATION_WARMUP, "0")
    return {"name": name, "warmupSteps": int(steps) if steps.isdecimal() else 0}
