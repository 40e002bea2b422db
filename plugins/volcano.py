# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling by Volcano: queues, priorities and a limit on the distance of pods in the network.

The runtime names Volcano's scheduler in schedulerName; the plugin does not set it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trainwright.api.kubernetes.scheduling.v1 import PriorityClass
from trainwright.api.trainer.v1alpha1 import TrainJob, VolcanoPodGroupPolicySource
from trainwright.api.trainer.v1alpha1.runtimes import pods_of
from trainwright.api.volcano.v1beta1 import PodGroup
from trainwright.plugins.contract import (
    DEFAULT_SCHEDULER,
    FactUnavailable,
    Finding,
    GangScheduler,
    Info,
    Reference,
    Rule,
    Runtime,
    invalid,
)

_GROUP_NAME = "scheduling.k8s.io/group-name"
_QUEUE = "scheduling.volcano.sh/queue-name"
_BUILT_IN_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class VolcanoPlugin(GangScheduler[VolcanoPodGroupPolicySource]):
    """Makes one PodGroup for all pods of a job and annotates the pods.

    For runtimes with `podGroupPolicy.volcano`. The queue comes from an annotation of the template, the priority class
    from the pods, the network topology from the policy. Jobs whose priority classes do not exist are refused.
    """

    name = "Volcano"
    group = PodGroup.RESOURCE
    remedy = "install Volcano (https://volcano.sh)"
    foreign_schedulers = frozenset({DEFAULT_SCHEDULER, "scheduler-plugins-scheduler"})
    scheduler_remedy = "Set schedulerName: volcano in the runtime"

    # Read live: one that is applied together with its job is not in a cache yet.
    rules = (Rule.on(PriorityClass.RESOURCE, "get"),)

    def policy_of(self, runtime: Runtime) -> VolcanoPodGroupPolicySource | None:
        return runtime.spec_or_empty.pod_group_policy_or_empty.volcano

    def mark_pods(self, info: Info, job: TrainJob) -> None:
        info.set_pod_annotation(_GROUP_NAME, job.name, why="the pods' group")

    def group_fields(self, info: Info, policy: VolcanoPodGroupPolicySource) -> Mapping[str, Any]:
        """Queue, priority class of the last pods that have one, and network topology."""
        fields: dict[str, Any] = {}
        if _QUEUE in info.annotations:
            fields["queue"] = info.annotations[_QUEUE]
        classes = [pod_set.priority_class_name for pod_set in info.pod_sets if pod_set.priority_class_name]
        if classes:
            fields["priorityClassName"] = classes[-1]
        if policy.network_topology is not None:
            fields["networkTopology"] = msgspec.to_builtins(policy.network_topology)
        return fields

    def validation_facts(self, runtime: Runtime) -> Iterable[Reference]:
        if self.policy_of(runtime) is not None:
            yield from map(_class, _named_classes(runtime))

    def validate(self, info: Info) -> Iterable[Finding]:
        """The queue must have a name, and priority classes must exist."""
        if self.policy_of(info.runtime) is None:
            return
        if info.annotations.get(_QUEUE) == "":
            path = f"spec.annotations[{_QUEUE}]"
            yield invalid(path, "", "must name a queue; without the annotation Volcano uses its default queue")
        for name in _named_classes(info.runtime):
            problem = _class_problem(info, name)
            if problem:
                yield invalid("spec.templateSpec.priorityClassName", name, problem)


def _class(name: str) -> Reference:
    return Reference(PriorityClass.RESOURCE, "", name)


def _named_classes(runtime: Runtime) -> Iterator[str]:
    """Priority classes of the template that need not exist on every cluster. Patches cannot change them."""
    for _, pod in pods_of(runtime):
        if pod.priority_class_name and pod.priority_class_name not in _BUILT_IN_CLASSES:
            yield pod.priority_class_name


def _class_problem(info: Info, name: str) -> str:
    if info.facts.offline:
        return ""
    try:
        if info.facts.exists(_class(name)):
            return ""
    except FactUnavailable as error:
        return str(error)
    return "this PriorityClass does not exist, so the API server would refuse the pods; create it"
