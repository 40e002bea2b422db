# SPDX-License-Identifier: Apache-2.0
"""The pods of a Job: what is created from its template, and how they are counted, each once.

A pod that ended is counted in two writes. First its uid goes into `status.uncountedTerminatedPods`, or its index into
`status.completedIndexes`; then its tracking finalizer is removed; then the uid moves into the counter. So no pod is
lost or counted twice, whenever the controller stops.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-tracking-with-finalizers
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.objects import (
    GENERATED_PREFIX_LENGTH,
    Document,
    annotations_of,
    deletion_timestamp_of,
    finalizers_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.controller.local.controllers.job_policies import Indexes, judge
from trainwright.controller.local.controllers.objects import JOB, POD, finished_at, is_active, is_terminating, phase_of

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of a pod of an Indexed Job."""
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation: failures of the pods before this one, with `backoffLimitPerIndex`."""
INDEX_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod that its Job has not counted yet."""
MANAGED_BY_US = "kubernetes.io/job-controller"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


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
    name = name_of(job)
    return name + suffix if index is None else name[: GENERATED_PREFIX_LENGTH - len(suffix)] + suffix


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


MOST_UNCOUNTED = 500
"""Pods that are counted in one write, so that the status stays small."""


def is_tracked(pod: Document) -> bool:
    """Whether the Job has not counted the pod yet."""
    return TRACKING in finalizers_of(pod)


def replaces_failed_only(job: Document) -> bool:
    """Whether a pod that is being deleted is replaced only when it has ended."""
    spec = spec_of(job)
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


@dataclass(eq=False)
class Pods:
    """The pods of a Job in one state of the cluster."""

    job: Document
    all: Sequence[Document]
    ended_by_us: frozenset[str] = frozenset()
    """Uids of the pods that were deleted because the Job ended well: their deletion is no failure."""
    active: list[Document] = field(init=False)
    terminating: list[Document] = field(init=False)
    new_succeeded: list[Document] = field(init=False)
    """Ended, and in no list of the status yet."""
    new_failed: list[Document] = field(init=False)

    def __post_init__(self) -> None:
        uncounted = status_of(self.job).get("uncountedTerminatedPods") or {}
        counted = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
        fresh = [p for p in self.all if is_tracked(p) and uid_of(p) not in counted and self._has_place(p)]
        self.active = [p for p in self.all if is_active(p)]
        self.terminating = [p for p in self.all if is_terminating(p)]
        self.new_succeeded = [p for p in fresh if phase_of(p) == "Succeeded"]
        self.new_failed = [p for p in fresh if self.is_failed(p)]

    @property
    def completions(self) -> int:
        """The number of indexes of an Indexed Job."""
        return int(spec_of(self.job).get("completions") or 0)

    def is_failed(self, pod: Document) -> bool:
        """Whether the pod counts as failed. Deleted pods do, unless they are replaced only after their end."""
        if uid_of(pod) in self.ended_by_us:
            return False
        if phase_of(pod) == "Failed":
            return True
        if replaces_failed_only(self.job):
            return False
        return deletion_timestamp_of(pod) is not None and phase_of(pod) != "Succeeded"

    def failure_counts(self, pod: Document) -> bool:
        """Whether the failure of the pod counts towards the limits."""
        return judge(spec_of(self.job).get("podFailurePolicy"), pod).counts

    def succeeded_indexes(self) -> tuple[Indexes, Indexes]:
        """The indexes that were complete before, and those that are now."""
        before = Indexes.parse(status_of(self.job).get("completedIndexes") or "", self.completions)
        done = {self.place_of(p) for p in self.all if phase_of(p) == "Succeeded" and is_tracked(p)}
        return before, before | Indexes.of(index for index in done if index is not None)

    def failed_indexes(self) -> Indexes:
        """The indexes that have used up their own limit."""
        before = Indexes.parse(status_of(self.job).get("failedIndexes") or "", self.completions)
        failed = {self.place_of(p) for p in self.all if is_tracked(p) and self._failed_for_good(p)}
        return before | Indexes.of(index for index in failed if index is not None)

    def place_of(self, pod: Document) -> int | None:
        """The index of the pod if the Job has that index."""
        index = index_of(pod)
        return index if index is not None and index < self.completions else None

    def awaiting_replacement(self, settled: Indexes) -> dict[int, Document]:
        """By index, the failed pod that stays until its replacement exists, which takes over its count of failures.

        `settled`: indexes that are complete or have failed.
        """
        running = {index_of(pod) for pod in self.active}
        kept: dict[int, Document] = {}
        for pod in self.all:
            index = self.place_of(pod)
            if index is None or not is_tracked(pod) or not self.is_failed(pod):
                continue
            if index in settled or index in running:
                continue
            other = kept.get(index)
            if other is None or (sum(failures_of(other)), finished_at(other)) <= (
                sum(failures_of(pod)),
                finished_at(pod),
            ):
                kept[index] = pod
        return kept

    def _has_place(self, pod: Document) -> bool:
        return not is_indexed(self.job) or self.place_of(pod) is not None

    def _failed_for_good(self, pod: Document) -> bool:
        if not self.is_failed(pod):
            return False
        verdict = judge(spec_of(self.job).get("podFailurePolicy"), pod)
        limit = int(spec_of(self.job).get("backoffLimitPerIndex") or 0)
        return verdict.action == "FailIndex" or (verdict.counts and failures_of(pod)[0] >= limit)


def settle(status: Document, tracked: set[str]) -> None:
    """Move the uids of pods that are no longer tracked from the lists of `status` into its counters, in place."""
    uncounted = status.setdefault("uncountedTerminatedPods", {})
    for counter in ("succeeded", "failed"):
        listed = uncounted.pop(counter, None) or []
        left = [uid for uid in listed if uid in tracked]
        if left:
            uncounted[counter] = left
        if len(left) != len(listed):
            status[counter] = int(status.get(counter) or 0) + len(listed) - len(left)


def count(status: Document, pods: Pods, countable: Sequence[Document], job_failed: bool) -> list[Document]:
    """PlannedWrite the pods that ended into `status`, in place. Returns those whose finalizer can go after that write.

    Args:
        status: after `settle`.
        pods: all of them.
        countable: those that may be counted now.
        job_failed: the Job fails, so that pods that still run count as failed.
    """
    uncounted = status.setdefault("uncountedTerminatedPods", {})
    indexed = is_indexed(pods.job)
    before, _ = pods.succeeded_indexes() if indexed else (Indexes(), Indexes())
    new_indexes: set[int] = set()
    released: list[Document] = []
    for pod in countable:
        if len(new_indexes) + sum(len(uncounted.get(name) or ()) for name in ("succeeded", "failed")) >= MOST_UNCOUNTED:
            break
        released.append(pod)
        uid, index = uid_of(pod), pods.place_of(pod)
        if uid in (uncounted.get("failed") or ()):
            continue
        if phase_of(pod) == "Succeeded":
            if not indexed:
                if uid not in (uncounted.get("succeeded") or ()):
                    uncounted.setdefault("succeeded", []).append(uid)
            elif index is not None and index not in before:
                new_indexes.add(index)
        elif (pods.is_failed(pod) or job_failed) and (not indexed or index is not None) and pods.failure_counts(pod):
            uncounted.setdefault("failed", []).append(uid)
    if indexed:
        done = before | Indexes.of(new_indexes)
        status["succeeded"], status["completedIndexes"] = len(done), str(done)
    return released
