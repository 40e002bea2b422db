# SPDX-License-Identifier: Apache-2.0
"""`trainwright render`: what a TrainJob becomes, without a cluster.

Runs the manager's own pipeline on files. Exit code 1 with every field error when a document is wrong or when admission
would refuse a TrainJob; warnings go to standard error.
"""

import argparse
import asyncio
import difflib
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.api.trainer.v1alpha1 import TrainJob
    from trainwright.controller.cli.rendering.cluster import ClusterView
    from trainwright.controller.cli.rendering.output import Rendered
    from trainwright.controller.cli.rendering.sources import Inputs
    from trainwright.plugins.contract import ClusterFacts, Runtime
    from trainwright.plugins.pipeline import Pipeline

FORMATS = ("yaml", "json", "diff")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "render",
        help="print the objects that a TrainJob becomes",
        description="Print the objects that TrainJobs become, in the order in which they would be applied. Needs no "
        "cluster. Exit code 0 when all were rendered, 1 when something is wrong with them, 2 for wrong use.",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="file or folder with TrainJobs, and runtimes if they are there; - for standard input; may be repeated",
    )
    parser.add_argument(
        "--runtime",
        action="append",
        default=[],
        metavar="FILE",
        help="file or folder with runtimes; may be repeated (default: the shipped ones; with --cluster those there)",
    )
    parser.add_argument("-n", "--namespace", default="default", help="namespace of objects that name none")
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        help="diff shows what became of the runtime's template, or with --cluster of the objects that are there "
        "(default: yaml; with --cluster diff)",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="take runtimes that no file has, and what there is already, from a cluster; nothing is changed there",
    )
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig for --cluster (default: as for the manager)")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="Configuration of the manager, for its section plugins"
    )
    parser.add_argument("--explain", action="store_true", help="say who set each value, and why")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Render; returns the exit code."""
    # Loaded here: the help of the command needs none of it.
    from trainwright.controller.cli.configuration import load_configuration  # noqa: PLC0415
    from trainwright.controller.cli.rendering.output import show  # noqa: PLC0415
    from trainwright.controller.cli.rendering.sources import RUNTIME_KINDS, Inputs  # noqa: PLC0415
    from trainwright.controller.runtime.errors import ConfigurationError  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415
    from trainwright.plugins.pipeline import Pipeline  # noqa: PLC0415
    from trainwright.plugins.registry import Registry, Selection  # noqa: PLC0415

    inputs = Inputs()
    inputs.read(arguments.filename, namespace=arguments.namespace)
    inputs.read(arguments.runtime, namespace=arguments.namespace, wanted=RUNTIME_KINDS)
    if not arguments.runtime and not arguments.cluster:
        inputs.use_shipped()
    if not inputs.jobs and not inputs.problems:
        inputs.problems.append(f"{', '.join(arguments.filename)}: no TrainJob in it")
    try:
        pipeline = Pipeline(Registry.load(Selection.of(load_configuration(arguments.config).plugins)))
    except ConfigurationError as error:
        inputs.problems.append(str(error))
        return _report(inputs.problems)
    except RegistryError as error:
        inputs.problems += error.problems
        return _report(inputs.problems)
    output = arguments.output or ("diff" if arguments.cluster else "yaml")
    if arguments.cluster:
        rendered = asyncio.run(_render_with_cluster(pipeline, inputs, arguments, difference=output == "diff"))
    else:
        rendered = _render_all(pipeline, inputs)
    show(rendered, output, explain=arguments.explain)
    return _report(inputs.problems)


def _render_all(pipeline: "Pipeline", inputs: "Inputs") -> "list[Rendered]":
    from trainwright.plugins.contract import OFFLINE  # noqa: PLC0415

    rendered = []
    for job in inputs.jobs:
        runtime = _known_runtime(job, inputs)
        if runtime is None:
            _miss_runtime(job, inputs)
            continue
        found = _rendered(pipeline, job, runtime, inputs.problems, OFFLINE)
        rendered += [found] if found is not None else []
    return rendered


async def _render_with_cluster(
    pipeline: "Pipeline", inputs: "Inputs", arguments: argparse.Namespace, *, difference: bool
) -> "list[Rendered]":
    from trainwright.controller.cli.rendering.cluster import ClusterView  # noqa: PLC0415
    from trainwright.controller.runtime.errors import ApiError, ConfigurationError, KubernetesError  # noqa: PLC0415

    rendered: list[Rendered] = []
    try:
        view = ClusterView(arguments.kubeconfig, arguments.context)
    except KubernetesError as error:
        inputs.problems.append(str(error))
        return rendered
    try:
        for job in inputs.jobs:
            try:
                found = await _rendered_in(view, pipeline, job, inputs)
                if found is not None and difference:
                    found = await found.compared(view)
            except (ApiError, ConfigurationError) as error:  # an answer about this job, and not about the next
                inputs.problems.append(f"TrainJob {job.name}: {error}")
                continue
            rendered += [found] if found is not None else []
    except KubernetesError as error:
        inputs.problems.append(str(error))
    finally:
        await view.close()
    return rendered


async def _rendered_in(
    view: "ClusterView", pipeline: "Pipeline", job: "TrainJob", inputs: "Inputs"
) -> "Rendered | None":
    """With a runtime of a file or of the cluster, and the facts of the cluster; an existing TrainJob is updated."""
    runtime = _known_runtime(job, inputs) or await view.runtime(job)
    if runtime is None:
        _miss_runtime(job, inputs, advice="the cluster has none of that name either")
        return None
    runtime.set_defaults()
    old = await view.job(job)
    if old is not None and old.metadata is not None and job.metadata is not None:
        job.metadata.uid = old.metadata.uid
    facts = await view.facts(pipeline, job, runtime)
    return _rendered(pipeline, job, runtime, inputs.problems, facts, old)


def _rendered(
    pipeline: "Pipeline",
    job: "TrainJob",
    runtime: "Runtime",
    problems: list[str],
    facts: "ClusterFacts",
    old: "TrainJob | None" = None,
) -> "Rendered | None":
    from trainwright.controller.cli.rendering.admitted import runtime_problems, runtime_warnings  # noqa: PLC0415
    from trainwright.controller.cli.rendering.output import Rendered  # noqa: PLC0415
    from trainwright.plugins.contract import PipelineError  # noqa: PLC0415

    wrong = [problem for problem in runtime_problems(runtime) if problem not in problems]
    problems += wrong
    verdict = pipeline.validate(job, runtime, facts, old=old)
    for warning in (*runtime_warnings(runtime), *verdict.warnings):
        print(f"warning: TrainJob {job.name}: {warning}", file=sys.stderr)
    problems += [f"TrainJob {job.name}: {error}" for error in verdict.errors]
    if wrong or not verdict.allowed:
        return None
    try:
        return Rendered(job, runtime, pipeline.render(job, runtime, facts))
    except PipelineError as error:
        problems.append(f"TrainJob {job.name}: {error}")
        return None


def _known_runtime(job: "TrainJob", inputs: "Inputs") -> "Runtime | None":
    from trainwright.controller.trainer.runtimes import target_of  # noqa: PLC0415

    kind, key = target_of(job)
    for runtime in inputs.runtimes:
        if isinstance(runtime, kind) and (runtime.namespace, runtime.name) == (key.namespace, key.name):
            return runtime
    return None


def _miss_runtime(job: "TrainJob", inputs: "Inputs", *, advice: str = "give its file with --runtime") -> None:
    """Say that there is no such runtime, unless its file has problems of its own, or could not be read."""
    from trainwright.controller.trainer.runtimes import target_of  # noqa: PLC0415

    kind, key = target_of(job)
    name = f"{kind.RESOURCE.kind} {key.name}"
    if inputs.unread or any(f"{name}:" in problem for problem in inputs.problems):
        return
    known = sorted({f"{runtime.RESOURCE.kind} {runtime.name}" for runtime in inputs.runtimes} | inputs.shipped.keys())
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
    hint = f"did you mean {near[0]}? " if near else ""
    kinds = itertools.groupby(known, key=lambda text: text.split(" ")[0])
    names = " and ".join(f"{kind} {', '.join(text.split(' ')[1] for text in texts)}" for kind, texts in kinds)
    there = f"there are {names}" if known else advice
    where = f" in namespace {key.namespace}" if key.namespace else ""
    inputs.problems.append(f"TrainJob {job.name}: spec.runtimeRef: {name} is not known{where}; {hint}{there}")


def _report(problems: list[str]) -> int:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0
