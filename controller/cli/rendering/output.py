# SPDX-License-Identifier: Apache-2.0
"""Prints what was rendered, as YAML, as JSON or as a diff, and explains which plugin set which value."""

import difflib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.authentication.v1 import UserInfo
from trainwright.api.manifest import dump
from trainwright.api.messages import value_text
from trainwright.api.objects import Document, labels_of
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import LABEL_WEBHOOK_VALIDATION, WEBHOOK_VALIDATION_DISABLED
from trainwright.controller.cli.rendering.cluster import ExistingObjects
from trainwright.controller.runtime import AdmissionRequest
from trainwright.controller.trainer.admission.trainjobs import deprecation, is_deprecated, validate_runtime
from trainwright.plugins.contract import Runtime
from trainwright.plugins.pipeline import Rendering


@dataclass(frozen=True, slots=True)
class RenderedJob:
    job: TrainJob
    runtime: Runtime
    rendering: Rendering
    differences: tuple[tuple[Document | None, Document], ...] | None = None
    """Each object as it is in the cluster and as it would be after applying; None without a comparison."""

    async def compared(self, view: ExistingObjects) -> "RenderedJob":
        return replace(self, differences=tuple([await view.difference(c) for c in self.rendering.components]))

    @property
    def documents(self) -> list[Document]:
        return [component.document for component in self.rendering.components]


def show(rendered: Iterable[RenderedJob], form: str, *, explain: bool) -> None:
    """Print to standard output. An explanation is printed as comments, so that YAML and diffs stay valid."""
    everything = list(rendered)
    if form == "json":
        sys.stdout.write(_json(everything, explain=explain) if everything else "")
        return
    for one in everything:
        yaml = (f"---\n{dump(document, sort_keys=False)}" for document in one.documents)
        sys.stdout.writelines(yaml if form == "yaml" else _difference(one))
        if explain:
            sys.stdout.writelines(f"# {line}\n" for line in explanation(one.rendering))


def explanation(rendering: Rendering) -> Iterator[str]:
    """One line for each value: path, value, plugin and reason; then the overrides."""
    for setting in rendering.settings:
        who = f"{setting.plugin or 'template'}, {setting.phase}"
        yield f"{setting.path} = {value_text(setting.value, 100)}  # {who}: {setting.why}"
    for override in rendering.overrides:
        yield f"conflict: {override}"


def _json(everything: list[RenderedJob], *, explain: bool) -> str:
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


def _difference(one: RenderedJob) -> Iterator[str]:
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
