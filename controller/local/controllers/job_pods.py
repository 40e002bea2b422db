# SPDX-License-Identifier: Apache-2.0
"""The pods of a Job: what is created from its template, what its policies say of them, and how each is counted once.

A pod that ended is counted in two writes. First its uid goes into `status.uncountedTerminatedPods`, or its index into
`status.completedIndexes`; then its tracking finalizer is removed; then the uid moves into the counter. So no pod is
lost or counted twice, whenever the controller stops.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from typing import Any, NamedTuple

from trainwright.api.objects import (
    GENERATED_PREFIX_LENGTH,
    Document,
    annotations_of,
    conditions_of,
    deletion_timestamp_of,
    finalizers_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.controller.local.controllers.objects import JOB, POD, finished_at, is_active, is_terminating, phase_of

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Annotation and label of a pod of an Indexed Job."""
TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod that its Job has not counted yet."""
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
MOST_UNCOUNTED = 500
"""Pods that are counted in one write, so that the status stays small."""
MOST_INDEXES = 1_000_000
"""Of one Job. Further ones are not read: no machine of one node runs so many pods."""
FIRST_SECONDS = 10.0
MOST_SECONDS = 600.0

# ---------------------------------------------------------------------- indexes


def read_indexes(text: str | None, completions: int) -> frozenset[int]:
    """Read a list such as `0,2-4`. Indexes from `completions` on and parts that are no numbers are dropped."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), min(int(last or first) + 1, completions, MOST_INDEXES)))
    return frozenset(found)


def indexes_text(indexes: Iterable[int]) -> str:
    """The list as Kubernetes writes it: `0,2-4`, and `0,1` for two neighbours."""
    rows = groupby(enumerate(sorted(indexes)), key=lambda one: one[1] - one[0])
    ends = [(row[0][1], row[-1][1]) for row in (list(group) for _, group in rows)]
    return ",".join(
        str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}" for first, last in ends
    )


def absent_indexes(indexes: Collection[int], count: int, completions: int) -> list[int]:
    """The first `count` indexes below `completions` that are not among these."""
    return list(islice((index for index in range(completions) if index not in indexes), max(0, count)))


# ---------------------------------------------------------------------- policies


class PolicyVerdict(NamedTuple):
    counts: bool = True
    """Whether the failure counts towards the back-off limit."""
    message: str | None = None
    """Why the Job fails; only with the action FailJob."""


def judge(policy: Document | None, pod: Document) -> PolicyVerdict:
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        if (cause := _cause(rule, pod, index)) is not None:
            return PolicyVerdict(rule.get("action") != "Ignore", cause if rule.get("action") == "FailJob" else None)
    return PolicyVerdict()


def _cause(rule: Document, pod: Document, index: int) -> str | None:
    """What of the pod matches the rule, as a sentence; None if nothing does."""
    who = f"{namespace_of(pod)}/{name_of(pod)}"
    matching = f"matching {rule.get('action')} rule at index {index}"
    if rule.get("onExitCodes") is not None:
        container = _container(pod, rule["onExitCodes"])
        if container is None:
            return None
        code = container["state"]["terminated"]["exitCode"]
        return f"Container {container.get('name')} for pod {who} failed with exit code {code} {matching}"
    patterns = [(p.get("type"), p.get("status") or "True") for p in rule.get("onPodConditions") or ()]
    for condition in conditions_of(pod):
        if (condition.get("type"), condition.get("status")) in patterns:
            return f"Pod {who} has condition {condition['type']} {matching}"
    return None


def _container(pod: Document, requirement: Document) -> Document | None:
    """The first container that ended with a code that the rule asks for; containers before init containers."""
    status = status_of(pod)
    wanted, values = requirement.get("containerName"), requirement.get("values") or ()
    containers = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    for container in containers:
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        is_meant = wanted is None or wanted == container.get("name")
        if code and is_meant and (code in values) == (requirement.get("operator") == "In"):
            found: Document = container
            return found
    return None


def met(policy: Document | None, completions: int, succeeded: frozenset[int]) -> str | None:
    """The message of the first rule of a success policy that is fulfilled; None if there is none."""
    for index, rule in enumerate((policy or {}).get("rules") or () if succeeded else ()):
        count, done = rule.get("succeededCount"), succeeded
        if rule.get("succeededIndexes") is not None:
            wanted = read_indexes(rule["succeededIndexes"], completions)
            done = succeeded & wanted
            count = min(count or len(wanted), len(wanted))
        if count is not None and done and len(done) >= count:
            return f"Matched rules at index {index}"
    return None


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of a Job's pods since the last success."""

    count: int = 0
    last: datetime | None = None
    """When the last of them happened."""

    def after(self, succeeded: Sequence[Document], failed: Sequence[Document]) -> "Failures":
        """The record after pods have finished that it did not count before."""
        times = sorted(finished_at(pod) for pod in failed)
        if succeeded:
            success = max(finished_at(pod) for pod in succeeded)
            times = [time for time in times if time > success]
        before = 0 if succeeded else self.count
        if not times:
            return Failures() if succeeded else self
        return Failures(before + len(times), times[-1])

    def seconds_left(self, now: datetime) -> float:
        """Seconds until a pod may be created; 0: now."""
        if not self.count or self.last is None:
            return 0.0
        # The exponent is bounded: a Job may fail a million times.
        delay: float = min(FIRST_SECONDS * 2 ** min(self.count - 1, 10), MOST_SECONDS)
        return max(0.0, delay - (now - self.last).total_seconds())


NO_FAILURES = Failures()

# ---------------------------------------------------------------------- pods


def is_indexed(job: Document) -> bool:
    return spec_of(job).get("completionMode") == "Indexed"


def index_of(pod: Document) -> int | None:
    """The completion index of a pod; None if it has none that is a number."""
    text = annotations_of(pod).get(COMPLETION_INDEX) or ""
    return int(text) if text.isdecimal() else None


def is_tracked(pod: Document) -> bool:
    return TRACKING in finalizers_of(pod)


def replaces_failed_only(job: Document) -> bool:
    """Whether a pod that is being deleted is replaced only when it has ended."""
    spec = spec_of(job)
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def name_prefix(job: Document, index: int | None) -> str:
    """What the name of a pod begins with. A long name is cut before the index, which stays."""
    suffix = "-" if index is None else f"-{index}-"
    name = name_of(job)
    return name + suffix if index is None else name[: GENERATED_PREFIX_LENGTH - len(suffix)] + suffix


def pod_of(job: Document, index: int | None) -> Document:
    """A new pod of a stored Job, without its name. `index` is None for a Job that is not Indexed."""
    template = deepcopy(spec_of(job).get("template") or {})
    given: dict[str, Any] = template.get("metadata") or {}
    labels, annotations = dict(given.get("labels") or {}), dict(given.get("annotations") or {})
    spec: Document = template.get("spec") or {}
    if index is not None:
        labels[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = str(index)
        spec["hostname"] = f"{name_of(job)}-{index}"
    if is_indexed(job):
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            variables = container.get("env") or []
            if all(variable.get("name") != INDEX_VARIABLE for variable in variables):
                reference = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
                container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": reference}]
    finalizers = given.get("finalizers") or []
    metadata: Document = {
        "generateName": name_prefix(job, index),
        "namespace": namespace_of(job),
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
        "finalizers": finalizers if TRACKING in finalizers else [*finalizers, TRACKING],
        "ownerReferences": [owner_reference(job, JOB)],
    }
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec}


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
        self.completions = int(spec_of(self.job).get("completions") or 0)
        self.policy: Document | None = spec_of(self.job).get("podFailurePolicy")
        self.uncounted: Document = status_of(self.job).get("uncountedTerminatedPods") or {}
        """Uids by `succeeded` and `failed`."""
        listed = {*(self.uncounted.get("succeeded") or ()), *(self.uncounted.get("failed") or ())}
        fresh = [p for p in self.all if is_tracked(p) and uid_of(p) not in listed and self.has_place(p)]
        self.active = [p for p in self.all if is_active(p)]
        self.terminating = [p for p in self.all if is_terminating(p)]
        self.new_succeeded = [p for p in fresh if phase_of(p) == "Succeeded"]
        self.new_failed = [p for p in fresh if self.is_failed(p)]

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
        return judge(self.policy, pod).counts

    def counted_indexes(self) -> frozenset[int]:
        """The indexes that the status has as complete."""
        return read_indexes(status_of(self.job).get("completedIndexes"), self.completions)

    def succeeded_indexes(self) -> frozenset[int]:
        """The indexes that are complete now."""
        done = {self.place_of(p) for p in self.all if phase_of(p) == "Succeeded" and is_tracked(p)}
        return self.counted_indexes() | {index for index in done if index is not None}

    def place_of(self, pod: Document) -> int | None:
        """The index of the pod if the Job has that index."""
        index = index_of(pod)
        return index if index is not None and index < self.completions else None

    def has_place(self, pod: Document) -> bool:
        return not is_indexed(self.job) or self.place_of(pod) is not None


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
    """Write the countable pods into `status`, after `settle`. Returns those whose finalizer can go after that write.

    `job_failed`: the Job fails, so that pods that still run count as failed.
    """
    uncounted = status.setdefault("uncountedTerminatedPods", {})
    indexed, before = is_indexed(pods.job), pods.counted_indexes()
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
            if not indexed and uid not in (uncounted.get("succeeded") or ()):
                uncounted.setdefault("succeeded", []).append(uid)
            elif indexed and index is not None and index not in before:
                new_indexes.add(index)
        elif (pods.is_failed(pod) or job_failed) and pods.has_place(pod) and pods.failure_counts(pod):
            uncounted.setdefault("failed", []).append(uid)
    if indexed:
        done = before | new_indexes
        status["succeeded"], status["completedIndexes"] = len(done), indexes_text(done)
    return released
