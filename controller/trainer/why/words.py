# SPDX-License-Identifier: Apache-2.0
"""How ranks, amounts and lists are called in the sentences of causes."""

from collections.abc import Iterable

from trainwright.api.jobset.v1alpha2.labels import LABEL_JOB_INDEX, LABEL_REPLICATED_JOB
from trainwright.api.messages import counted, plain, shortened
from trainwright.api.objects import Document, dig, labels_of, number_in
from trainwright.api.quantity import Quantity
from trainwright.api.trainer.v1alpha1.constants import NODE
from trainwright.controller.trainer.failures.last_words import is_launched
from trainwright.controller.trainer.job.pods import has_several_processes, rank_name
from trainwright.controller.trainer.why.messages import PREEMPTION
from trainwright.plugins.contract.picture import Picture, index_of

STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
QUOTED = 150
"""Characters of a foreign message inside a sentence."""


def replicated_jobs(picture: Picture) -> tuple[Document, ...]:
    return tuple(dig(picture.jobset, "spec.replicatedJobs") or ())


def step_of(replicated: Document) -> str:
    """The step that a replicated job is labelled with; empty: none."""
    labels = dig(replicated, "template.metadata.labels") or {}
    return str(labels.get(STEP_LABEL, ""))


def pods_of(replicated: Document) -> int:
    each = dig(replicated, "template.spec.parallelism")
    return (replicated.get("replicas") or 1) * (1 if each is None else int(each))


def role_of(pod: Document) -> str:
    return labels_of(pod).get(LABEL_REPLICATED_JOB, "")


def rank_of(picture: Picture, pod: Document, said: str = "") -> str:
    """How messages call the pod, as `rank_name` does; its replicated job alone if that has no other pod.

    A pod whose launcher has `said` which rank failed is a node: `node 3`.
    """
    role = role_of(pod)
    found = next((one for one in replicated_jobs(picture) if one.get("name") == role), None)
    replicas = dig(found, "replicas") or 1
    is_trainer = step_of(found) == "trainer" if found is not None else role in ("node", "")
    if found is not None and pods_of(found) == 1 and not is_trainer:
        return role
    replica = number_in(labels_of(pod).get(LABEL_JOB_INDEX)) if replicas > 1 else None
    is_node = has_several_processes(pod) or is_launched(said)
    name = NODE if is_trainer and replica is None else role
    return rank_name(name, index_of(pod), replica=replica, is_node=is_node)


def listed(words: Iterable[str], limit: int = 3) -> str:
    """`a, b and 4 more`, in order and without repetition."""
    all_of = sorted(set(words))
    if len(all_of) <= limit:
        return " and ".join((", ".join(all_of[:-1]), all_of[-1])) if len(all_of) > 1 else "".join(all_of)
    return f"{', '.join(all_of[:limit])} and {len(all_of) - limit} more"


def quoted(text: str, limit: int = QUOTED) -> str:
    return shortened(" ".join(plain(str(text)).split()), limit)


def scheduler_says(message: str) -> str:
    """The message of a pod without a node, without what the scheduler tells of its attempts to make room."""
    return PREEMPTION.split(message)[0].rstrip(".") + "."


def amount(resource: str, quantity: Quantity) -> str:
    """How much of a resource; devices and whole CPUs are counted."""
    is_counted = "/" in resource or (resource == "cpu" and not quantity.milli() % 1000)
    return str(quantity.rounded_up()) if is_counted else str(quantity)


def lasting(seconds: float) -> str:
    """A length of time in the largest unit that fits."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return counted(int(seconds // size), unit)
    return counted(int(seconds), "second")


def ends_with(line: str) -> str:
    """`; its log ends with: ...` with the line; empty without one."""
    return f"; its log ends with: {quoted(line, 100)}" if line else ""


def verb(number: int, one: str, many: str) -> str:
    """The form of the verb for that number of subjects."""
    return one if number == 1 else many
