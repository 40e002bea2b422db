# SPDX-License-Identifier: Apache-2.0
"""The page of a search: the trials of an OptimizationJob, and how much each parameter matters."""

import asyncio
from typing import TypeAlias

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Key, controller_of, uid_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, ParameterSpec
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.watched import ShownJobs
from trainwright.controller.optimization import names, question
from trainwright.controller.optimization.trials import State, Trials
from trainwright.controller.runtime import Client, Forbidden, NotFound
from trainwright.controller.views.cluster import if_there
from trainwright.controller.views.importance import COMMAND
from trainwright.controller.views.search import SearchView, TrialView, search_of

ENOUGH = 10
"""So many trials must have ended before the importance of parameters says anything."""
KEPT = 50
"""Of so many searches the importance is remembered."""


Values: TypeAlias = dict[int, float | None]
"""By the numbers of trials."""


class SearchParameter(contract.PageAnswer):
    name: str
    choices: list[str]
    """Empty: it is a number."""
    logarithmic: bool


class SearchTrial(contract.PageAnswer):
    number: int
    name: str
    """Of its TrainJob."""
    exists: bool
    """The TrainJob is still there."""
    state: str
    """`Complete`, `Failed`, `Pruned` (stopped early); before its end that of its TrainJob."""
    percentage: int | None
    value: float | None
    """Of the objective's metric; of a trial that was stopped early the last one."""
    parameters: dict[str, str]
    """Empty: they are not known any more."""
    message: str
    """Why it failed."""
    best: bool


class Search(contract.PageAnswer):
    """Answer of `/api/v1/searches/{namespace}/{name}`."""

    now: str
    cluster: contract.Cluster
    connection: contract.Connection
    namespace: str
    name: str
    metric: str
    maximize: bool
    sampler: str
    pruner: str
    limit: int
    """How many trials there will be at most."""
    parallel: int
    state: str
    """`Running`, `Complete`, `Failed`, or `Suspended`: somebody has stopped it."""
    message: str
    """How it ended, or why no trial is made."""
    parameters: list[SearchParameter]
    trials: list[SearchTrial]
    """By number."""
    importance: dict[str, float] | None
    """How much of the differences between values each parameter explains, as shares of 1. Null: see below."""
    importance_note: str
    """Why there is none."""


class Searches:
    def __init__(self, client: Client, watched: ShownJobs) -> None:
        self._client, self._watched = client, watched
        self._importance: dict[str, tuple[Values, dict[str, float] | None, str]] = {}
        """By uid: from which values, what was found, and why nothing was."""
        self._asking = asyncio.Lock()

    async def search(self, key: Key) -> Search:
        """Raises NotFound, KubernetesError."""
        try:
            job = await self._client.get(OptimizationJob, key.name, key.namespace)
        except NotFound as error:
            raise NotFound(f"there is no OptimizationJob {key.name} in namespace {key.namespace}") from error
        try:
            record = await if_there(self._client.get(ConfigMap, names.record_name(key.name), key.namespace))
        except Forbidden:
            record = None  # trials whose TrainJobs are gone are not shown
        uid = uid_of(job)
        found = [one for one in self._watched.jobs() if (owner := controller_of(one)) is not None and owner.uid == uid]
        view = search_of(job, found, record, wall_clock())
        importance, note = await self._important(job, view)
        return Search(
            now=format_time(wall_clock()),
            cluster=self._watched.cluster,
            connection=self._watched.connection,
            namespace=view.namespace,
            name=view.name,
            metric=view.metric,
            maximize=view.maximize,
            sampler=question.sampler_of(job),
            pruner=(job.metadata_or_empty.annotations or {}).get(names.ANNOTATION_PRUNER, ""),
            limit=view.limit,
            parallel=job.spec.parallel_trials or 1,
            state="Suspended" if view.paused else view.state,
            message=view.message,
            parameters=[_parameter(one) for one in job.spec.parameters],
            trials=[_trial(one, view) for one in view.trials],
            importance=importance,
            importance_note=note,
        )

    async def _important(self, job: OptimizationJob, view: SearchView) -> tuple[dict[str, float] | None, str]:
        """The importance of parameters, asked again when another trial has ended, and the note in place of it."""
        values = {one.trial.number: one.trial.value for one in view.trials if one.trial.state is State.COMPLETE}
        if len(values) < ENOUGH:
            return None, f"known once {ENOUGH} trials have ended with a value"
        async with self._asking:  # one process at a time, and one for all tabs that show a search
            known = self._importance.pop(uid_of(job), None)
            if known is None or known[0] != values:
                known = values, *await _asked(job, view)
            self._importance[uid_of(job)] = known
            while len(self._importance) > KEPT:
                del self._importance[next(iter(self._importance))]
        _, found, note = known
        return (None, note) if note else (found, "" if found else "all values are the same")


async def _asked(job: OptimizationJob, view: SearchView) -> tuple[dict[str, float] | None, str]:
    trials: Trials = {one.trial.number: one.trial for one in view.trials}
    try:
        return await question.in_process(question.question(job, trials), COMMAND, question.SECONDS), ""
    except question.NoAnswerError as error:
        return None, str(error)


def _parameter(one: ParameterSpec) -> SearchParameter:
    space = one.search_space
    choices = list(space.categorical.choices) if space.categorical is not None else []
    return SearchParameter(name=one.name, choices=choices, logarithmic=space.log_uniform is not None)


def _trial(one: TrialView, view: SearchView) -> SearchTrial:
    trial = one.trial
    return SearchTrial(
        number=trial.number,
        name=one.train_job,
        exists=one.job is not None,
        state=one.state,
        percentage=one.job.percentage if one.job is not None else None,
        value=trial.value,
        parameters=dict(trial.parameters),
        message=trial.message,
        best=view.best is not None and view.best.trial.number == trial.number,
    )
