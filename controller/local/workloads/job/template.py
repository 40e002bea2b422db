# SPDX-License-Identifier: Apache-2.0
"""The pod that a Job creates: its template with what the Job adds.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from copy import deepcopy
from typing import Any

from trainwright.api.objects import Document, annotations_of, name_of, namespace_of, owner_reference
from trainwright.controller.local.workloads.documents import spec_of
from trainwright.controller.local.workloads.job.names import (
    COMPLETION_INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED_FAILURES,
    INDEX_VARIABLE,
    TRACKING,
)
from trainwright.controller.local.workloads.kinds import JOB, POD
from trainwright.controller.local.workloads.names import MOST


def is_indexed(job: Document) -> bool:
    """Whether each pod works on an index of its own."""
    return spec_of(job).get("completionMode") == "Indexed"


def index_of(pod: Document) -> int | None:
    """The completion index of a pod; None if it has none that is a number."""
    text = annotations_of(pod).get(COMPLETION_INDEX) or ""
    return int(text) if text.isdecimal() else None


def failures_of(pod: Document) -> tuple[int, int]:
    """How many pods of the same index failed before this one: those that count, and those that were ignored."""
    return _number(pod, INDEX_FAILURES), _number(pod, INDEX_IGNORED_FAILURES)


def name_prefix(job: Document, index: int | None) -> str:
    """What the name of a pod begins with. A long name is cut before the index, which stays."""
    suffix = "-" if index is None else f"-{index}-"
    prefix = name_of(job) + suffix
    return prefix if index is None or len(prefix) <= MOST else prefix[: MOST - len(suffix)] + suffix


def pod_of(job: Document, index: int | None, failures: tuple[int, int] | None = None) -> Document:
    """A new pod, without its name.

    Args:
        job: as stored, so with the labels that the API server adds to its template.
        index: completion index; None for a Job that is not Indexed.
        failures: see `failures_of`; None unless the Job has `backoffLimitPerIndex`.
    """
    template = deepcopy(spec_of(job).get("template") or {})
    given: dict[str, Any] = template.get("metadata") or {}
    metadata: Document = {"generateName": name_prefix(job, index), "namespace": namespace_of(job)}
    labels, annotations = dict(given.get("labels") or {}), dict(given.get("annotations") or {})
    finalizers = list(given.get("finalizers") or ())
    spec: Document = template.get("spec") or {}
    if index is not None:
        labels[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = str(index)
        spec["hostname"] = f"{name_of(job)}-{index}"
    if is_indexed(job):
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            _add_index_variable(container)
    if failures is not None:
        counted, ignored = failures
        annotations[INDEX_FAILURES] = str(counted)
        if ignored:
            annotations[INDEX_IGNORED_FAILURES] = str(ignored)
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"annotations": annotations} if annotations else {}
    metadata["finalizers"] = finalizers if TRACKING in finalizers else [*finalizers, TRACKING]
    metadata["ownerReferences"] = [owner_reference(job, JOB)]
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec}


def _add_index_variable(container: Document) -> None:
    variables = container.get("env") or []
    if any(variable.get("name") == INDEX_VARIABLE for variable in variables):
        return
    reference = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": reference}]


def _number(pod: Document, annotation: str) -> int:
    text = annotations_of(pod).get(annotation) or ""
    return int(text) if text.isdecimal() and int(text) < 2**31 else 0
