# SPDX-License-Identifier: Apache-2.0
"""`trainwright render`: prints the objects that a TrainJob becomes, without a cluster.

It runs the manager's pipeline on files. Exit code 1 with every field error if a document is invalid or if admission
would refuse a TrainJob; warnings go to standard error.
"""

import argparse
import asyncio
import difflib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from trainwright.api import extras
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.api.manifest import dump
from trainwright.api.messages import value_text
from trainwright.api.objects import Document, labels_of
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    LABEL_WEBHOOK_VALIDATION,
    WEBHOOK_VALIDATION_DISABLED,
)
from trainwright.controller.cli.commands import refused
from trainwright.controller.cli.configuration import load_registry
from trainwright.controller.cli.rendering.sources import RUNTIME_KINDS, RenderInputs
from trainwright.controller.runtime import (
    AdmissionRequest,
    Client,
    ConfigurationError,
    HTTPTransport,
    KubernetesError,
    load_config,
)
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.trainer.admission.trainjobs import deprecation, is_deprecated, validate_runtime
from trainwright.controller.trainer.build.runtimes import target_of
from trainwright.controller.views.cluster import ClusterView
from trainwright.plugins.contract import OFFLINE, FactUnavailable, Runtime
from trainwright.plugins.contract.errors import PipelineError, RegistryError
from trainwright.plugins.pipeline import Pipeline, Rendering


@dataclass(frozen=True, slots=True)
class _RenderedJob:
    job: TrainJob
    runtime: Runtime
    rendering: Rendering
    differences: tuple[tuple[Document | None, Document], ...] | None = None
    """Each object as it is in the cluster and as it would be after applying; None without a comparison."""

    @property
    def documents(self) -> list[Document]:
        return [component.document for component in self.rendering.components]


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
    rendered = asyncio.run(_render_all(pipeline, inputs, arguments, difference=arguments.cluster and output == "diff"))
    _show(rendered, output, explain=arguments.explain)
    if not inputs.checked:
        needed = extras.install(extras.missing("validate"))
        print(f"note: schemas and rules were not checked; to check them: {needed}", file=sys.stderr)
    return refused(inputs.problems) if inputs.problems else 0


async def _render_all(
    pipeline: Pipeline, inputs: RenderInputs, arguments: argparse.Namespace, *, difference: bool
) -> list[_RenderedJob]:
    rendered: list[_RenderedJob] = []
    client: Client | None = None
    try:
        if arguments.cluster:
            transport = HTTPTransport(load_config(arguments.kubeconfig, arguments.context))
            client = Client(transport, user_agent="trainwright-render")
        view = ClusterView(client) if client is not None else None
        for job in inputs.jobs:
            try:
                found = await _rendered(pipeline, job, inputs, view)
                if found is not None and view is not None and difference:
                    compared = tuple([await view.difference(one) for one in found.rendering.components])
                    found = replace(found, differences=compared)
            except (ApiError, ConfigurationError) as error:  # it concerns this job only
                inputs.problems.append(f"TrainJob {job.name}: {error}")
                continue
            rendered += [found] if found is not None else []
    except KubernetesError as error:
        inputs.problems.append(str(error))
    finally:
        if client is not None:
            await client.close()
    return rendered


async def _rendered(
    pipeline: Pipeline, job: TrainJob, inputs: RenderInputs, view: ClusterView | None
) -> _RenderedJob | None:
    """Admit and build one job as the manager would; returns None if it has problems. An existing job is updated.

    Without a cluster, every object counts as absent, and no job is refused because of that.
    """
    runtime = _known_runtime(job, inputs) or (await view.runtime(job) if view is not None else None)
    if runtime is None:
        advice = "the cluster has no such runtime either" if view is not None else "give its file with --runtime"
        _miss_runtime(job, inputs, advice)
        return None
    runtime.set_defaults()
    old = await view.job(job) if view is not None else None
    if old is not None and old.metadata is not None and job.metadata is not None:
        job.metadata.uid = old.metadata.uid
    wrong = [problem for problem in runtime_problems(runtime) if problem not in inputs.problems]
    inputs.problems += wrong
    run = pipeline.begin(job, runtime, old)
    try:
        facts = await view.read(run.admission_references()) if view is not None else OFFLINE
        verdict = run.validate(facts)
        for warning in (*runtime_warnings(runtime), *verdict.warnings):
            print(f"warning: TrainJob {job.name}: {warning}", file=sys.stderr)
        inputs.problems += [f"TrainJob {job.name}: {error}" for error in verdict.errors]
        return None if wrong or not verdict.allowed else _RenderedJob(job, runtime, run.render(facts))
    except (PipelineError, FactUnavailable) as error:
        inputs.problems.append(f"TrainJob {job.name}: {error}")
        return None


def _known_runtime(job: TrainJob, inputs: RenderInputs) -> Runtime | None:
    kind, key = target_of(job)
    for runtime in inputs.runtimes:
        if isinstance(runtime, kind) and (runtime.namespace, runtime.name) == (key.namespace, key.name):
            return runtime
    return None


def _miss_runtime(job: TrainJob, inputs: RenderInputs, advice: str) -> None:
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


def _show(everything: list[_RenderedJob], form: str, *, explain: bool) -> None:
    """Print to standard output. An explanation is printed as comments, so that YAML and diffs stay valid."""
    if form == "json":
        sys.stdout.write(_json(everything, explain=explain) if everything else "")
        return
    for one in everything:
        yaml = (f"---\n{dump(document, sort_keys=False)}" for document in one.documents)
        sys.stdout.writelines(yaml if form == "yaml" else _difference(one))
        if explain:
            sys.stdout.writelines(f"# {line}\n" for line in _explanation(one.rendering))


def _explanation(rendering: Rendering) -> Iterator[str]:
    """One line for each value: path, value, plugin and reason; then the overrides."""
    for setting in rendering.settings:
        who = f"{setting.plugin or 'template'}, {setting.phase}"
        yield f"{setting.path} = {value_text(setting.value, 100)}  # {who}: {setting.why}"
    for override in rendering.overrides:
        yield f"conflict: {override}"


def _json(everything: list[_RenderedJob], *, explain: bool) -> str:
    items = [document for one in everything for document in one.documents]
    output: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": items}
    if explain:
        output["explanation"] = [
            {
                "trainJob": one.job.name,
                "settings": msgspec.to_builtins(one.rendering.settings),
                "conflicts": msgspec.to_builtins(one.rendering.overrides),
            }
            for one in everything
        ]
    return json.dumps(output, indent=2, ensure_ascii=False) + "\n"


def _difference(one: _RenderedJob) -> Iterator[str]:
    """The changes of the objects in the cluster; without a cluster, those of the template, and the further objects."""
    if one.differences is not None:
        for live, after in one.differences:
            name = f"{after['kind']} {after['metadata']['name']}"
            origin = f"{name} in the cluster" if live is not None else "nothing"
            yield from difflib.unified_diff(_lines(live), _lines(after), origin, name)
        return
    for document in one.documents:
        name = f"{document['kind']} {document['metadata']['name']}"
        before = _template(one.runtime) if document["kind"] == JobSet.RESOURCE.kind else None
        origin = f"template of {one.runtime.RESOURCE.kind} {one.runtime.name}" if before else "nothing"
        yield from difflib.unified_diff(_lines(before), _lines(document), origin, name)


def _template(runtime: Runtime) -> Document:
    template = runtime.spec_or_empty.template
    spec: Document = msgspec.to_builtins(template) if template is not None else {}
    return {"apiVersion": JobSet.RESOURCE.api_version, "kind": JobSet.RESOURCE.kind, **spec}


def _lines(document: Document | None) -> list[str]:
    if document is None:
        return []
    return dump(document).splitlines(keepends=True)


def runtime_problems(runtime: Runtime) -> Iterator[str]:
    """The reasons to refuse a runtime. A label on the runtime turns the check off."""
    if labels_of(runtime).get(LABEL_WEBHOOK_VALIDATION) == WEBHOOK_VALIDATION_DISABLED:
        return
    verdict = validate_runtime(
        AdmissionRequest(
            operation="CREATE",
            # The check is generic over the two kinds of runtime.
            new=cast("ClusterTrainingRuntime", runtime),
            old=None,
            name=runtime.name,
            namespace=runtime.namespace,
            subresource="",
            user=UserInfo(),
            dry_run=True,
        )
    )
    for cause in verdict.errors:
        yield f"{runtime.RESOURCE.kind} {runtime.name}: {cause.message}"


def runtime_warnings(runtime: Runtime) -> Iterator[str]:
    if isinstance(runtime, ClusterTrainingRuntime) and is_deprecated(runtime):
        yield deprecation(runtime)
