# SPDX-License-Identifier: Apache-2.0
"""A search as people see it: the trials of an OptimizationJob with their parameters, values and the best one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.api.conditions import find_true
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.messages import counted
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.optimization import names
from trainwright.controller.optimization.trials import RECORD_KEY, State, Trial, best_of, decoded, gone, read
from trainwright.controller.runtime import Client
from trainwright.controller.views import text
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.job import History, JobView, view_of

_PAUSED = f"the search is stopped: no trial begins until its annotation {names.ANNOTATION_SUSPEND} is removed"


@dataclass(frozen=True, slots=True)
class TrialView:
    trial: Trial
    job: JobView | None
    """None: its TrainJob was deleted."""
    train_job: str

    @property
    def state(self) -> str:
        """`Complete`, `Failed`, `Pruned`; of one that is not over, the state of its TrainJob."""
        if self.trial.is_over:
            return self.trial.state.capitalize()
        return str(self.job.state) if self.job is not None else "Pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    namespace: str
    name: str
    metric: str
    maximize: bool
    limit: int
    """How many trials there will be."""
    parameters: Sequence[str]
    trials: Sequence[TrialView]
    best: TrialView | None
    ended: str
    """The reason of the condition Complete or Failed; empty: the search goes on."""
    failed: bool
    paused: bool
    """Somebody has stopped it: no trial begins."""
    heard: bool
    """The operator says that it is paused. While it is: no trial begins from now on."""
    message: str
    """How it ended, or why no trial is made; empty: there is nothing to say."""

    @property
    def state(self) -> str:
        """`Running`, `Paused`, `Complete` or `Failed`."""
        if self.ended:
            return "Failed" if self.failed else "Complete"
        return "Paused" if self.paused else "Running"

    @property
    def over(self) -> int:
        return sum(one.trial.is_over for one in self.trials)

    def count(self, state: State) -> int:
        return sum(one.trial.state is state for one in self.trials)


def search_of(
    job: OptimizationJob, train_jobs: Iterable[TrainJob], record: ConfigMap | None, now: datetime
) -> SearchView:
    """The search from its TrainJobs, and for trials whose TrainJobs are gone from its record."""
    found = list(train_jobs)
    data = (record.data or {}) if record is not None else {}
    trials = read(job, found, decoded(data.get(RECORD_KEY, "[]")), now)
    missing = {one.number for one in gone(trials, found, job)}
    views = {one.name: view_of(one, History(), now) for one in found}
    shown = [
        TrialView(one, views.get(name), name)
        for one in trials.values()
        if one.number not in missing
        for name in (names.train_job_name(job.name, one.number),)
    ]
    best = best_of(job, trials.values())
    objective = job.spec.objectives[0]
    conditions = job.status.conditions if job.status is not None else None
    complete, failed = (find_true(conditions, one) for one in (names.COMPLETE, names.FAILED))
    created = next((one for one in conditions or () if one.type == names.CREATED and one.status == "False"), None)
    end = complete or failed
    said = end or created
    paused = end is None and names.is_paused(job)
    heard = any(one.type == names.CREATED and names.ANNOTATION_SUSPEND in one.message for one in conditions or ())
    return SearchView(
        namespace=job.namespace,
        name=job.name,
        metric=objective.metric,
        maximize=objective.direction == "Maximize",
        limit=names.limit_of(job),
        parameters=[one.name for one in job.spec.parameters],
        trials=shown,
        best=next((one for one in shown if best is not None and one.trial.number == best.number), None),
        ended=end.reason if end is not None else "",
        failed=failed is not None,
        paused=paused,
        heard=heard,
        message=_PAUSED if paused else said.message if said is not None else "",
    )


async def read_search(client: Client, namespace: str, name: str, now: datetime) -> SearchView:
    """Raises KubernetesError; NotFound if there is no such OptimizationJob."""
    job = await client.get(OptimizationJob, name, namespace)
    found = await client.list(TrainJob, namespace, label_selector=f"{names.LABEL_JOB}={name}")
    record = await if_there(client.get(ConfigMap, names.record_name(name), namespace))
    return search_of(job, found.items, record, now)


def number(value: float | None) -> str:
    return text.NONE if value is None else f"{value:.6g}"


def parameter(value: str) -> str:
    """A value of a parameter, short; what is no number is shown as it is."""
    try:
        return value if value.lstrip("-").isdigit() else f"{float(value):.4g}"
    except ValueError:
        return text.printable(value)


def columns(search: SearchView) -> list[str]:
    """The head of a table of trials."""
    return ["", "TRIAL", "STATE", text.printable(search.metric).upper(), *map(text.printable, search.parameters)]


def row(search: SearchView, one: TrialView) -> list[str]:
    known = one.trial.parameters
    shown = [parameter(known[name]) if name in known else text.NONE for name in search.parameters]
    state = one.state
    if not one.trial.is_over and one.job is not None and one.job.percentage is not None:
        state = f"{state} {one.job.percentage}%"
    mark = "*" if search.best is not None and one.trial.number == search.best.trial.number else ""
    return [mark, str(one.trial.number), state, number(one.trial.value), *shown]


def summary(search: SearchView) -> str:
    """One line: `12/20 trials, 2 running, 1 failed, best loss 0.0123 (trial 7)`."""
    counts = [
        f"{search.count(state)} {word}"
        for state, word in ((State.RUNNING, "not over"), (State.FAILED, "failed"), (State.PRUNED, "stopped early"))
        if search.count(state)
    ]
    if search.best is not None:
        best = search.best.trial
        counts.append(f"best {text.printable(search.metric)} {number(best.value)} (trial {best.number})")
    return ", ".join([f"{search.over}/{search.limit} trials", *counts])


def lines_of(search: SearchView, waiting: Mapping[str, str], *, everything: bool = False) -> list[str]:
    """How a search stands. `waiting`: why trials do not train, as sentences by the name of their TrainJobs."""
    state = search.ended or ("Blocked" if search.message and not search.paused else search.state)
    lines = [f"OptimizationJob {search.namespace}/{search.name}: {state}", f"  {summary(search)}"]
    if search.message:
        lines.append(f"  {text.printable(search.message)}")
    if search.best is not None:
        given = [f"{name} {parameter(value)}" for name, value in search.best.trial.parameters.items()]
        lines.append(f"  best: {text.printable(', '.join([f'TrainJob {search.best.train_job}', *given]))}")
    lines += [f"  TrainJob {name} waits: {text.printable(why)}" for name, why in waiting.items()]
    failed = [one for one in search.trials if one.trial.state is State.FAILED]
    shown = failed if everything else failed[:1]
    lines += [f"  TrainJob {one.train_job} failed: {text.printable(one.trial.message)}" for one in shown]
    if len(failed) > len(shown):
        lines.append(f"  {counted(len(failed) - len(shown), 'more failure')}: use --all")
    return lines


def as_json(search: SearchView, waiting: Mapping[str, str]) -> dict[str, Any]:
    """The same as data. Keys are added over time, never changed."""
    return {
        "namespace": search.namespace,
        "name": search.name,
        "state": search.state,
        "reason": search.ended or None,
        "message": search.message or None,
        "objective": {"metric": search.metric, "direction": "Maximize" if search.maximize else "Minimize"},
        "limit": search.limit,
        "best": search.best.trial.number if search.best is not None else None,
        "trials": [
            {
                "number": one.trial.number,
                "job": one.train_job,
                "state": one.state,
                "value": one.trial.value,
                "parameters": dict(one.trial.parameters),
                "message": one.trial.message or waiting.get(one.train_job) or None,
            }
            for one in search.trials
        ],
    }
