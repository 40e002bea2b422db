# SPDX-License-Identifier: Apache-2.0
"""Checks OptimizationJobs at submit, beside the rules of their schema: names, annotations, variables, the template."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from trainwright.api.objects import annotations_of, deletion_timestamp_of
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, OptimizationJob
from trainwright.api.trainer.v1alpha1.queues import LABEL_QUEUE
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, replicated_jobs_of
from trainwright.controller.optimization import names, sampler
from trainwright.controller.optimization.plan import train_job
from trainwright.controller.optimization.question import sampler_of
from trainwright.controller.runtime import AlreadyExists, Client, ErrorCause, KubernetesError, Manager

_TEMPLATE = "spec.trainJobTemplate"
_POD_SUFFIX = "-abcde"
"""As long as what Kubernetes appends to the name of a pod."""


async def refusals(job: OptimizationJob, old: OptimizationJob | None, manager: Manager) -> Sequence[ErrorCause]:
    """Every reason to refuse the job, or a change that brings it. The spec of a stored job cannot change."""
    found = [*_annotation_problems(job), *_sampler_problems(job)]
    if old is not None:
        if deletion_timestamp_of(job):
            return ()  # it has to lose its finalizers
        before = [*_annotation_problems(old), *_sampler_problems(old)]
        return [one for one in found if one not in before]
    found += [*_name_problems(job, manager), *_parameter_problems(job)]
    return found or await _template_problems(job, manager.client)


def _annotation_problems(job: OptimizationJob) -> Iterable[ErrorCause]:
    annotations = annotations_of(job)
    for name, known in names.VALUES.items():
        value = annotations.get(name)
        if value is not None and value not in known:
            yield _invalid(_annotation(name), f"{value!r} is unknown; use one of {', '.join(known)}")
    algorithm = job.spec.search_algorithm
    if algorithm is not None and algorithm.grid is not None and names.ANNOTATION_SAMPLER in annotations:
        yield _invalid(_annotation(names.ANNOTATION_SAMPLER), "has no effect on a grid search; remove one of the two")
    steps = annotations.get(names.ANNOTATION_WARMUP)
    if steps is not None and not (steps.isascii() and steps.isdecimal()):
        yield _invalid(_annotation(names.ANNOTATION_WARMUP), f"{steps!r} is not a number of steps, 0 or more")
    if steps is not None and names.ANNOTATION_PRUNER not in annotations:
        yield _invalid(_annotation(names.ANNOTATION_WARMUP), f"has no effect without {names.ANNOTATION_PRUNER}")
    labels = job.spec.train_job_template.metadata_or_empty.labels or {}
    if names.ANNOTATION_PRUNER in annotations and labels.get(LABEL_QUEUE):
        message = (
            f"trials in a queue cannot be stopped early, because Kueue resumes them; remove the label {LABEL_QUEUE}"
        )
        yield _invalid(_annotation(names.ANNOTATION_PRUNER), message)


def _name_problems(job: OptimizationJob, manager: Manager) -> Iterable[ErrorCause]:
    trials = names.limit_of(job)
    longest = names.longest_name(trials)
    reference = job.spec.train_job_template.spec.runtime_ref
    kind = next((one for one in RUNTIMES if one.RESOURCE.kind == reference.kind), ClusterTrainingRuntime)
    runtime = None
    with suppress(KubernetesError):  # the first list may not have arrived yet
        runtime = manager.cache.get(kind, reference.name, job.namespace if kind.RESOURCE.namespaced else "")
    if runtime is not None:
        longest -= max((len(_pod_of(job, one)) for one in replicated_jobs_of(runtime)), default=0)
    if len(job.name) > longest:
        message = (
            f"{job.name} has {len(job.name)} characters; with {trials} trials the longest name is {longest}, because "
            "the names of TrainJobs and their pods begin with it"
        )
        yield _invalid("metadata.name", message)


def _pod_of(job: OptimizationJob, replicated: object) -> str:
    """What the name of a TrainJob is followed by in the longest name that JobSet makes of a replicated job."""
    name, replicas = getattr(replicated, "name", ""), getattr(replicated, "replicas", None) or 1
    nodes = job.spec.train_job_template.spec.trainer_or_empty.num_nodes or 1
    return f"-{name}-{replicas - 1}-{nodes - 1}{_POD_SUFFIX}"


def _parameter_problems(job: OptimizationJob) -> Iterable[ErrorCause]:
    parameters = job.spec.parameters
    variables = Counter(names.variable(one.name) for one in parameters)
    taken = {one.name for one in job.spec.train_job_template.spec.trainer_or_empty.env or ()}
    for index, parameter in enumerate(parameters):
        variable, path = names.variable(parameter.name), f"spec.parameters[{index}].name"
        if variables[variable] > 1:
            met = [one.name for one in parameters if names.variable(one.name) == variable]
            yield _invalid(path, f"the parameters {' and '.join(met)} both become the variable {variable}; rename one")
        if variable in taken:
            yield _invalid(path, f"the template sets the variable {variable} of this parameter; remove it there")
        categorical = parameter.search_space.categorical
        if categorical is not None and "" in categorical.choices:
            place = f"spec.parameters[{index}].searchSpace.categorical.choices"
            yield _invalid(place, "a choice is empty; the result of a search cannot show it")
    metadata = job.spec.train_job_template.metadata_or_empty
    for place, given in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for name in sorted(names.NOT_IN_TEMPLATE & (given or {}).keys()):
            yield _invalid(f"{_TEMPLATE}.metadata.{place}[{name}]", "is set by the search on each TrainJob; remove it")


def _sampler_problems(job: OptimizationJob) -> Iterable[ErrorCause]:
    for problem in sampler.problems(sampler_of(job), [msgspec.to_builtins(one) for one in job.spec.parameters]):
        yield _invalid("spec.parameters", problem)


async def _template_problems(job: OptimizationJob, client: Client) -> Sequence[ErrorCause]:
    """What the API server, and with it the trainer, says of a dry run that creates the TrainJob of the last trial."""
    space = [sampler.Parameter.of(msgspec.to_builtins(one)) for one in job.spec.parameters]
    samples = {one.name: one.at(0.5) for one in space}
    try:
        await client.create(train_job(job, names.limit_of(job), samples, owned=False), dry_run=True)
    except AlreadyExists:
        return ()  # admission comes before this check
    except KubernetesError as error:
        return [_invalid(_TEMPLATE, str(error))]
    return ()


def _annotation(name: str) -> str:
    return f"metadata.annotations[{name}]"


def _invalid(path: str, message: str) -> ErrorCause:
    return ErrorCause("FieldValueInvalid", path, message)
