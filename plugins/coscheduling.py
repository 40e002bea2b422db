# SPDX-License-Identifier: Apache-2.0
"""Coscheduling of the scheduler plugins: all pods of a job start together or none does.

The scheduler that knows these groups is named by the runtime; nothing here sets schedulerName.
"""

from collections.abc import Iterable, Sequence

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import LimitRange
from trainwright.api.kubernetes.node.v1 import RuntimeClass
from trainwright.api.scheduling.v1alpha1 import PodGroup
from trainwright.api.trainer.v1alpha1 import CoschedulingPodGroupPolicySource, TrainJob
from trainwright.plugins.contract import (
    APPLY,
    WATCH,
    Component,
    Enqueue,
    Info,
    Reference,
    Rule,
    Runtime,
    Watch,
    gang_members,
    gang_requests,
    may_regroup,
    owned_metadata,
)

_LABEL = "scheduling.x-k8s.io/pod-group"
_GROUP: Resource = PodGroup.RESOURCE


class CoSchedulingPlugin:
    """Source: spec/plugins.md section 2.1."""

    name = "CoScheduling"
    rules = (
        Rule.on(_GROUP, *WATCH, *APPLY),
        Rule.on(LimitRange.RESOURCE, *WATCH),
        Rule.on(RuntimeClass.RESOURCE, *WATCH),
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

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Say on each pod which group it is of."""
        if _policy(info.runtime) is not None:
            info.set_pod_label(_LABEL, job.name, why="the pods' group")

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The group of all pods; a group with running pods is left alone."""
        policy = _policy(info.runtime)
        if policy is None or not may_regroup(job, exists=info.facts.exists(_group_of(job))):
            return
        spec: dict[str, object] = {
            "minMember": gang_members(info.pod_sets),
            "minResources": gang_requests(info.pod_sets),
        }
        if policy.schedule_timeout_seconds is not None:
            spec["scheduleTimeoutSeconds"] = policy.schedule_timeout_seconds
        yield Component(
            {
                "apiVersion": _GROUP.api_version,
                "kind": _GROUP.kind,
                "metadata": owned_metadata(job, job.name),
                "spec": spec,
            }
        )


def _policy(runtime: Runtime) -> CoschedulingPodGroupPolicySource | None:
    policy = runtime.spec.pod_group_policy if runtime.spec is not None else None
    return policy.coscheduling if policy is not None else None


def _group_of(job: TrainJob) -> Reference:
    return Reference(_GROUP, job.namespace, job.name)
