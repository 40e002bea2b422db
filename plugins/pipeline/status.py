# SPDX-License-Identifier: Apache-2.0
"""Runs the status plugin on one TrainJob: which facts it needs, and the status that it computes.

It does not use the runtime, which may be deleted before its jobs are.
"""

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.plugins.contract import ClusterFacts, Reference
from trainwright.plugins.pipeline.guard import Guard, Inputs
from trainwright.plugins.registry import Registry


class StatusRun:
    """Made by `Pipeline.begin_status`."""

    def __init__(self, registry: Registry, job: TrainJob) -> None:
        self._registry = registry
        self._inputs = Inputs(job)

    def references(self) -> tuple[Reference, ...]:
        """The objects that `status` needs. Raises PipelineError, FactUnavailable."""

        def collect(guard: Guard) -> tuple[Reference, ...]:
            found: dict[Reference, None] = {}
            for entry in self._registry.having("status_facts"):
                found.update(dict.fromkeys(guard.collect(entry, "status_facts", guard.job)))
            return tuple(found)

        return self._inputs.phase(collect)

    def status(self, facts: ClusterFacts) -> Status | None:
        """The new status; None leaves the current one as it is. Raises PipelineError, FactUnavailable."""

        def ask(guard: Guard) -> Status | None:
            for entry in self._registry.having("status"):
                found: Status | None = guard.call(entry, "status", guard.job, facts)
                return found
            return None

        return self._inputs.phase(ask)
