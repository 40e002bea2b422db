# SPDX-License-Identifier: Apache-2.0
"""`trainwright render`: what a TrainJob becomes, without a cluster.

Runs the manager's own pipeline on files. Exit code 1 with every field error when a document is wrong or when admission
would refuse a TrainJob; warnings go to standard error.
"""

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.api.trainer.v1alpha1 import TrainJob
    from trainwright.controller.cli.rendering.output import Rendered
    from trainwright.controller.cli.rendering.sources import Inputs
    from trainwright.plugins.contract import Runtime
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
        help="file or folder with runtimes; may be repeated",
    )
    parser.add_argument("-n", "--namespace", default="default", help="namespace of objects that name none")
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="yaml",
        help="diff shows what became of the runtime's template (default: %(default)s)",
    )
    parser.add_argument("--explain", action="store_true", help="say who set each value, and why")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Render; returns the exit code."""
    # Loaded here: the help of the command needs none of it.
    from trainwright.controller.cli.rendering.output import show  # noqa: PLC0415
    from trainwright.controller.cli.rendering.sources import Inputs  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415
    from trainwright.plugins.pipeline import Pipeline  # noqa: PLC0415
    from trainwright.plugins.registry import Registry  # noqa: PLC0415

    inputs = Inputs()
    inputs.read(arguments.filename, namespace=arguments.namespace)
    runtime_kinds = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})
    inputs.read(arguments.runtime, namespace=arguments.namespace, wanted=runtime_kinds)
    if not inputs.jobs and not inputs.problems:
        inputs.problems.append(f"{', '.join(arguments.filename)}: no TrainJob in it")
    try:
        pipeline = Pipeline(Registry.load())
    except RegistryError as error:
        inputs.problems += error.problems
        return _report(inputs.problems)
    rendered = _render_all(pipeline, inputs)
    show(rendered, arguments.output, explain=arguments.explain)
    return _report(inputs.problems)


def _render_all(pipeline: "Pipeline", inputs: "Inputs") -> "list[Rendered]":
    rendered = []
    for job in inputs.jobs:
        runtime = _runtime_of(job, inputs)
        if runtime is not None:
            found = _rendered(pipeline, job, runtime, inputs.problems)
            rendered += [found] if found is not None else []
    return rendered


def _rendered(pipeline: "Pipeline", job: "TrainJob", runtime: "Runtime", problems: list[str]) -> "Rendered | None":
    from trainwright.controller.cli.rendering.output import Rendered  # noqa: PLC0415
    from trainwright.plugins.contract import OFFLINE, PipelineError  # noqa: PLC0415

    verdict = pipeline.validate(job, runtime, OFFLINE)
    for warning in verdict.warnings:
        print(f"warning: TrainJob {job.name}: {warning}", file=sys.stderr)
    problems += [f"TrainJob {job.name}: {error}" for error in verdict.errors]
    if not verdict.allowed:
        return None
    try:
        return Rendered(job, runtime, pipeline.render(job, runtime, OFFLINE))
    except PipelineError as error:
        problems.append(f"TrainJob {job.name}: {error}")
        return None


def _runtime_of(job: "TrainJob", inputs: "Inputs") -> "Runtime | None":
    assert job.spec is not None  # a TrainJob without spec names no runtime and has been refused
    wanted = job.spec.runtime_ref
    for runtime in inputs.runtimes:
        same_place = not runtime.namespace or runtime.namespace == job.namespace
        if (runtime.RESOURCE.kind, runtime.name) == (wanted.kind, wanted.name) and same_place:
            return runtime
    known = sorted(f"{runtime.RESOURCE.kind} {runtime.name}" for runtime in inputs.runtimes)
    if not any(problem for problem in inputs.problems if f"{wanted.kind} {wanted.name}:" in problem):
        there = f"there are {', '.join(known)}" if known else "give its file with --runtime"
        problem = f"TrainJob {job.name}: spec.runtimeRef: {wanted.kind} {wanted.name} is not known; {there}"
        inputs.problems.append(problem)
    return None


def _report(problems: list[str]) -> int:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0
