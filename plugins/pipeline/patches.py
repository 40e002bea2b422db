# SPDX-License-Identifier: Apache-2.0
"""Applies spec.runtimePatches, by which users and other controllers change the runtime's template for one job.

The entries are applied in the order of the list, each as a strategic merge patch of the JobSet's spec.
"""

from collections.abc import Sequence

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import JobSetTemplatePatch, RuntimePatch
from trainwright.api.typed import as_typed
from trainwright.plugins.contract import Ledger, Refusal
from trainwright.plugins.pipeline.strategic import Scribe, merge


def patched_metadata(base: ObjectMeta, patches: Sequence[RuntimePatch]) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of the JobSet. Of entries with the same key, the last one wins.

    The JobSet takes nothing else from the metadata of the template.
    """
    labels, annotations = dict(base.labels or {}), dict(base.annotations or {})
    for patch in patches:
        metadata = _template(patch).metadata_or_empty
        labels.update(metadata.labels or {})
        annotations.update(metadata.annotations or {})
    return labels, annotations


def is_patched(patches: Sequence[RuntimePatch]) -> bool:
    """Whether one of the entries changes the JobSet's spec."""
    return any(_template(patch).spec is not None for patch in patches)


def patched_template(base: JobSetSpec, patches: Sequence[RuntimePatch], ledger: Ledger) -> JobSetSpec:
    """A copy of the runtime's JobSet spec with all entries applied. Raises Refusal if the result is not a JobSet spec.

    Zero values of both are left out as `as_typed` describes.
    """
    merged: Document = as_typed(JobSetSpec, msgspec.to_builtins(base))
    changes = [change for change in map(_change, patches) if change is not None]
    for manager, patch in changes:
        merged = merge(JobSetSpec, merged, patch, Scribe(ledger, manager))
    _restore_order(merged, [job.name for job in base.replicated_jobs or ()])
    try:
        found: JobSetSpec = msgspec.convert(merged, JobSetSpec)
    except msgspec.ValidationError as error:
        raise Refusal(
            f"the template is not a valid JobSet with spec.runtimePatches applied: {error}", phase="template"
        ) from error
    return found


def _change(patch: RuntimePatch) -> tuple[str, Document] | None:
    spec = _template(patch).spec
    return (patch.manager, as_typed(JobSetSpec, msgspec.to_builtins(spec))) if spec is not None else None


def _restore_order(merged: Document, names: Sequence[str]) -> None:
    """Replicated jobs keep the order of the runtime, because JobSet starts them in that order."""
    rank = {name: index for index, name in enumerate(names)}
    jobs = merged.get("replicatedJobs")
    if jobs:
        jobs.sort(key=lambda job: rank.get(job["name"], 0))


def _template(patch: RuntimePatch) -> JobSetTemplatePatch:
    return patch.training_runtime_spec_or_empty.template_or_empty
