# SPDX-License-Identifier: Apache-2.0
"""`trainwright render`: prints the objects that a TrainJob becomes, without a cluster.

It runs the manager's pipeline on files. Exit code 1 with every field error if a document is invalid or if admission
would refuse a TrainJob; warnings go to standard error.
"""

import argparse
import asyncio
import difflib
import itertools
import sys

from trainwright.api import extras
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.cli.commands import refused
from trainwright.controller.cli.configuration import load_registry
from trainwright.controller.cli.rendering.cluster import ClusterView, ExistingObjects, FilesOnly
from trainwright.controller.cli.rendering.output import RenderedJob, runtime_problems, runtime_warnings, show
from trainwright.controller.cli.rendering.sources import RUNTIME_KINDS, RenderInputs
from trainwright.controller.runtime import ApiError, ConfigurationError, KubernetesError
from trainwright.controller.trainer.build.runtimes import target_of
from trainwright.plugins.contract import FactUnavailable, PipelineError, RegistryError, Runtime
from trainwright.plugins.pipeline import Pipeline


def run(arguments: argparse.Namespace) -> int:
    inputs = RenderInputs()
    inputs.read(arguments.filename, namespace=arguments.namespace)
    inputs.read(arguments.runtime, namespace=arguments.namespace, wanted=RUNTIME_KINDS)
    if not arguments.runtime and not arguments.cluster:
        inputs.use_shipped()
    if not inputs.jobs and not inputs.problems:
        inputs.problems.append(f"{', '.join(arguments.filename)}: it holds no TrainJob")
    try:
        pipeline = Pipeline(load_registry(arguments.config))
    except ConfigurationError as error:
        inputs.problems.append(str(error))
        return refused(inputs.problems)
    except RegistryError as error:
        inputs.problems += error.problems
        return refused(inputs.problems)
    output = arguments.output or ("diff" if arguments.cluster else "yaml")
    difference = arguments.cluster and output == "diff"
    show(
        asyncio.run(_render_all(pipeline, inputs, arguments, difference=difference)), output, explain=arguments.explain
    )
    if not inputs.checked:
        needed = extras.install(extras.missing("validate"))
        print(f"note: schemas and rules were not checked; to check them: {needed}", file=sys.stderr)
    return refused(inputs.problems) if inputs.problems else 0


async def _render_all(
    pipeline: Pipeline, inputs: RenderInputs, arguments: argparse.Namespace, *, difference: bool
) -> list[RenderedJob]:
    rendered: list[RenderedJob] = []
    try:
        view: ExistingObjects = FilesOnly()
        if arguments.cluster:
            view = ClusterView.of(arguments.kubeconfig, arguments.context)
    except KubernetesError as error:
        inputs.problems.append(str(error))
        return rendered
    try:
        for job in inputs.jobs:
            try:
                found = await _rendered(pipeline, job, inputs, view)
                if found is not None and difference:
                    found = await found.compared(view)
            except (ApiError, ConfigurationError) as error:  # it concerns this job only
                inputs.problems.append(f"TrainJob {job.name}: {error}")
                continue
            rendered += [found] if found is not None else []
    except KubernetesError as error:
        inputs.problems.append(str(error))
    finally:
        await view.close()
    return rendered


async def _rendered(
    pipeline: Pipeline, job: TrainJob, inputs: RenderInputs, view: ExistingObjects
) -> RenderedJob | None:
    """Admit and build one job as the manager would; returns None if it has problems. An existing job is updated."""
    runtime = _known_runtime(job, inputs) or await view.runtime(job)
    if runtime is None:
        _miss_runtime(job, inputs, advice=view.advice)
        return None
    runtime.set_defaults()
    old = await view.job(job)
    if old is not None and old.metadata is not None and job.metadata is not None:
        job.metadata.uid = old.metadata.uid
    wrong = [problem for problem in runtime_problems(runtime) if problem not in inputs.problems]
    inputs.problems += wrong
    run = pipeline.begin(job, runtime, old)
    try:
        facts = await view.read(run.admission_references())
        verdict = run.validate(facts)
        for warning in (*runtime_warnings(runtime), *verdict.warnings):
            print(f"warning: TrainJob {job.name}: {warning}", file=sys.stderr)
        inputs.problems += [f"TrainJob {job.name}: {error}" for error in verdict.errors]
        return None if wrong or not verdict.allowed else RenderedJob(job, runtime, run.render(facts))
    except (PipelineError, FactUnavailable) as error:
        inputs.problems.append(f"TrainJob {job.name}: {error}")
        return None


def _known_runtime(job: TrainJob, inputs: RenderInputs) -> Runtime | None:
    kind, key = target_of(job)
    for runtime in inputs.runtimes:
        if isinstance(runtime, kind) and (runtime.namespace, runtime.name) == (key.namespace, key.name):
            return runtime
    return None


def _miss_runtime(job: TrainJob, inputs: RenderInputs, *, advice: str) -> None:
    """Report that the runtime is unknown, unless its file has problems of its own or could not be read."""
    kind, key = target_of(job)
    name = f"{kind.RESOURCE.kind} {key.name}"
    if inputs.unread or any(f"{name}:" in problem for problem in inputs.problems):
        return
    known = sorted({f"{runtime.RESOURCE.kind} {runtime.name}" for runtime in inputs.runtimes} | inputs.shipped.keys())
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
    hint = f"did you mean {near[0]}? " if near else ""
    kinds = itertools.groupby(known, key=lambda text: text.split(" ")[0])
    names = " and ".join(f"{kind} {', '.join(text.split(' ')[1] for text in texts)}" for kind, texts in kinds)
    there = f"known are {names}" if known else advice
    where = f" in namespace {key.namespace}" if key.namespace else ""
    inputs.problems.append(f"TrainJob {job.name}: spec.runtimeRef: {name} is unknown{where}; {hint}{there}")
