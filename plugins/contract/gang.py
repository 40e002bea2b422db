# SPDX-License-Identifier: Apache-2.0
"""The base of plugins for gang schedulers: all pods of a job start together, or none does.

Each gang scheduler reads from an object of its own kind how many pods belong together and what they request, and finds
that object by a label or an annotation of the pod. A plugin names the kind and the mark. What the group counts, when it
is written and what wakes a job is the same for all of them, and is here.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Generic, TypeVar

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import LimitRange
from trainwright.api.kubernetes.node.v1 import RuntimeClass
from trainwright.api.messages import shortened
from trainwright.api.objects import Document, dig
from trainwright.api.quantity import Quantity, Style
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import Runtime
from trainwright.plugins.contract.errors import Finding, Warned
from trainwright.plugins.contract.facts import Component, Enqueue, Reference, Stage, Watch
from trainwright.plugins.contract.info import Info
from trainwright.plugins.contract.picture import Cause, Picture, cause, condition_of, holds
from trainwright.plugins.contract.podset import Amounts, PodSet, add

P = TypeVar("P")

DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""
_IN_ORDER = "InOrder"
_GANG_WORDS = ("PodGroup", "sibling pods", "gang", "resource gap")
"""What the messages of pods say that wait for their gang."""
_NODES = re.compile(r"^0/\d+ nodes are available: ")
_GAP = re.compile(r"resource gap: map\[(.*)\]$")
_QUANTITY = re.compile(r"(\S+?):\{\{(\d+) (-?\d+)\} \{<nil>\} +(?:\S+ )?(\w*)\}")
"""The number and its power of ten; Go then prints what else it keeps, which may be nothing."""
_SHORTAGES = frozenset({"NoFreeNode", "Unschedulable"})
_WAITS_OF_PODS = _SHORTAGES | {"SchedulerMissing", "StepWaits"}
"""Reasons of causes that are only consequences of a gang that does not start."""


class GangScheduler(ABC, Generic[P]):
    """`P` is the type of the policy that `policy_of` returns."""

    name: str
    group: Resource
    """The kind of the object that describes a gang. Its spec has minMember and minResources."""
    remedy: str = ""
    """How to install the scheduler, for clusters that do not serve the kind."""
    foreign_schedulers: frozenset[str] = frozenset()
    """Names of schedulers that do not read the group, for a warning about pods that ask for one of them."""
    scheduler_remedy: str = ""
    """What to do about such pods."""

    @abstractmethod
    def policy_of(self, runtime: Runtime) -> P | None:
        """The runtime's settings for this scheduler; None if its jobs do not use this scheduler."""

    @abstractmethod
    def mark_pods(self, info: Info, job: TrainJob) -> None:
        """Label or annotate the pods with the name of their group, which is the name of the job."""

    @abstractmethod
    def group_fields(self, info: Info, policy: P) -> Mapping[str, Any]:
        """Further fields of the group's spec, beside minMember and minResources, in wire form."""

    def watches(self) -> Sequence[Watch]:
        """Groups of TrainJobs, and what changes the requests of pods that do not exist yet."""
        return (
            Watch(self.group, makes=True, optional=True, remedy=self.remedy),
            Watch(LimitRange.RESOURCE, Enqueue.SUSPENDED_IN_NAMESPACE, metadata_only=True, only_with=self.group),
            Watch(RuntimeClass.RESOURCE, Enqueue.SUSPENDED_OF_RUNTIME_CLASS, metadata_only=True, only_with=self.group),
        )

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """Whether the group exists."""
        if self.policy_of(runtime) is not None:
            yield self._group_of(job)

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Say on each pod which group it belongs to."""
        if self.policy_of(info.runtime) is not None:
            self.mark_pods(info, job)

    def validate_shaped(self, info: Info) -> Iterable[Finding]:
        """Warn of gangs that can never start. They are accepted, as in Kubeflow Trainer."""
        policy = self.policy_of(info.runtime)
        if policy is None:
            return
        policies = _policies(info)
        if len(policies) > 1 and policies[0] is policy:
            yield Warned(
                "the runtime has two gang schedulers in podGroupPolicy, and a pod can have one scheduler: the job may "
                "never start. Keep one of them"
            )
        late = _starts_later(info)
        if late is not None:
            yield Warned(
                f"the job can never start: podGroupPolicy lets its {_members(info.pod_sets)} pods start only together, "
                f"and replicated job {late} waits for another one. Remove podGroupPolicy or the order from the runtime"
            )
        yield from self._scheduler_findings(info)

    def _scheduler_findings(self, info: Info) -> Iterable[Finding]:
        found = {pod_set.scheduler_name or DEFAULT_SCHEDULER: pod_set.name for pod_set in info.pod_sets}
        for scheduler in sorted(found.keys() & self.foreign_schedulers):
            yield Warned(
                f"podGroupPolicy asks for {self.name}, and the pods of replicated job {found[scheduler]} for the "
                f"scheduler {scheduler}, which does not start them together. {self.scheduler_remedy}"
            )

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The group of all pods. An existing group is changed only while the job is suspended, when no pod runs."""
        policy = self.policy_of(info.runtime)
        if policy is None or (info.facts.exists(self._group_of(job)) and not job.spec_or_empty.suspend):
            return
        spec = {
            "minMember": _members(info.pod_sets),
            "minResources": _requests(info.pod_sets),
            **self.group_fields(info, policy),
        }
        yield Component.owned_by(job, self.group, job.name, {"spec": spec}, stage=Stage.POD_GROUP)

    def explain(self, picture: Picture) -> Iterable[Cause]:
        """Why the gang does not start: it waits for pods that come later, or not all of its pods find room."""
        group = picture.own(self.group)
        waiting = [pod for pod in picture.present_pods if _has_no_node(pod)]
        members = int(dig(group, "spec.minMember") or 0)
        if group is None or not waiting or members <= 0:
            return
        later = _later_step(picture)
        if later is not None and members > len(picture.present_pods):
            missing = members - len(picture.present_pods)
            text = (
                f"the gang wants {members} pods at once, and {missing} of them {'is' if missing == 1 else 'are'} "
                f"created only after {later} has ended: this runtime cannot run as a gang; take podGroupPolicy or the "
                "steps out of it"
            )
            more: dict[str, Any] = {"about": group, "pods": len(waiting), "explains": _WAITS_OF_PODS}
            yield cause("GangCannotForm", text, since=group, link="jobset", **more)
        elif (told := self._unfit(group, waiting)) is not None:
            text = (
                f"all {members} pods have to start at the same time, and not all of them find room: "
                f"{shortened(told[0], 120)}; wait, or ask for less"
            )
            more = {"about": group, "pods": len(waiting), "explains": _SHORTAGES}
            yield cause("GangDoesNotFit", text, since=told[1], severity="temporary", link="scheduling", **more)

    def _unfit(self, group: Document, waiting: Sequence[Document]) -> tuple[str, Document] | None:
        """What the scheduler says of a gang that does not fit, and the condition; None if it does not say so."""
        condition = holds(group, "Unschedulable")
        if condition is not None:
            lines = [line for line in str(condition.get("message", "")).splitlines() if line.strip()]
            return (lines[-1] if lines else str(condition.get("reason", ""))), condition
        for pod in waiting:
            scheduled = condition_of(pod, "PodScheduled") or {}
            message = str(scheduled.get("message", ""))
            if any(word in message for word in _GANG_WORDS):
                return plain(message), scheduled
        return None

    def _group_of(self, job: TrainJob) -> Reference:
        return Reference(self.group, job.namespace, job.name)


def plain(message: str) -> str:
    """What a scheduler says of a pod that waits for its gang, without what it says of all pods, and without Go's types.

    The scheduler plugins print quantities as Go holds them: `map[cpu:{{4000 -3} {<nil>} DecimalSI}]` are 4 cpu.
    """
    said = _NODES.sub("", message.partition(" preemption:")[0].partition(" no new claims to deallocate")[0]).rstrip(
        ". "
    )
    if (gap := _GAP.search(said)) is None:
        return said
    lacking = [f"{_amount(number, scale, style)} {name}" for name, number, scale, style in _QUANTITY.findall(gap[1])]
    return f"the nodes lack {', '.join(lacking)}" if lacking else said


def _amount(number: str, scale: str, style: str) -> str:
    found = Quantity.parse(f"{Decimal(number).scaleb(int(scale)):f}")
    return Quantity(found.nanos, Style.BINARY if style == "BinarySI" else found.style).canonical()


def _policies(info: Info) -> list[object]:
    policy = info.pod_group_policy
    if policy is None:
        return []
    return [value for value in (getattr(policy, name) for name in policy.__struct_fields__) if value is not None]


def _starts_later(info: Info) -> str | None:
    """The first replicated job whose pods are made only after those of another one."""
    jobs = info.template.replicated_jobs or []
    startup = info.template.startup_policy
    if startup is not None and startup.startup_policy_order == _IN_ORDER and len(jobs) > 1:
        return jobs[1].name
    return next((job.name for job in jobs if job.depends_on), None)


def _has_no_node(pod: Document) -> bool:
    return (dig(pod, "status.phase") or "Pending") == "Pending" and not dig(pod, "spec.nodeName")


def _later_step(picture: Picture) -> str | None:
    """The step that others of the JobSet wait for to be complete, if there is one that has not ended."""
    jobset = picture.jobset or {}
    ended = {
        status.get("name"): status.get("succeeded") or 0 for status in dig(jobset, "status.replicatedJobsStatus") or ()
    }
    for replicated in dig(jobset, "spec.replicatedJobs") or ():
        for step in replicated.get("dependsOn") or ():
            if step.get("status", "Complete") == "Complete" and not ended.get(step.get("name")):
                return str(step.get("name"))
    return None


def _members(pod_sets: Iterable[PodSet]) -> int:
    """Number of pods of one replica of every pod set, initializers and launcher included."""
    return sum(pod_set.count for pod_set in pod_sets)


def _requests(pod_sets: Iterable[PodSet]) -> Mapping[str, str]:
    """What those pods request together, by resource name in its order, as canonical quantities."""
    total: Amounts = {}
    for pod_set in pod_sets:
        add(total, {name: amount * pod_set.count for name, amount in pod_set.requests().items()})
    return {name: total[name].canonical() for name in sorted(total)}
