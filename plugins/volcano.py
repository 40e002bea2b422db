# SPDX-License-Identifier: Apache-2.0
"""Volcano: gang scheduling with queues, priorities and a limit on the distance of pods in the network."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import LimitRange
from trainwright.api.kubernetes.node.v1 import RuntimeClass
from trainwright.api.trainer.v1alpha1 import TrainJob, VolcanoPodGroupPolicySource
from trainwright.api.volcano.v1beta1 import PodGroup
from trainwright.plugins.contract import (
    APPLY,
    WATCH,
    Component,
    Enqueue,
    FactUnavailable,
    Finding,
    Info,
    Reference,
    Rule,
    Runtime,
    Watch,
    gang_members,
    gang_requests,
    invalid,
    may_regroup,
    owned_metadata,
)

_GROUP: Resource = PodGroup.RESOURCE
_GROUP_NAME = "scheduling.k8s.io/group-name"
_QUEUE = "scheduling.volcano.sh/queue-name"
_BUILT_IN_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
_PRIORITY_CLASS = Resource(
    group="scheduling.k8s.io", version="v1", kind="PriorityClass", plural="priorityclasses", namespaced=False
)


class VolcanoPlugin:
    """Source: spec/plugins.md section 2.10."""

    name = "Volcano"
    rules = (
        Rule.on(_GROUP, *WATCH, *APPLY),
        Rule.on(LimitRange.RESOURCE, *WATCH),
        Rule.on(RuntimeClass.RESOURCE, *WATCH),
        # Not watched: a class that was made a moment ago, in the same file, would not be in the cache yet.
        Rule.on(_PRIORITY_CLASS, "get"),
    )

    def watches(self) -> Sequence[Watch]:
        """Groups of TrainJobs, and what changes the requests of pods that do not exist yet."""
        return (
            Watch(_GROUP, optional=True),
            Watch(LimitRange.RESOURCE, Enqueue.SUSPENDED_IN_NAMESPACE, metadata_only=True, only_with=_GROUP),
            Watch(RuntimeClass.RESOURCE, Enqueue.SUSPENDED_OF_RUNTIME_CLASS, metadata_only=True, only_with=_GROUP),
        )

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:
        """Whether there is a group already."""
        if _policy(runtime) is not None:
            yield _group_of(job)

    def validation_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:  # noqa: ARG002 - the contract's
        """Whether the priority classes exist."""
        if _policy(runtime) is not None:
            yield from map(_class, _named_classes(runtime))

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:  # noqa: ARG002 - the contract's
        """The queue must have a name, and priority classes must exist."""
        if _policy(info.runtime) is None:
            return
        if info.annotations.get(_QUEUE) == "":
            path = f"spec.annotations[{_QUEUE}]"
            yield invalid(path, "", "names no queue; give the queue's name or leave the annotation out")
        for name in _named_classes(info.runtime):
            problem = _class_problem(info, name)
            if problem:
                yield invalid("spec.templateSpec.priorityClassName", name, problem)

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Say on each pod which group it is of."""
        if _policy(info.runtime) is not None:
            info.set_pod_annotation(_GROUP_NAME, job.name, why="the pods' group")

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The group of all pods; a group with running pods is left alone."""
        policy = _policy(info.runtime)
        if policy is None or not may_regroup(job, exists=info.facts.exists(_group_of(job))):
            return
        spec: dict[str, object] = {
            "minMember": gang_members(info.pod_sets),
            "minResources": gang_requests(info.pod_sets),
        }
        if _QUEUE in info.annotations:
            spec["queue"] = info.annotations[_QUEUE]
        classes = [pod_set.priority_class_name for pod_set in info.pod_sets if pod_set.priority_class_name]
        if classes:
            spec["priorityClassName"] = classes[-1]
        if policy.network_topology is not None:
            spec["networkTopology"] = msgspec.to_builtins(policy.network_topology)
        yield Component(
            {
                "apiVersion": _GROUP.api_version,
                "kind": _GROUP.kind,
                "metadata": owned_metadata(job, job.name),
                "spec": spec,
            }
        )


def _policy(runtime: Runtime) -> VolcanoPodGroupPolicySource | None:
    policy = runtime.spec.pod_group_policy if runtime.spec is not None else None
    return policy.volcano if policy is not None else None


def _group_of(job: TrainJob) -> Reference:
    return Reference(_GROUP, job.namespace, job.name)


def _class(name: str) -> Reference:
    return Reference(_PRIORITY_CLASS, "", name)


def _named_classes(runtime: Runtime) -> Iterator[str]:
    """Priority classes of the template that need not exist on every cluster. Patches cannot change them."""
    template = runtime.spec.template if runtime.spec is not None else None
    jobs = template.spec.replicated_jobs if template is not None and template.spec is not None else None
    for replicated in jobs or ():
        pod = replicated.template.spec.template.spec if replicated.template.spec is not None else None
        if pod is not None and pod.priority_class_name and pod.priority_class_name not in _BUILT_IN_CLASSES:
            yield pod.priority_class_name


def _class_problem(info: Info, name: str) -> str:
    if info.facts.offline:
        return ""
    try:
        return "" if info.facts.exists(_class(name)) else "there is no such PriorityClass; its pods would be refused"
    except FactUnavailable as error:
        return str(error)
