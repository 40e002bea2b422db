# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling by the coscheduling plugin of the scheduler plugins.

The runtime names the scheduler that runs coscheduling in schedulerName; the plugin does not set it.
"""

from collections.abc import Mapping
from typing import Any

from trainwright.api.scheduling.v1alpha1 import PodGroup
from trainwright.api.trainer.v1alpha1 import CoschedulingPodGroupPolicySource, TrainJob
from trainwright.plugins.contract import GangScheduler, Info, Runtime

_LABEL = "scheduling.x-k8s.io/pod-group"


class CoSchedulingPlugin(GangScheduler[CoschedulingPodGroupPolicySource]):
    """Makes one PodGroup for all pods of a job, with the schedule timeout of the runtime, and labels the pods.

    For runtimes with `podGroupPolicy.coscheduling`.
    """

    name = "CoScheduling"
    group = PodGroup.RESOURCE
    remedy = "install the scheduler plugins (https://scheduler-plugins.sigs.k8s.io)"
    # The default scheduler may have the plugin, so pods without a schedulerName are fine.
    foreign_schedulers = frozenset({"volcano"})
    scheduler_remedy = "Name the scheduler that runs coscheduling in schedulerName of the runtime"

    def policy_of(self, runtime: Runtime) -> CoschedulingPodGroupPolicySource | None:
        return runtime.spec_or_empty.pod_group_policy_or_empty.coscheduling

    def mark_pods(self, info: Info, job: TrainJob) -> None:
        info.set_pod_label(_LABEL, job.name, why="the pods' group")

    def group_fields(self, info: Info, policy: CoschedulingPodGroupPolicySource) -> Mapping[str, Any]:  # noqa: ARG002 - the contract's
        """How many seconds pods that have a node wait for the others."""
        seconds = policy.schedule_timeout_seconds
        return {"scheduleTimeoutSeconds": seconds} if seconds is not None else {}
